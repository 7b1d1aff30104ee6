package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestRun(t *testing.T) {
	inWorld(t, "Run hands the work's own context on, closes whatever comes, and returns the function's error", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		var inside *session.Work
		rep, err := r.Run(t.Context(), ann, inConversation(v.ID), func(ctx context.Context, wk *session.Work) error {
			inside = wk
			if ctx != wk.Context() {
				t.Error("another context")
			}
			time.Sleep(time.Second)
			return errOutage
		})
		if err != errOutage || rep.Used != time.Second || rep.Work != inside.ID() {
			t.Errorf("Run: %+v, %v", rep, err)
		}
		wantErr(t, "the work", context.Cause(inside.Context()), session.ErrClosed)
		w.gate.wantEndedOnce(t)

		r.fail("settle", 0, errOutage)
		_, err = r.Run(t.Context(), ann, inConversation(v.ID), func(context.Context, *session.Work) error { time.Sleep(time.Second); return nil })
		wantErr(t, "Run whose closing failed", err, errOutage)
		r.meddle(nil)
		_, err = r.Run(t.Context(), eve, inConversation(v.ID), mustNotRun(t))
		wantErr(t, "Run that was not let in", err, session.ErrNotFound)
	})

	inWorld(t, "T-61/T-73: Run closes on a panic, and panics again", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		func() {
			defer func() {
				if got := recover(); got != "boom" {
					t.Errorf("recovered %v", got)
				}
			}()
			r.Run(t.Context(), ann, inConversation(v.ID), func(context.Context, *session.Work) error {
				time.Sleep(time.Second)
				panic("boom")
			})
		}()
		w.gate.wantEndedOnce(t)
		w.wantSlotsFree()
		for _, h := range w.gate.all() {
			if h.used() != time.Second {
				t.Errorf("charged %v, want 1s", h.used())
			}
		}
	})
}

func TestAgentsFolder(t *testing.T) {
	inWorld(t, "each work's processes see their own agent's folder, and nobody can bind anything into the sandbox", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.withMounts(mount.BestEffort))
		s, v := r.spawn(ann)
		dirs := map[string]bool{}
		for _, q := range []session.WorkRequest{inConversation(v.ID), inConversation(r.add(ann, s.ID, "tester").ID)} {
			q.AgentName = "Some Name"
			wk := r.mustWork(ann, q)
			var dir string
			w.boxes.Handle("where", whereHandler(&dir))
			if exit, err := sandbox.Run(t.Context(), wk.Sandbox(), sandbox.Cmd{Argv: []string{"where"}}, nil, nil); err != nil || exit.Code != 0 {
				t.Fatalf("%+v, %v", exit, err)
			}
			if dir == "" || dirs[dir] || len(wk.Mounts()) != 1 || dir != wk.Mounts()[0].Path || !strings.Contains(wk.Guidance(), dir) {
				t.Errorf("folder %q, mounts %+v, guidance %q", dir, wk.Mounts(), wk.Guidance())
			}
			dirs[dir] = true
			if _, has := sandbox.As[sandbox.Binder](wk.Sandbox()); has {
				t.Error("the holder of a work can bind")
			}
		}
		wk := r.mustWork(access.Actor{User: "ann"}, inSession(s.ID))
		if len(wk.Mounts()) > 0 || wk.Guidance() != "" {
			t.Errorf("without an agent: %+v %q", wk.Mounts(), wk.Guidance())
		}
	})
	inWorld(t, "where a folder is not required work goes on without, and says so", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.withMounts(mount.BestEffort))
		_, v := r.spawn(ann)
		r.fail("mount", 0, errOutage)
		wk := r.mustWork(ann, inConversation(v.ID))
		if m := wk.Mounts(); len(m) != 1 || m[0].State != mount.Failed || !errors.Is(m[0].Cause, errOutage) || wk.Guidance() == "" {
			t.Errorf("mounts %+v, guidance %q", m, wk.Guidance())
		}
	})
}
