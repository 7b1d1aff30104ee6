package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// The end of a session that borrows its sandbox is the end of nothing else.
func TestEndOfABorrower(t *testing.T) {
	for what, caps := range map[string]sandbox.Caps{"that hides nothing": immediate, "that says nothing of itself": unknown} {
		inWorld(t, "ending a session of an environment kills nothing, at a provider "+what, caps, func(t *testing.T, w *world) {
			r := w.replica()
			id := r.newEnvironment(ann)
			a, _ := r.borrow(ann, id)
			b, _ := r.borrow(ann, id)
			mine, other := r.mustWork(ann, inSession(a.ID)), r.mustWork(ann, inSession(b.ID))
			write(t, mine, "f", "x")
			p := start(t, mine)
			r.meddle(nil)
			wantReport(t, "End", r.end(ann, a.ID), session.EndReport{Ended: true})
			if calls := r.only("destroy", "inspect"); len(calls) > 0 {
				t.Errorf("called %v", calls)
			}
			wantStopped(t, mine, p, session.ErrEnded, 0, 0)
			if cause := context.Cause(other.Context()); cause != nil {
				t.Errorf("the other session's work was stopped: %v", cause)
			}
			if read(t, other, "f") != "x" {
				t.Error("the file is gone with the session that wrote it")
			}
			wantReport(t, "End again", r.end(ann, a.ID), session.EndReport{})
			wantReport(t, "End of the last", r.end(ann, b.ID), session.EndReport{Ended: true})
			if rep := r.reclaim(); len(rep.Items) > 0 {
				t.Errorf("Reclaim: %+v", rep)
			}
			w.wantOneMachine(b.ID)
		})
	}

	inWorld(t, "work in an ended session is refused though the environment's machine is warm; reopened it is the same machine again", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		s, _ := r.borrow(ann, id)
		wk := r.mustWork(ann, inSession(s.ID))
		write(t, wk, "f", "x")
		closeWork(t, wk)
		r.end(ann, s.ID)
		for _, q := range []session.WorkRequest{{Session: s.ID}, inSession(s.ID)} {
			_, err := r.work(t.Context(), ann, q)
			wantErr(t, "Open", err, session.ErrEnded)
		}
		wk = r.mustWork(ann, session.WorkRequest{Session: s.ID, Reopen: true}) // no need of a new one
		if w.snap(s.ID).Session.Ended() || read(t, wk, "f") != "x" {
			t.Errorf("reopened: %+v", w.snap(s.ID))
		}
		closeWork(t, wk)
		r.end(ann, s.ID)
		if got, err := r.Reopen(t.Context(), ann, s.ID); err != nil || got.Ended() {
			t.Errorf("Reopen: %+v, %v", got, err)
		}
		closeWork(t, r.mustWork(ann, session.WorkRequest{Session: s.ID}))
		if w.created() != 1 || w.asked(memory.OpDestroy) != 0 {
			t.Errorf("%d creates, %d kills", w.created(), w.asked(memory.OpDestroy))
		}
	})

	inWorld(t, "T-14: a session that ends while it has the machine made is ended, and the machine is the environment's", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		a, _ := r.borrow(ann, id)
		b, _ := r.borrow(ann, id)
		answer := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{HoldReply: answer}))
		opening := r.later(t.Context(), inSession(a.ID))
		<-answer.Reached()
		wantReport(t, "End", other.end(ann, a.ID), session.EndReport{Ended: true})
		answer.Open()
		wantErr(t, "Open", <-opening, session.ErrEnded)
		closeWork(t, other.mustWork(ann, session.WorkRequest{Session: b.ID}))
		w.wantOneMachine(b.ID)
		w.gate.wantEndedOnce(t)
		w.wantSlotsFree()
	})
}

// Rules 12 and 15, through a session that merely borrows.
func TestEnvironmentsMachineIsLost(t *testing.T) {
	inWorld(t, "rule 15: the loss of an environment's machine is told to each borrower until one accepts it, for all of them", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		a, _ := r.borrow(ann, id)
		b, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(a.ID)))
		lost := w.env(id).Sandbox
		w.boxes.Kill(lost.Incarnation)
		time.Sleep(time.Second)
		for _, s := range []session.ID{a.ID, b.ID} {
			_, err := other.work(t.Context(), ann, inSession(s))
			if e := wantType[*sandbox.LostError](t, "Open", err); e.Sandbox != lost.ID || e.Generation != 1 || !e.LastSeen.Equal(lost.LiveAt) {
				t.Errorf("%+v", e)
			}
		}
		_, err := r.work(t.Context(), ann, session.WorkRequest{Session: b.ID, Ensure: true, AcceptLoss: 2})
		wantType[*sandbox.LostError](t, "Open that accepts another loss", err)
		if w.created() != 1 {
			t.Errorf("%d creates before the loss is accepted", w.created())
		}
		replaced := make([]int64, 2)
		errs := together(2, func(i int) error {
			wk, err := []*replica{r, other}[i].work(t.Context(), ann, session.WorkRequest{
				Session: []session.ID{a.ID, b.ID}[i], Ensure: true, AcceptLoss: 1,
			})
			if err == nil {
				replaced[i] = closeWork(t, wk).Replaced
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Errorf("Open that accepts the loss: %v", err)
		}
		if !slices.Contains(replaced, 1) {
			t.Errorf("Report.Replaced %v, want 1 of whoever came first", replaced)
		}
		if w.created() != 2 || w.env(id).Sandbox.Generation != 2 {
			t.Errorf("%d creates, row %+v", w.created(), w.env(id).Sandbox)
		}
		w.wantOneMachine(a.ID)
	})

	inWorld(t, "rule 15: with its machine lost an environment's deletion has nothing to destroy", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		s, _ := r.borrow(ann, id)
		closeWork(t, r.mustWork(ann, inSession(s.ID)))
		w.boxes.Kill(w.env(id).Sandbox.Incarnation)
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantType[*sandbox.LostError](t, "Open", err)
		wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, id), session.EndReport{Ended: true})
		_, err = r.work(t.Context(), ann, session.WorkRequest{Session: s.ID, Ensure: true, AcceptLoss: 1})
		wantErr(t, "Open that accepts the loss", err, session.ErrEnvironmentGone)
		r.settle()
		if len(w.outbox()) > 0 || w.created() != 1 {
			t.Errorf("outbox %+v, %d creates", w.outbox(), w.created())
		}
	})

	inWorld(t, "a work is stopped where the environment's machine was replaced under it", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		a, _ := r.borrow(ann, id)
		b, _ := r.borrow(ann, id)
		wk := r.mustWork(ann, inSession(a.ID))
		p := start(t, wk)
		w.boxes.Kill(w.env(id).Sandbox.Incarnation)
		_, err := other.work(t.Context(), ann, inSession(b.ID))
		wantType[*sandbox.LostError](t, "Open", err)
		other.mustWork(ann, session.WorkRequest{Session: b.ID, Ensure: true, AcceptLoss: 1})
		wantStopped(t, wk, p, sandbox.ErrGone, 0, 20*time.Second)
	})

	inWorld(t, "rule 12: from another host an environment's machine is elsewhere for every borrower, and its deletion is left to its own", immediate, func(t *testing.T, w *world) {
		hosts := map[string]*memory.Sandboxes{}
		at := func(host string) *replica {
			hosts[host] = memory.NewSandboxes(&memory.SandboxOptions{Host: host})
			return w.replica(func(c *session.Config) {
				line := c.Sandboxes[0].(wiredProvider).line
				c.Sandboxes = []sandbox.Provider{wiredProvider{hosts[host], line, w}}
			})
		}
		here, there := at("h1"), at("h2")
		id := here.newEnvironment(ann)
		a, _ := here.borrow(ann, id)
		b, _ := here.borrow(ann, id)
		closeWork(t, here.mustWork(ann, inSession(a.ID)))
		before := w.env(id).Sandbox
		held, err := w.db.Leases().Acquire(t.Context(), session.Lease{
			Kind: session.LeaseHost, Name: "h1", Holder: "http://one", Replica: "http://one", For: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []session.ID{a.ID, b.ID} {
			_, err := there.work(t.Context(), ann, inSession(s))
			want := session.ElsewhereError{Session: s, Host: "h1", Replica: held.Holder}
			if e := wantType[*session.ElsewhereError](t, "Open on another host", err); *e != want {
				t.Errorf("%+v, want %+v", *e, want)
			}
		}
		if got := w.env(id).Sandbox; got.Version != before.Version {
			t.Errorf("row %+v, was %+v", got, before)
		}
		wantReport(t, "DeleteEnvironment on another host", there.deleteEnvironment(ann, id), session.EndReport{Ended: true, Pending: true})
		if rep := there.reclaim(); len(rep.Items) > 0 {
			t.Errorf("the other host's Keeper took on %+v", rep)
		}
		if rep := here.reclaim(); rep.Proven != 1 || len(hosts["h1"].Machines()) > 0 {
			t.Errorf("its own: %+v", rep)
		}
	})
}

// An agent's folder is the agent's, whichever session of the environment it works in.
func TestFoldersInAnEnvironment(t *testing.T) {
	inWorld(t, "two sessions of one environment carry their agents' folders into one machine, and each process finds its own agent's", immediate, func(t *testing.T, w *world) {
		var dir string
		w.boxes.Handle("where", whereHandler(&dir))
		r := w.replica(w.withMounts(mount.Required))
		id := r.newEnvironment(ann)
		first, builder := r.borrow(ann, id)
		second, twin := r.borrow(bob, id)
		tester := r.add(bob, second.ID, "tester")
		r.meddle(nil)
		where := func(wk *session.Work) string {
			if _, err := sandbox.Run(t.Context(), wk.Sandbox(), sandbox.Cmd{Argv: []string{"where"}}, nil, nil); err != nil {
				t.Fatal(err)
			}
			return dir
		}
		a := r.mustWork(ann, inConversation(builder.ID))
		b := r.mustWork(bob, inConversation(tester.ID))
		c := r.mustWork(bob, inConversation(twin.ID))
		atA, atB, atC := where(a), where(b), where(c)
		if atA == "" || atA == atB || atC != atA {
			t.Errorf("builder's folder is at %q in one session and at %q in the other, tester's at %q", atA, atC, atB)
		}
		if a.Mounts()[0].Row.ID != c.Mounts()[0].Row.ID || a.Mounts()[0].State != mount.Mounted {
			t.Errorf("mounts %+v and %+v", a.Mounts(), c.Mounts())
		}
		r.end(ann, first.ID)
		closeWork(t, a)
		if got := where(c); got != atC {
			t.Errorf("with the other session ended the folder is at %q, was at %q", got, atC)
		}
		closeWork(t, b)
		closeWork(t, c)
		if mounted, unmounted := r.count("mount"), r.count("unmount"); mounted != 3 || unmounted != 3 {
			t.Errorf("%d mounted, %d unmounted", mounted, unmounted)
		}
	})
}
