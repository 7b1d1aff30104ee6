package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Rule 14: one creates, the others wait on the row.
func TestWaiters(t *testing.T) {
	inWorld(t, "rule 14: waiters never create; at the end of their context they are told when to come again", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		creator := r.later(t.Context(), inSession(s.ID))
		<-answer.Reached()
		time.Sleep(10 * time.Second)

		replicas := []*replica{r, w.replica()}
		errs := together(10, func(i int) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := replicas[i%2].work(ctx, ann, inSession(s.ID))
			return err
		})
		for _, err := range errs {
			e := wantType[*sandbox.ProvisioningError](t, "a waiter", err)
			wantErr(t, "a waiter", err, context.DeadlineExceeded)
			// Of the window of 75 s, 15 s have passed, and at most half a second since the last look.
			if e.RetryAfter > time.Minute+500*time.Millisecond || e.RetryAfter < time.Minute {
				t.Errorf("RetryAfter %v, want 1m", e.RetryAfter)
			}
		}
		answer.Open()
		if err := <-creator; err != nil {
			t.Errorf("the creator: %v", err)
		}
		if w.created() != 1 {
			t.Errorf("%d creates", w.created())
		}
		w.gate.wantEndedOnceBut(t, 1)
	})

	inWorld(t, "rule 14: so they are where the context ends in the midst of a look", immediate, func(t *testing.T, w *world) {
		r, waiter := w.replica(), w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		creator := r.later(t.Context(), inSession(s.ID))
		<-answer.Reached()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		waiter.meddle(func(c string, _, nth int) trouble {
			if c == "load" && nth == 2 { // a database that does not answer in time
				return trouble{hold: func(ctx context.Context) { <-ctx.Done() }}
			}
			return trouble{}
		})
		_, err := waiter.work(ctx, ann, inSession(s.ID))
		wantType[*sandbox.ProvisioningError](t, "the waiter", err)
		answer.Open()
		<-creator
	})

	inWorld(t, "rule 14: a creator whose context ends leaves a create that goes on and is used by whoever comes", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Hold: answer}))
		ctx, cancel := context.WithCancel(t.Context())
		creator := r.later(ctx, inSession(s.ID))
		<-answer.Reached()
		cancel()
		wantErr(t, "the creator", <-creator, context.Canceled)
		if live := w.gate.live(); len(live) > 0 {
			t.Errorf("holds %v", live)
		}
		time.AfterFunc(time.Second, answer.Open)
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
		if w.created() != 1 {
			t.Errorf("%d creates", w.created())
		}
	})
}

// Rules 8 and 9.
func TestAttempts(t *testing.T) {
	inWorld(t, "rule 9: while the provider says starting the deadline is renewed, and the machine is used once it runs", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Status: sandbox.StatusStarting}))
		time.AfterFunc(4*time.Minute, w.letRun)
		begun := time.Now()
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
		if w.created() != 1 || time.Since(begun) < 4*time.Minute || time.Since(begun) > 4*time.Minute+76*time.Second {
			t.Errorf("%d creates in %v", w.created(), time.Since(begun))
		}
	})

	inWorld(t, "rule 9: there is a hard maximum, after which the attempt is torn down and the next one waits", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(always(memory.OpCreate, memory.Fault{Status: sandbox.StatusStarting}))
		for attempt := int64(1); attempt <= 3; attempt++ {
			begun := time.Now()
			_, err := r.work(t.Context(), ann, inSession(s.ID))
			e := wantType[*sandbox.AttemptsError](t, "Open", err)
			if most := 750 * time.Second; time.Since(begun) < most || time.Since(begun) > most+time.Second {
				t.Errorf("attempt %d took %v, want 12m30s", attempt, time.Since(begun))
			}
			if pause := time.Second << (attempt - 1); e.Attempts != attempt || e.RetryAfter > pause || e.RetryAfter <= pause-500*time.Millisecond {
				t.Errorf("attempt %d: %+v, want a pause of %v", attempt, e, pause)
			}
			_, err = r.work(t.Context(), ann, inSession(s.ID))
			wantType[*sandbox.AttemptsError](t, "Open during the pause", err)
			if w.created() != int(attempt) {
				t.Errorf("%d creates in attempt %d", w.created(), attempt)
			}
			time.Sleep(e.RetryAfter)
		}
		w.boxes.Inject(nil)
		r.mustWork(ann, inSession(s.ID))
		r.settle()
		w.wantOneMachine(s.ID)
		if row := w.snap(s.ID).Sandbox; row.Attempts != 0 || row.Generation != 4 {
			t.Errorf("row %+v", row)
		}
	})

	inWorld(t, "rule 9: a machine that has failed is given up and killed by whoever comes after the deadline", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Status: sandbox.StatusFailed}))
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantType[*sandbox.AttemptsError](t, "Open", err)
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.Destroying || len(w.boxes.Machines()) > 0 {
			t.Errorf("row %v, machines %+v", row.State, w.boxes.Machines())
		}
		time.Sleep(time.Second)
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "rule 9: a create that surely was not sent leaves nothing, and may be tried again at once", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{Fail: sandbox.ErrNotSent}))
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantErr(t, "Open", err, session.ErrUnavailable)
		if row := w.snap(s.ID).Sandbox; row.State != sandbox.None || row.Attempts != 0 {
			t.Errorf("row %+v", row)
		}
		r.mustWork(ann, inSession(s.ID))
		if row := w.snap(s.ID).Sandbox; row.Generation != 2 {
			t.Errorf("rule 2: generation %d, want 2: none is used twice", row.Generation)
		}
	})

	inWorld(t, "rule 8: the sender asks for nothing that could be answered after the deadline, also where the commit's answer took long", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.meddle(func(c string, _, nth int) trouble {
			if c == "commit" && nth == 1 { // the intent is committed, and the answer lost after 40 of its 75 s
				return trouble{after: session.ErrUnknown, late: func(context.Context) { time.Sleep(40 * time.Second) }}
			}
			return trouble{}
		})
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantErr(t, "Open", err, session.ErrUnavailable)
		if w.created() != 0 {
			t.Error("a create was sent 40 s after an intent that allows 75 s for a call of 60 s")
		}
		r.mustWork(ann, inSession(s.ID))
		w.wantOneMachine(s.ID)
	})

	inWorld(t, "an intent whose commit was unanswered is performed once, within its time", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, _ := r.spawn(ann)
		r.lose("commit", 1, session.ErrUnknown)
		r.mustWork(ann, inSession(s.ID))
		if row := w.snap(s.ID).Sandbox; w.created() != 1 || row.Generation != 1 {
			t.Errorf("%d creates, generation %d", w.created(), row.Generation)
		}
	})
}

// Rule 12: a machine that is bound to a host.
func TestElsewhere(t *testing.T) {
	inWorld(t, "rule 12: from another host a machine is elsewhere, never lost, and nothing is written", immediate, func(t *testing.T, w *world) {
		hosts := map[string]*memory.Sandboxes{}
		at := func(host string) *replica {
			hosts[host] = memory.NewSandboxes(&memory.SandboxOptions{Host: host})
			return w.replica(func(c *session.Config) {
				line := c.Sandboxes[0].(wiredProvider).line
				c.Sandboxes = []sandbox.Provider{wiredProvider{hosts[host], line, w}}
			})
		}
		here, there := at("h1"), at("h2")
		s, _ := here.spawn(ann)
		closeWork(t, here.mustWork(ann, inSession(s.ID)))
		before := w.snap(s.ID).Sandbox
		if before.Host != "h1" {
			t.Fatalf("row %+v", before)
		}
		there.meddle(nil)
		for range 3 {
			_, err := there.work(t.Context(), ann, inSession(s.ID))
			if e := wantType[*session.ElsewhereError](t, "Open on another host", err); e.Session != s.ID || e.Host != "h1" {
				t.Errorf("%+v", e)
			}
			if status, code, sentence := problem(t, err); status != 421 || code != "elsewhere" || sentence == "" {
				t.Errorf("Problem %d %s %s", status, code, sentence)
			}
			time.Sleep(time.Hour)
		}
		if got := w.snap(s.ID).Sandbox; got.State != sandbox.Live || got.Version != before.Version || there.count("commit", "create") > 0 {
			t.Errorf("row %+v, calls %v", got, there.calls())
		}
		wantReport(t, "End on another host", there.end(ann, s.ID), session.EndReport{Ended: true, Pending: true})
		if rep := there.reclaim(); len(rep.Items) > 0 {
			t.Errorf("the other host's Keeper took on %+v", rep)
		}
		if rep := here.reclaim(); rep.Proven != 1 || len(hosts["h1"].Machines()) > 0 {
			t.Errorf("its own: %+v", rep)
		}
	})
}

func TestPlacement(t *testing.T) {
	place := func(at session.Placement, err error) func(*session.Config) {
		return func(c *session.Config) {
			c.Place = func(session.Placing) (session.Placement, error) { return at, err }
		}
	}
	inWorld(t, "what the host chooses is stored with the intent and asked for; no name is the first provider", immediate, func(t *testing.T, w *world) {
		r := w.replica(place(session.Placement{Spec: sandbox.Spec{Image: "go", Env: []string{"A=1"}}}, nil))
		s, _ := r.spawn(ann)
		r.mustWork(ann, inSession(s.ID))
		m, row := w.boxes.Machines()[0], w.snap(s.ID).Sandbox
		if row.Provider != "memory" || row.Spec.Image != "go" || m.Spec.Image != "go" || m.Spec.Env[0] != "A=1" {
			t.Errorf("row %+v, machine %+v", row, m)
		}
		want := map[string]string{sandbox.LabelDeployment: "bunkroom", sandbox.LabelSandbox: string(row.ID), sandbox.LabelGeneration: "1"}
		for k, v := range want {
			if m.Labels[k] != v {
				t.Errorf("rule 2: label %s is %q, want %q", k, m.Labels[k], v)
			}
		}
	})
	inWorld(t, "the host is told whose session it is and what the payer's plan is", immediate, func(t *testing.T, w *world) {
		var told session.Placing
		r := w.replica(func(c *session.Config) {
			c.Place = func(p session.Placing) (session.Placement, error) {
				told = p
				return session.Placement{Provider: "memory"}, nil
			}
		})
		s, _ := r.spawn(bob)
		r.mustWork(bob, inSession(s.ID))
		if told.Session.ID != s.ID || told.Payer != "ann" || told.Plan != access.Plan("pro") {
			t.Errorf("told %+v", told)
		}
	})
	for what, c := range map[string]struct {
		change func(*session.Config)
		is     func(error) bool
	}{
		"a provider that is not configured": {place(session.Placement{Provider: "nowhere"}, nil), func(err error) bool {
			_, ok := errors.AsType[*access.FieldError](err)
			return ok
		}},
		"none, for a reason": {place(session.Placement{}, errOutage), func(err error) bool {
			return errors.Is(err, session.ErrUnavailable) && errors.Is(err, errOutage)
		}},
	} {
		inWorld(t, "where the host chooses "+what+" nothing is written and the hold is given back", immediate, func(t *testing.T, w *world) {
			r := w.replica(c.change)
			s, _ := r.spawn(ann)
			r.meddle(nil)
			_, err := r.work(t.Context(), ann, inSession(s.ID))
			if err == nil || !c.is(err) {
				t.Errorf("Open: %v", err)
			}
			if n := r.count("commit", "create"); n > 0 {
				t.Errorf("called %v", r.calls())
			}
			w.gate.wantEndedOnce(t)
		})
	}
}
