package session_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// Who may not run code any more does not go on running it.
func TestWorkIsRevoked(t *testing.T) {
	for what, c := range map[string]struct {
		act    func(w *world)
		reason access.Reason // 0 = nothing to audit
	}{
		"was removed from the project":              {func(w *world) { w.dir.RemoveMember("p", "bob") }, access.ReasonNotMember},
		"may not run code any more":                 {func(w *world) { w.dir.SetCode("bob", "p", false) }, access.ReasonNoCode},
		"works with an agent that may not any more": {func(w *world) { w.dir.AddAgent("p", "builder", false) }, access.ReasonAgentNoCode},
		"works in a project that is gone":           {func(w *world) { w.dir.RemoveProject("p") }, 0},
	} {
		inWorld(t, "who "+what+" is stopped within a minute, wherever that happens, and the audit hears of it", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, v := r.spawn(bob)
			mine := r.mustWork(ann, inSession(s.ID))
			wk := r.mustWork(bob, inConversation(v.ID))
			p := start(t, wk)
			time.Sleep(10 * time.Minute)
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Fatalf("stopped for %v", cause)
			}
			w.audited()
			c.act(w)
			begun := time.Now()
			<-wk.Context().Done()
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("stopped after %v", took)
			}
			wantStopped(t, wk, p, session.ErrRevoked, 0, 0)
			var want []access.Event
			if c.reason != 0 {
				want = []access.Event{{Actor: bob, Verb: "work on", Object: string(v.ID), Reason: c.reason}}
			}
			if got := w.audited(); !slices.EqualFunc(got, want, func(a, b access.Event) bool {
				return a.Actor.User == b.Actor.User && a.Verb == b.Verb && a.Object == b.Object && a.Reason == b.Reason
			}) {
				t.Errorf("audited %+v, want %+v", got, want)
			}
			if cause := context.Cause(mine.Context()); c.reason != 0 && cause != nil {
				t.Errorf("the other's work was stopped for %v", cause)
			}
			w.gate.wantEndedOnceBut(t, 1)
		})
	}

	for what, c := range map[string]func(w *world, r *replica, on bool){
		"the role is unknown": func(w *world, _ *replica, on bool) {
			w.dir.Blind(map[bool]access.Want{true: access.WantRole}[on])
		},
		"it is unknown who may run code": func(w *world, _ *replica, on bool) {
			w.dir.Blind(map[bool]access.Want{true: access.WantCode}[on])
		},
		"the directory is down": func(w *world, _ *replica, on bool) { w.dir.Fail(map[bool]error{true: errOutage}[on]) },
		"the directory hangs": func(_ *world, r *replica, on bool) {
			r.meddle(map[bool]func(string, int, int) trouble{true: hang("ask"), false: nil}[on])
		},
	} {
		inWorld(t, "while "+what+" work goes on for a quarter of an hour and no longer, and the audit hears nothing", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(bob)
			wk := r.mustWork(bob, inSession(s.ID))
			p := start(t, wk)
			for range 5 { // a passing fault stops nothing
				c(w, r, true)
				time.Sleep(12 * time.Minute)
				c(w, r, false)
				time.Sleep(3 * time.Minute)
			}
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Fatalf("stopped for %v", cause)
			}
			w.audited()
			c(w, r, true)
			wantStopped(t, wk, p, session.ErrRevoked, 13*time.Minute, 15*time.Minute)
			if got := w.audited(); len(got) > 0 {
				t.Errorf("audited %+v", got)
			}
		})
	}

	inWorld(t, "a lease that lasts for hours keeps nobody in", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Lease, c.Hold = 3*time.Hour, 3*time.Hour })
		s, _ := r.spawn(bob)
		wk := r.mustWork(bob, inSession(s.ID))
		time.Sleep(10*time.Minute + time.Second)
		w.dir.RemoveMember("p", "bob")
		time.Sleep(time.Minute)
		wantErr(t, "Cause", context.Cause(wk.Context()), session.ErrRevoked)
	})
}
