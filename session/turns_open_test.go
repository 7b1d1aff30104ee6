package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestOpenForATurn(t *testing.T) {
	inWorld(t, "work for a turn takes a conversation, and a turn that is had: else nothing is woken, and nothing charged", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		one := w.turn(v.ID)
		for what, c := range map[string]struct {
			q     session.WorkRequest
			field string
		}{
			"a negative turn":           {session.WorkRequest{Conversation: v.ID, Turn: -1, Ensure: true}, "Turn"},
			"a turn of no conversation": {session.WorkRequest{Session: s.ID, Turn: one.Fence, Ensure: true}, "Conversation"},
		} {
			_, err := r.work(t.Context(), ann, c.q)
			wantField(t, what, err, c.field)
		}
		two := w.turn(v.ID)
		later := inTurn(two)
		later.Turn++
		for what, q := range map[string]session.WorkRequest{"a turn that was taken over": inTurn(one), "a turn that never was": later} {
			_, err := r.work(t.Context(), ann, q)
			wantErr(t, what, err, session.ErrFenced)
		}
		if w.created() > 0 || len(w.gate.live()) > 0 || len(w.forTurns(v.ID)) > 0 {
			t.Errorf("%d machines, holds %v, works %+v", w.created(), w.gate.live(), w.forTurns(v.ID))
		}
		w.wantSlotsFree()
		closeWork(t, r.mustWork(ann, inTurn(two)))
		w.wantSlotsFree()
	})

	inWorld(t, "the lease of a work names its conversation, be it for a turn or not", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		one := w.turn(v.ID)
		for want, q := range map[session.Lease]session.WorkRequest{
			{Conversation: v.ID, Turn: one.Fence}: inTurn(one),
			{Conversation: v.ID}:                  inConversation(v.ID),
			{}:                                    inSession(s.ID),
		} {
			wk := r.mustWork(ann, q)
			l, err := w.db.Leases().Held(t.Context(), session.LeaseWork, string(s.ID))
			if err != nil || l.Holder != wk.ID() || l.Conversation != want.Conversation || l.Turn != want.Turn {
				t.Errorf("%+v: lease %+v, %v", q, l, err)
			}
			closeWork(t, wk)
		}
	})

	for what, call := range map[string]string{"while its machine is made": "create", "while its machine is attached to": "attach"} {
		for _, own := range []bool{true, false} {
			inWorld(t, fmt.Sprintf("a work for a turn that is taken over %s does not begin, and leaves nothing; by this process: %v", what, own), immediate, func(t *testing.T, w *world) {
				yard := newGraveyard()
				r, other := w.replica(yard.on()), w.replica(yard.on())
				_, v := r.spawn(ann)
				one := w.turn(v.ID)
				next := other
				if own {
					next = r
				}
				r.meddle(func(c string, _, nth int) trouble {
					if c == call && nth == 1 {
						return trouble{late: func(context.Context) {
							w.turn(v.ID)
							// Where the machine is being made nothing runs in it; else what runs was ended.
							if err := next.EndTurns(context.Background(), v.ID, one.Fence); err != nil {
								t.Errorf("EndTurns: %v", err)
							}
						}}
					}
					return trouble{}
				})
				_, err := r.work(t.Context(), ann, inTurn(one))
				wantErr(t, "Open", err, session.ErrFenced)
				if len(w.gate.live()) > 0 || len(w.forTurns(v.ID)) > 0 {
					t.Errorf("holds %v, works %+v", w.gate.live(), w.forTurns(v.ID))
				}
				w.wantSlotsFree()
			})
		}
	}

	inWorld(t, "a work for a turn that is lost stops as it next renews itself, by whosever context it was opened", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		one := w.turn(v.ID)
		wk, free := r.mustWork(ann, inTurn(one)), r.mustWork(ann, inConversation(v.ID))
		time.Sleep(time.Minute)
		if err := wk.Context().Err(); err != nil {
			t.Fatalf("while the turn is had: %v", context.Cause(wk.Context()))
		}
		w.turn(v.ID)
		time.Sleep(21 * time.Second)
		if cause := context.Cause(wk.Context()); !errors.Is(cause, session.ErrFenced) {
			t.Errorf("it has ended with %v", cause)
		}
		if _, err := wk.Sandbox().Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("it starts something: %v", err)
		}
		if err := free.Context().Err(); err != nil {
			t.Errorf("a work for no turn has ended: %v", context.Cause(free.Context()))
		}
		closeWork(t, free)
		if rep, err := wk.Close(t.Context()); err != nil || rep.Used < time.Minute || rep.Used > 81*time.Second {
			t.Errorf("it is accounted for: %+v, %v", rep, err)
		}
		w.wantSlotsFree()
	})

	inWorld(t, "a work does not begin where nobody can say whether its turn is had still", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Leases = blindLeases{c.Leases} })
		_, v := r.spawn(ann)
		one := w.turn(v.ID)
		_, err := r.work(t.Context(), ann, inTurn(one))
		wantErr(t, "Open", err, errOutage)
		w.wantSlotsFree()
		if _, err := r.work(t.Context(), ann, inConversation(v.ID)); err != nil {
			t.Errorf("for no turn: %v", err)
		}
	})
}
