package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
)

// crowd is n sessions of project p without machines.
func (r *replica) crowd(n int) {
	r.w.Helper()
	for range n {
		r.spawn(ann)
	}
}

func TestPurgeInBatches(t *testing.T) {
	inWorld(t, "a hundred rows at a time, with a report after each, in two calls of the store for each and one more", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 1000
		r := w.purger()
		r.crowd(250)
		r.meddle(nil)
		var told []int
		rep, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{Progress: func(p session.PurgeReport) {
			told = append(told, p.Sessions+p.Conversations)
			if p.Done {
				t.Error("done before it was")
			}
		}})
		if err != nil || rep.Sessions != 250 || rep.Conversations != 250 || !rep.Done {
			t.Errorf("%+v, %v", rep, err)
		}
		if diff := cmp.Diff([]int{100, 200, 250, 350, 450, 500}, told); diff != "" {
			t.Errorf("progress (-want +got)\n%s", diff)
		}
		if calls := r.calls(); len(calls) != 2*6+2 {
			t.Errorf("%d calls: %v", len(calls), calls)
		}
	})

	inWorld(t, "it can be broken off between two batches, says how far it came, and goes on from there", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 1000
		r := w.purger()
		r.crowd(250)
		ctx, cancel := context.WithCancelCause(t.Context())
		rep, err := r.Purge(ctx, session.PurgeTarget{Project: "p"}, session.PurgeOptions{Progress: func(session.PurgeReport) { cancel(errOutage) }})
		wantErr(t, "Purge", err, errOutage)
		if rep.Sessions != 100 || rep.Done || len(w.all()) != 150 {
			t.Errorf("%+v, %d left", rep, len(w.all()))
		}
		if rep, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p"}, session.PurgeOptions{}); err != nil || rep.Sessions != 150 || !rep.Done {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

// purger is a process that deletes what other rooms keep, too.
func (w *world) purger(rooms ...session.Purger) *replica {
	return w.replica(func(c *session.Config) {
		c.Store = ownStore{c.Store.(*wiredStore)}
		c.Purgers = rooms
	})
}

// room keeps things that a purge is to delete.
type room struct {
	name   string
	things int
	fault  error // of the third call
	calls  int
	log    *[]string
	saw    func(session.PurgeTarget) // what there is when it is asked
}

func (r *room) Purge(_ context.Context, t session.PurgeTarget, limit int) (int, error) {
	r.calls++
	if r.log != nil {
		*r.log = append(*r.log, r.name)
	}
	if r.saw != nil {
		r.saw(t)
	}
	if r.fault != nil && r.calls > 2 {
		return 0, r.fault
	}
	n := min(limit, r.things)
	r.things -= n
	return n, nil
}

func TestPurgers(t *testing.T) {
	for _, c := range []struct {
		target session.PurgeTarget
		want   []string // of a session and its conversation, what there is when the rooms are asked
	}{
		{session.PurgeTarget{Project: "p", History: true}, []string{"conversation"}},
		{session.PurgeTarget{Project: "p"}, []string{"conversation"}},
		{session.PurgeTarget{User: "ann", History: true}, []string{"conversation"}},
		{session.PurgeTarget{Session: "the session", History: true}, []string{"session ended", "conversation"}},
		{session.PurgeTarget{Session: "the session"}, []string{"conversation"}},
	} {
		inWorld(t, fmt.Sprintf("of %+v the rooms are asked while %v stands", c.target, c.want), immediate, func(t *testing.T, w *world) {
			var v session.Conversation
			var s session.Session
			look := &room{name: "a", things: 1, saw: func(got session.PurgeTarget) {
				if got != c.target {
					t.Errorf("asked for %+v", got)
				}
				var there []string
				for _, at := range []session.Address{{Session: s.ID}, {Conversation: v.ID}} {
					sn, err := w.db.Sessions().Load(t.Context(), at)
					switch {
					case err == nil && at.Session != "" && sn.Session.Ended():
						there = append(there, "session ended")
					case err == nil && at.Session != "":
						there = append(there, "session")
					case err == nil:
						there = append(there, "conversation")
					}
				}
				if diff := cmp.Diff(c.want, there); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}}
			r := w.purger(look)
			s, v = r.spawn(ann)
			if c.target.Session != "" {
				c.target.Session = s.ID
			}
			rep, err := r.Purge(t.Context(), c.target, session.PurgeOptions{})
			if err != nil || look.calls != 2 || rep.Purgers[0] != (session.PurgerReport{Deleted: 1}) || rep.Sessions != 1 {
				t.Errorf("%+v, %v, %d calls", rep, err, look.calls)
			}
		})
	}

	inWorld(t, "a room is asked until it has nothing left, a batch at a time, in order; one that fails stops no other, is told, and what comes after is left for the next purge", immediate, func(t *testing.T, w *world) {
		var log []string
		rooms := []*room{{name: "a", things: 250, log: &log}, {name: "b", things: 999, fault: errOutage, log: &log}, {name: "c", things: 1, log: &log}}
		r := w.purger(rooms[0], rooms[1], rooms[2])
		s, v := r.spawn(ann)
		rep, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{})
		wantErr(t, "Purge", err, errOutage)
		if diff := cmp.Diff(strings.Fields("a a a a b b b c c"), log); diff != "" {
			t.Errorf("asked (-want +got)\n%s", diff)
		}
		if rep.Done || rep.Purgers[0].Deleted != 250 || rep.Purgers[1].Deleted != 200 || !errors.Is(rep.Purgers[1].Err, errOutage) || rep.Purgers[2].Deleted != 1 || rep.Sessions != 1 || rep.Conversations != 0 {
			t.Errorf("%+v", rep)
		}
		_, err = w.db.Sessions().Load(t.Context(), session.Address{Session: s.ID})
		wantErr(t, "the session", err, session.ErrNotFound)
		if _, err := w.db.Sessions().Load(t.Context(), session.Address{Conversation: v.ID}); err != nil {
			t.Errorf("the conversation, by which a room may find what is left: %v", err)
		}
		rooms[1].fault = nil
		rep, err = r.Purge(t.Context(), session.PurgeTarget{Project: "p", History: true}, session.PurgeOptions{})
		if err != nil || !rep.Done || rep.Conversations != 1 || rooms[1].things > 0 {
			t.Errorf("again: %+v, %v", rep, err)
		}
	})

	inWorld(t, "a purge can be broken off between two batches of a room", immediate, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancelCause(t.Context())
		a, b := &room{things: 1000}, &room{things: 1}
		rep, err := w.purger(a, b).Purge(ctx, session.PurgeTarget{User: "ann"}, session.PurgeOptions{Progress: func(session.PurgeReport) { cancel(errOutage) }})
		wantErr(t, "Purge", err, errOutage)
		if a.things != 900 || b.calls > 0 || rep.Done || rep.Purgers[0].Deleted != 100 {
			t.Errorf("%+v, %+v", rep, a)
		}
	})

	t.Run("a room that is nil is refused", func(t *testing.T) {
		db := memory.New(nil)
		_, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: newDirectory(), Purgers: []session.Purger{&room{}, nil}})
		wantField(t, "New", err, "Purgers")
	})
}
