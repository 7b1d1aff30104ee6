package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// giveUp is when a caller gives up: its context ends at one of the calls that come of its request.
type giveUp struct {
	name string
	at   func(call string, cancel func()) trouble
	lost bool // what was asked for may have happened all the same, unheard of
}

var givesUp = []giveUp{
	{"before it is made", func(_ string, cancel func()) trouble {
		return trouble{hold: func(context.Context) { cancel() }}
	}, false},
	{"after it is done", func(_ string, cancel func()) trouble {
		return trouble{late: func(context.Context) { cancel() }}
	}, false},
	{"and its answer is lost with the context", func(call string, cancel func()) trouble {
		return trouble{late: func(context.Context) { cancel() }, answer: func(ctx context.Context, err error) error {
			switch {
			case err != nil || ctx.Err() == nil: // a call that does not hang on the request goes on
				return err
			case call == "commit":
				return fmt.Errorf("%w: %w", session.ErrUnknown, ctx.Err())
			}
			return ctx.Err()
		}}
	}, true},
}

// stage is what there is before a request: a session, and the environment it borrows from.
type stage struct {
	env     session.EnvironmentID // empty = the session has a sandbox of its own
	session session.ID
	work    *session.Work
}

// request is one that may be given up, and repeated.
type request struct {
	name    string
	arrange func(r *replica, st *stage)
	ask     func(ctx context.Context, r *replica, st *stage) error
}

// openAndClose opens work in the stage's session, for an agent with a folder, and closes it where it was had.
func openAndClose(q session.WorkRequest) func(ctx context.Context, r *replica, st *stage) error {
	return func(ctx context.Context, r *replica, st *stage) error {
		sum, err := r.w.db.Sessions().List(context.Background(), session.ListQuery{
			Project: "p", Session: st.session, Ended: true, Limit: 1,
		})
		if err != nil {
			return err
		}
		q.Conversation = sum.Items[0].Conversations[0].ID
		wk, err := r.Open(ctx, ann, q)
		if err != nil {
			return err
		}
		p, err := wk.Sandbox().Start(context.Background(), sandbox.Cmd{Argv: []string{"sleep", "24h"}})
		switch {
		case err == nil:
			closeWork(r.w, wk)
			if exit, err := p.Wait(context.Background()); err != nil || exit.Reason != sandbox.Cancelled {
				r.w.Errorf("the process: %+v, %v", exit, err)
			}
		case !errors.Is(err, sandbox.ErrClosed) || ctx.Err() == nil:
			r.w.Errorf("Start: %v", err)
			fallthrough
		default:
			closeWork(r.w, wk)
		}
		return nil
	}
}

// Whoever gives up, at whichever call: the request was done or the error says
// otherwise, nothing is left behind, and the same again succeeds.
func TestGivingUpAtEveryStep(t *testing.T) {
	for _, q := range []request{
		{"CreateEnvironment", nil, func(ctx context.Context, r *replica, _ *stage) error {
			return second(r.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: "p"}))
		}},
		{"Spawn", nil, func(ctx context.Context, r *replica, st *stage) error {
			_, _, err := r.Spawn(ctx, ann, session.Spawn{Project: "p", Agent: "builder", Environment: st.env, Conversation: callersID})
			return err
		}},
		{"AddConversation", nil, func(ctx context.Context, r *replica, st *stage) error {
			return second(r.AddConversation(ctx, ann, session.AddConversation{Session: st.session, Agent: "tester", Conversation: callersID}))
		}},
		{"Open from cold", nil, openAndClose(session.WorkRequest{Ensure: true})},
		{"Open of what is warm", func(r *replica, st *stage) {
			closeWork(r.w, r.mustWork(ann, inSession(st.session)))
		}, openAndClose(session.WorkRequest{Ensure: true})},
		{"Open of what has ended", func(r *replica, st *stage) {
			closeWork(r.w, r.mustWork(ann, inSession(st.session)))
			r.end(ann, st.session)
		}, openAndClose(session.WorkRequest{Ensure: true, Reopen: true})},
		{"Close", func(r *replica, st *stage) {
			st.work = r.mustWork(ann, inSession(st.session))
			start(r.w, st.work)
			time.Sleep(time.Second)
		}, func(ctx context.Context, _ *replica, st *stage) error { return second(st.work.Close(ctx)) }},
		{"End", func(r *replica, st *stage) {
			closeWork(r.w, r.mustWork(ann, inSession(st.session)))
		}, func(ctx context.Context, r *replica, st *stage) error { return second(r.End(ctx, ann, st.session)) }},
		{"Reopen", func(r *replica, st *stage) { r.end(ann, st.session) }, func(ctx context.Context, r *replica, st *stage) error {
			return second(r.Reopen(ctx, ann, st.session))
		}},
		{"DeleteEnvironment", func(r *replica, st *stage) {
			if st.env == "" {
				st.env = r.newEnvironment(ann)
			}
			closeWork(r.w, r.mustWork(ann, inSession(st.session)))
		}, func(ctx context.Context, r *replica, st *stage) error {
			return second(r.DeleteEnvironment(ctx, ann, st.env))
		}},
	} {
		for _, borrows := range []bool{false, true} {
			for what, caps := range map[string]sandbox.Caps{"immediate": immediate, "lagging": lagging} {
				for _, g := range givesUp {
					t.Run(fmt.Sprintf("%s, borrowed %v, %s: a call is given up %s", q.name, borrows, what, g.name), func(t *testing.T) {
						n, reached := 0, true
						for reached {
							n++
							t.Run(fmt.Sprint(n), func(t *testing.T) {
								synctest.Test(t, func(t *testing.T) { reached = newWorld(t, caps).givenUp(q, g, borrows, n) })
							})
						}
						if n < 3 {
							t.Errorf("only %d calls were reached", n-1)
						}
					})
				}
			}
		}
	}
}

// givenUp makes a request that is given up at its nth call, and reports whether there was such a call.
func (w *world) givenUp(q request, g giveUp, borrows bool, n int) (reached bool) {
	first, st := w.replica(), &stage{}
	if borrows {
		st.env = first.newEnvironment(ann)
		s, _ := first.borrow(ann, st.env)
		st.session = s.ID
	} else {
		s, _ := first.spawn(ann)
		st.session = s.ID
	}
	r := w.replica(w.withMounts(mount.Required))
	if q.arrange != nil {
		q.arrange(r, st)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	var at string
	r.meddle(func(call string, i, _ int) trouble {
		if i != n {
			return trouble{}
		}
		reached, at = true, call
		return g.at(call, cancel)
	})
	err := q.ask(ctx, r, st)
	switch ended := ctx.Err() != nil; {
	case err == nil:
	case !ended || !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrNotFound):
		// Whether the actor may could not be found out under the same context, and unknown hides.
		w.Errorf("given up at %s: %v", at, err)
	case !g.lost && errors.Is(err, session.ErrUnknown):
		w.Errorf("given up at %s: %v, though every answer came", at, err)
	case g.lost && at == "commit" && !strings.HasPrefix(q.name, "Open") && !errors.Is(err, session.ErrUnknown):
		w.Errorf("given up at %s: %v, which does not tell that it may have happened", at, err)
	}
	synctest.Wait() // a create goes on

	if open := r.handles(0); open != 0 {
		w.Errorf("given up at %s: %d handles left", at, open)
	}
	if m, u := r.count("mount"), r.count("unmount"); m != u && !(g.lost && at == "mount") {
		w.Errorf("given up at %s: %d folders mounted, %d unmounted", at, m, u)
	}
	for _, m := range w.boxes.Machines() {
		if m.Processes > 0 {
			w.Errorf("given up at %s: %d processes left", at, m.Processes)
		}
	}
	w.wantNoStrays()
	r.meddle(nil)
	if g.lost { // what nobody heard of runs out
		time.Sleep(3 * time.Minute)
		r.slots(w)
	} else {
		w.gate.wantEndedOnce(w)
	}
	if live := w.gate.live(); len(live) > 0 {
		w.Errorf("given up at %s: holds left: %v", at, live)
	}
	w.wantSlotsFree()

	err = q.ask(w.Context(), r, st)
	if pause, ok := errors.AsType[*sandbox.AttemptsError](err); g.lost && ok { // an intent of which nobody heard has to run out
		time.Sleep(pause.RetryAfter)
		err = q.ask(w.Context(), r, st)
	}
	if err != nil {
		w.Errorf("given up at %s, and the same again: %v", at, err)
	}
	w.converge(w.replica())
	return reached
}

// wantNoStrays fails the test where there is a machine of which neither a row nor the outbox knows.
func (w *world) wantNoStrays() {
	w.Helper()
	rows, dead := append(w.all(), w.allEnvironments()...), w.outbox()
	for _, m := range w.boxes.Machines() {
		known := slices.ContainsFunc(rows, func(s session.Snapshot) bool {
			return s.Sandbox.Name == m.Name && (s.Sandbox.Incarnation == "" || s.Sandbox.Incarnation == m.Incarnation)
		}) || slices.ContainsFunc(dead, func(t sandbox.Tombstone) bool {
			return t.Name == m.Name && (t.Incarnation == "" || t.Incarnation == m.Incarnation)
		})
		if !known {
			w.Errorf("nobody knows of machine %+v", m)
		}
	}
}
