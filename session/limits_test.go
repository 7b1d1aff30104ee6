package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wantLimit fails the test unless err is that ceiling's, and tells a client no more than which.
func wantLimit(t testing.TB, what string, err error, kind session.LimitKind, most int) {
	t.Helper()
	e := wantType[*session.LimitError](t, what, err)
	if e.Kind != kind || e.Max != most {
		t.Errorf("%s: %v at most %d, want %v at most %d", what, e.Kind, e.Max, kind, most)
	}
	if status, code, sentence := problem(t, err); status != 429 || code == "" || sentence == "" {
		t.Errorf("%s: Problem %d %q %q", what, status, code, sentence)
	}
}

// ok counts the nil errors; the others must be that ceiling's.
func ok(t testing.TB, errs []error, kind session.LimitKind, most int) (n int) {
	t.Helper()
	for _, err := range errs {
		if err == nil {
			n++
		} else {
			wantLimit(t, "one too many", err, kind, most)
		}
	}
	return n
}

func TestSessionLimit(t *testing.T) {
	inWorld(t, "T-26: of 50 parallel spawns at the ceiling less one, exactly one succeeds", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 10
		replicas := []*replica{w.replica(), w.replica()}
		for range 9 {
			replicas[0].spawn(ann)
		}
		errs := together(50, func(i int) error {
			_, _, err := replicas[i%2].Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"})
			return err
		})
		if n := ok(t, errs, session.SessionsPerOwner, 10); n != 1 {
			t.Errorf("%d succeeded, want 1", n)
		}
		if _, _, err := replicas[0].Spawn(t.Context(), bob, session.Spawn{Project: "p", Agent: "builder"}); err != nil {
			t.Errorf("the ceiling is each owner's own: %v", err)
		}
	})

	inWorld(t, "T-28: what has ended does not count, nor does what has no machine count less", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 2
		r := w.replica()
		id := r.warm()
		r.spawn(ann)
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"})
		wantLimit(t, "the third", err, session.SessionsPerOwner, 2)
		r.end(ann, id)
		r.spawn(ann)
	})

	inWorld(t, "T-26: so it is for Reopen, and for work that asks for it", immediate, func(t *testing.T, w *world) {
		w.limits.Sessions = 10
		r := w.replica()
		var ended []session.ID
		for range 20 {
			s, _ := r.spawn(ann)
			r.end(ann, s.ID)
			ended = append(ended, s.ID)
		}
		for range 9 {
			r.spawn(ann)
		}
		errs := together(20, func(i int) (err error) {
			if i%2 == 0 {
				_, err = r.Reopen(t.Context(), ann, ended[i])
			} else {
				_, err = r.work(t.Context(), ann, session.WorkRequest{Session: ended[i], Ensure: true, Reopen: true})
			}
			return err
		})
		if n := ok(t, errs, session.SessionsPerOwner, 10); n != 1 {
			t.Errorf("%d succeeded, want 1", n)
		}
		var open int
		for _, s := range w.all() {
			if !s.Session.Ended() {
				open++
			}
		}
		if open != 10 {
			t.Errorf("%d sessions are open, want 10", open)
		}
	})

	inWorld(t, "the ceiling is asked anew for every decision, for the payer's plan; zero is the default and less is nothing", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		for i := range 100 {
			if _, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"}); err != nil {
				t.Fatalf("spawn %d: %v", i, err)
			}
		}
		_, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"})
		wantLimit(t, "the default", err, session.SessionsPerOwner, 100)
		w.limits.Sessions = 101
		r.spawn(ann)
		w.limits.Sessions = -1
		_, _, err = r.Spawn(t.Context(), eve, session.Spawn{Project: "q", Agent: "spy"})
		wantLimit(t, "nothing", err, session.SessionsPerOwner, -1)
		var plan access.Plan
		other := w.replica(func(c *session.Config) {
			c.Limits = func(p access.Plan) session.Limits { plan = p; return session.Limits{} }
		})
		if _, _, err := other.Spawn(t.Context(), bob, session.Spawn{Project: "p", Agent: "builder"}); err != nil || plan != "pro" {
			t.Errorf("asked for plan %q: %v", plan, err)
		}
	})
}

func TestConversationLimit(t *testing.T) {
	inWorld(t, "of parallel conversations in one session only so many succeed, and a retry is no new one", immediate, func(t *testing.T, w *world) {
		w.limits.Conversations = 5
		r := w.replica()
		s, _ := r.spawn(ann)
		id := func(i int) session.ConversationID {
			return session.ConversationID(fmt.Sprintf("0199bbbb-0000-7000-8000-%012x", i))
		}
		add := func(i int) error {
			_, err := r.AddConversation(t.Context(), bob, session.AddConversation{Session: s.ID, Agent: "tester", Conversation: id(i)})
			return err
		}
		errs := together(20, add)
		if n := ok(t, errs, session.ConversationsPerSession, 5); n != 4 {
			t.Errorf("%d succeeded, want 4 beside the first", n)
		}
		for i, err := range errs {
			if err == nil && add(i) != nil {
				t.Errorf("the retry of one that succeeded: %v", add(i))
			}
		}
		other, _ := r.spawn(ann)
		r.add(ann, other.ID, "tester")
	})
}

func TestMachineLimit(t *testing.T) {
	inWorld(t, "rule 7: a machine counts against whoever pays for it now, not who paid for the sandbox's first", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) {
			c.Limits = func(p access.Plan) session.Limits {
				if p == "free" {
					return session.Limits{Machines: 1}
				}
				return session.Limits{Machines: 3}
			}
		})
		w.dir.AddProject("z", "ann", "free")
		w.dir.AddAgent("z", "zed", true)
		for _, u := range []access.UserID{"ann", "bob"} {
			w.dir.SetCode(u, "z", true)
		}
		spawn := func() session.ID {
			s, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "z", Agent: "zed"})
			if err != nil {
				t.Fatal(err)
			}
			return s.ID
		}
		open := func(id session.ID) error {
			q := inSession(id)
			q.Reopen = true
			_, err := r.work(t.Context(), ann, q)
			return err
		}
		var old []session.ID
		for range 4 {
			id := spawn()
			closeWork(t, r.mustWork(ann, inSession(id)))
			r.end(ann, id)
			old = append(old, id)
		}
		key := w.snap(old[0]).Sandbox.Key
		if err := open(spawn()); err != nil {
			t.Fatal(err)
		}
		wantLimit(t, "ann's second", open(spawn()), session.MachinesPerPayer, 1)

		w.dir.AddProject("z", "bob", "pro")
		w.dir.AddMember("z", "ann", access.RoleAdmin)
		w.dir.AddMember("z", "bob", access.RoleOwner)
		for i, id := range old[:3] { // ann's machine is none of bob's three
			if err := open(id); err != nil {
				t.Errorf("machine %d of bob's: %v", i+1, err)
			}
			if row := w.snap(id).Sandbox; row.Payer != "bob" || row.Generation != 2 {
				t.Errorf("row %+v", row)
			}
		}
		wantLimit(t, "bob's fourth", open(old[3]), session.MachinesPerPayer, 3)
		if got := w.snap(old[0]).Sandbox; got.Key != key {
			t.Errorf("key %s, was %s", got.Key, key)
		}
	})

	inWorld(t, "rule 7: the payer's machines are counted whoever works, in the commit of the intent", immediate, func(t *testing.T, w *world) {
		w.limits.Machines = 3
		replicas := []*replica{w.replica(), w.replica()}
		ids := make([]session.ID, 20)
		for i := range ids {
			s, _ := replicas[0].spawn([]access.Actor{ann, bob}[i%2])
			ids[i] = s.ID
		}
		errs := together(len(ids), func(i int) error {
			_, err := replicas[i%2].work(t.Context(), ann, inSession(ids[i]))
			return err
		})
		if n := ok(t, errs, session.MachinesPerPayer, 3); n != 3 || len(w.boxes.Machines()) != 3 {
			t.Errorf("%d succeeded and %d machines, want 3", n, len(w.boxes.Machines()))
		}
		w.gate.wantEndedOnceBut(t, 3)
		for i, err := range errs { // T-27: what is there is not counted again
			if err == nil {
				replicas[0].mustWork(ann, inSession(ids[i]))
			}
		}
	})

	inWorld(t, "rule 7: a dying machine counts: reopened at a limit of 1 the session has to wait for the proof", lagging, func(t *testing.T, w *world) {
		w.limits.Machines = 1
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		r.end(ann, id)
		again := session.WorkRequest{Session: id, Ensure: true, Reopen: true}
		for range 2 {
			_, err := r.work(t.Context(), ann, again)
			wantLimit(t, "while the old machine is dying", err, session.MachinesPerPayer, 1)
		}
		if row := w.snap(id).Sandbox; row.State != sandbox.Destroying || row.Generation != 1 || len(w.outbox()) > 0 {
			t.Errorf("row %+v, outbox %+v", row, w.outbox())
		}
		r.settle()
		r.mustWork(ann, again)
		w.wantOneMachine(id)
	})

	inWorld(t, "rule 7: so does the outbox", lagging, func(t *testing.T, w *world) {
		w.limits.Machines = 2
		r := w.replica()
		id := r.warm()
		time.Sleep(time.Hour)
		r.end(ann, id)
		r.mustWork(ann, session.WorkRequest{Session: id, Ensure: true, Reopen: true}) // the old one goes to the outbox
		other, _ := r.spawn(bob)
		_, err := r.work(t.Context(), bob, inSession(other.ID))
		wantLimit(t, "a machine, and one in the outbox", err, session.MachinesPerPayer, 2)
		r.settle()
		r.mustWork(bob, inSession(other.ID))
	})
}

func TestSlotLimit(t *testing.T) {
	inWorld(t, "a slot is a session worked in, not a call: two works of one session take one", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 1
		replicas := []*replica{w.replica(), w.replica()}
		s, v := replicas[0].spawn(ann)
		other, _ := replicas[0].spawn(bob)
		first := replicas[0].mustWork(ann, inConversation(v.ID))
		second := replicas[1].mustWork(bob, inSession(s.ID))

		replicas[1].meddle(nil)
		_, err := replicas[1].work(t.Context(), bob, inSession(other.ID))
		wantLimit(t, "a second session of the same payer", err, session.SlotsPerPayer, 1)
		if n := replicas[1].count("commit", "create", "attach", "inspect", "place"); n > 0 {
			t.Errorf("called %v before the slot was had", replicas[1].calls())
		}
		closeWork(t, first)
		_, err = replicas[1].work(t.Context(), bob, inSession(other.ID))
		wantLimit(t, "while the other work goes on", err, session.SlotsPerPayer, 1)
		closeWork(t, second)
		replicas[1].mustWork(bob, inSession(other.ID))
		w.gate.wantEndedOnceBut(t, 1)
	})

	inWorld(t, "T-72/T-73: whatever becomes of work, its slot is free again: 200 in a row at a limit of 1", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 1
		r := w.replica()
		ids := []session.ID{r.warm(), r.warm()}
		faults := []memory.Fault{{}, {Fail: errOutage}, {Unseen: true}, {Lose: true}}
		for i := range 200 {
			w.boxes.Inject(always(memory.OpAttach, faults[i%len(faults)]))
			ctx, cancel := context.WithCancel(t.Context())
			wk, err := r.work(ctx, ann, inSession(ids[i%2]))
			if err == nil {
				cancel()
				closeWork(t, wk)
			} else if e, is := err.(*session.LimitError); is {
				t.Fatalf("call %d: %v", i, e)
			}
			cancel()
		}
		w.gate.wantEndedOnce(t)
	})

	inWorld(t, "a work of yours in another payer's session takes a slot of theirs", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 1
		w.dir.AddMember("q", "ann", access.RoleMember)
		w.dir.SetCode("ann", "q", true)
		r := w.replica()
		s, _ := r.spawn(ann)
		q, _, err := r.Spawn(t.Context(), eve, session.Spawn{Project: "q", Agent: "spy"})
		if err != nil {
			t.Fatal(err)
		}
		r.mustWork(ann, inSession(s.ID))
		r.mustWork(ann, inSession(q.ID))
		other, _ := r.spawn(ann)
		_, err = r.work(t.Context(), ann, inSession(other.ID))
		wantLimit(t, "a second one of her own", err, session.SlotsPerPayer, 1)
	})
}
