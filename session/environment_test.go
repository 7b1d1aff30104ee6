package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// newEnvironment opens an environment of project "p".
func (r *replica) newEnvironment(a access.Actor) session.EnvironmentID {
	r.w.Helper()
	e, err := r.CreateEnvironment(r.w.Context(), a, session.NewEnvironment{Project: "p", Name: "bench"})
	if err != nil {
		r.w.Fatalf("CreateEnvironment: %v", err)
	}
	return e.ID
}

// borrow opens a session that borrows its sandbox from an environment, with a first conversation with "builder".
func (r *replica) borrow(a access.Actor, id session.EnvironmentID) (session.Session, session.Conversation) {
	r.w.Helper()
	s, v, err := r.Spawn(r.w.Context(), a, session.Spawn{Project: "p", Agent: "builder", Environment: id})
	if err != nil {
		r.w.Fatalf("Spawn with an environment: %v", err)
	}
	return s, v
}

func (r *replica) deleteEnvironment(a access.Actor, id session.EnvironmentID) session.EndReport {
	r.w.Helper()
	rep, err := r.DeleteEnvironment(r.w.Context(), a, id)
	if err != nil {
		r.w.Fatalf("DeleteEnvironment: %v", err)
	}
	return rep
}

// env is what the database holds of an environment, past every replica.
func (w *world) env(id session.EnvironmentID) session.Snapshot {
	w.Helper()
	s, err := w.db.Sessions().Load(context.Background(), session.Address{Environment: id})
	if err != nil {
		w.Fatalf("Load %s: %v", id, err)
	}
	return s
}

func TestEnvironmentRows(t *testing.T) {
	inWorld(t, "an environment is made with its sandbox, in one commit, and no machine", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		e, err := r.CreateEnvironment(t.Context(), bob, session.NewEnvironment{Project: "p", Name: "  bench "})
		if err != nil {
			t.Fatal(err)
		}
		want := session.Environment{ID: e.ID, Version: 1, Project: "p", CreatedBy: "bob", Name: "bench", CreatedAt: time.Now().UTC()}
		if diff := cmp.Diff(want, e); diff != "" {
			t.Errorf("CreateEnvironment returns (-want +got)\n%s", diff)
		}
		sum, err := r.Environment(t.Context(), ann, e.ID)
		if diff := cmp.Diff(session.EnvironmentSummary{Environment: want}, sum); err != nil || diff != "" {
			t.Errorf("Environment: %v (-want +got)\n%s", err, diff)
		}
		row := w.env(e.ID).Sandbox
		if row.State != sandbox.None || row.Environment != e.ID || row.Session != "" || string(row.ID) == string(e.ID) {
			t.Errorf("its sandbox: %+v", row)
		}
		if n := r.count("commit"); n != 1 || len(w.boxes.Calls()) > 0 {
			t.Errorf("called %v, and the provider %+v", r.calls(), w.boxes.Calls())
		}
	})

	inWorld(t, "where the reply of its commit is lost it is made once", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		r.lose("commit", 1, session.ErrUnknown)
		id := r.newEnvironment(ann)
		page, err := r.Environments(t.Context(), ann, session.EnvironmentQuery{Project: "p"})
		if err != nil || len(page.Items) != 1 || page.Items[0].Environment.ID != id {
			t.Errorf("Environments: %+v, %v", page, err)
		}
	})

	inWorld(t, "an id that NewID has given out before is nobody's key to what is there", immediate, func(t *testing.T, w *world) {
		taken := w.replica().newEnvironment(ann)
		again := w.replica(func(c *session.Config) {
			c.Replica, c.NewID = "again", func() string { return string(taken) }
		})
		e, err := again.CreateEnvironment(t.Context(), eve, session.NewEnvironment{Project: "q"})
		wantErr(t, "CreateEnvironment", err, session.ErrExists)
		if e != (session.Environment{}) {
			t.Errorf("a refusal returns %+v", e)
		}
	})

	inWorld(t, "they are listed newest first, page by page, and renamed; what was deleted is shown, not listed", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		var ids []session.EnvironmentID
		for range 5 {
			ids = append(ids, r.newEnvironment(ann))
			time.Sleep(time.Second)
		}
		if err := r.RenameEnvironment(t.Context(), bob, ids[1], " other "); err != nil {
			t.Fatal(err)
		}
		version := w.env(ids[1]).Environment.Version
		if err := r.RenameEnvironment(t.Context(), bob, ids[1], "other"); err != nil || w.env(ids[1]).Environment.Version != version {
			t.Errorf("the same name again: %v, version %d, was %d", err, w.env(ids[1]).Environment.Version, version)
		}
		wantReport(t, "DeleteEnvironment", r.deleteEnvironment(ann, ids[2]), session.EndReport{Ended: true})
		var got []session.EnvironmentID
		q := session.EnvironmentQuery{Project: "p", Limit: 3}
		for {
			page, err := r.Environments(t.Context(), bob, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				got = append(got, item.Environment.ID)
			}
			if q.After = page.Next; q.After == "" {
				break
			}
		}
		if want := []session.EnvironmentID{ids[4], ids[3], ids[1], ids[0]}; !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		if sum, err := r.Environment(t.Context(), bob, ids[1]); err != nil || sum.Environment.Name != "other" {
			t.Errorf("renamed: %+v, %v", sum, err)
		}
		if sum, err := r.Environment(t.Context(), bob, ids[2]); err != nil || !sum.Environment.Deleted() {
			t.Errorf("deleted: %+v, %v", sum, err)
		}
		wantErr(t, "RenameEnvironment of what was deleted", r.RenameEnvironment(t.Context(), ann, ids[2], "x"), session.ErrEnvironmentGone)
	})

	inWorld(t, "rule 13: which environment a session borrows from never changes, whatever a change says", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		one, two := r.newEnvironment(ann), r.newEnvironment(ann)
		s, _ := r.borrow(ann, one)
		own, _ := r.spawn(ann)
		for _, id := range []session.ID{s.ID, own.ID} {
			moved := w.snap(id).Session
			moved.Environment, moved.Name = two, "moved"
			if _, err := w.db.Sessions().Commit(t.Context(), session.Change{Session: &moved}); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.snap(s.ID); got.Session.Environment != one || got.Environment.ID != one || got.Sandbox.Environment != one {
			t.Errorf("the borrower is %+v", got)
		}
		if got := w.snap(own.ID); got.Session.Environment != "" || got.Sandbox.Session != own.ID {
			t.Errorf("the other is %+v", got)
		}
	})
}

// S-05, beyond one session: what borrows from one environment works in one sandbox.
func TestOneSandboxForAllBorrowers(t *testing.T) {
	inWorld(t, "S-05: two sessions of one environment get the same machine and see each other's files, at once and afterwards", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		_, first := r.borrow(ann, id)
		other, _ := r.borrow(bob, id)
		a, b := r.mustWork(ann, inConversation(first.ID)), r.mustWork(bob, inSession(other.ID))
		if a.Sandbox().Ref() != b.Sandbox().Ref() || a.Session() == b.Session() {
			t.Errorf("session %s works in %+v, session %s in %+v", a.Session(), a.Sandbox().Ref(), b.Session(), b.Sandbox().Ref())
		}
		write(t, a, "a.txt", "from a")
		write(t, b, "b.txt", "from b")
		if read(t, b, "a.txt") != "from a" || read(t, a, "b.txt") != "from b" {
			t.Error("one session does not see the other's file")
		}
		closeWork(t, a)
		closeWork(t, b)
		third, _ := r.borrow(ada, id)
		if c := r.mustWork(ada, session.WorkRequest{Session: third.ID}); read(t, c, "b.txt") != "from b" {
			t.Error("who comes later does not see what was left")
		}
		w.wantOneMachine(third.ID)
		if own := r.warm(); w.snap(own).Sandbox.Incarnation == w.env(id).Sandbox.Incarnation {
			t.Error("a session with a sandbox of its own works in the environment")
		}
	})

	inWorld(t, "S-05: twenty callers at once, of ten sessions and through two replicas, make one machine ever", immediate, func(t *testing.T, w *world) {
		replicas := []*replica{w.replica(), w.replica()}
		id := replicas[0].newEnvironment(ann)
		var sessions []session.ID
		for range 10 {
			s, _ := replicas[1].borrow(ann, id)
			sessions = append(sessions, s.ID)
		}
		refs := make([]sandbox.Ref, 20)
		errs := together(len(refs), func(i int) error {
			wk, err := replicas[i%2].work(t.Context(), bob, inSession(sessions[i/2]))
			if err == nil {
				refs[i] = wk.Sandbox().Ref()
			}
			return err
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if all := slices.Compact(refs); len(all) != 1 || w.created() != 1 {
			t.Errorf("worked in %+v; %d machines were asked for", all, w.created())
		}
		for _, s := range sessions {
			w.wantOneMachine(s)
		}
	})

	inWorld(t, "rule 14: where one session has the machine made another waits for it", immediate, func(t *testing.T, w *world) {
		r, other := w.replica(), w.replica()
		id := r.newEnvironment(ann)
		a, _ := r.borrow(ann, id)
		b, _ := r.borrow(ann, id)
		slow := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{HoldReply: slow}))
		making := r.later(t.Context(), inSession(a.ID))
		<-slow.Reached()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := other.work(ctx, ann, inSession(b.ID))
		wantType[*sandbox.ProvisioningError](t, "Open in the other session", err)
		waiting := other.later(t.Context(), inSession(b.ID))
		time.Sleep(10 * time.Second)
		slow.Open()
		if err := errors.Join(<-making, <-waiting); err != nil || w.created() != 1 {
			t.Errorf("%v; %d creates", err, w.created())
		}
		w.wantOneMachine(b.ID)
	})

	inWorld(t, "each session has a slot of its own, however many share the machine", immediate, func(t *testing.T, w *world) {
		w.limits.Slots = 2
		r := w.replica()
		id := r.newEnvironment(ann)
		var sessions []session.ID
		for range 3 {
			s, _ := r.borrow(ann, id)
			sessions = append(sessions, s.ID)
		}
		first := r.mustWork(ann, inSession(sessions[0]))
		r.mustWork(bob, inSession(sessions[0])) // the same session again is the same slot
		r.mustWork(ann, inSession(sessions[1]))
		_, err := r.work(t.Context(), ann, inSession(sessions[2]))
		wantLimit(t, "a third session of the environment", err, session.SlotsPerPayer, 2)
		held, err := w.db.Leases().Held(t.Context(), session.LeaseWork, string(sessions[1]))
		if err != nil || held.Sandbox != w.env(id).Sandbox.ID {
			t.Errorf("the lease names sandbox %q, %v; want the environment's", held.Sandbox, err)
		}
		closeWork(t, first)
		_, err = r.work(t.Context(), ann, inSession(sessions[2]))
		wantLimit(t, "while the first session's other work is open", err, session.SlotsPerPayer, 2)
	})

	inWorld(t, "T-28: however many borrow it, an environment's machine counts once", immediate, func(t *testing.T, w *world) {
		w.limits.Machines = 1
		r := w.replica()
		id := r.newEnvironment(ann)
		for range 3 {
			s, _ := r.borrow(ann, id)
			closeWork(t, r.mustWork(ann, inSession(s.ID)))
		}
		s, _ := r.spawn(ann)
		_, err := r.work(t.Context(), ann, inSession(s.ID))
		wantLimit(t, "a machine beside it", err, session.MachinesPerPayer, 1)
	})

	inWorld(t, "T-56: who pays is the project's owner, whoever made the environment, borrows it or works there; the host is told for what it places", immediate, func(t *testing.T, w *world) {
		var told []session.Placing
		r := w.replica(func(c *session.Config) {
			c.Place = func(p session.Placing) (session.Placement, error) {
				told = append(told, p)
				return session.Placement{Spec: sandbox.Spec{Image: "bench"}}, nil
			}
		})
		id := r.newEnvironment(bob)
		s, _ := r.borrow(ada, id)
		wk := r.mustWork(bob, inSession(s.ID))
		if h := w.gate.all()[wk.ID()]; h.intent.Payer != "ann" || h.intent.Session != s.ID || wk.Payer() != "ann" {
			t.Errorf("charged %+v, work says %s", h.intent, wk.Payer())
		}
		row := w.env(id).Sandbox
		if row.Payer != "ann" || row.Spec.Image != "bench" || w.boxes.Machines()[0].Labels[sandbox.LabelSandbox] != string(row.ID) {
			t.Errorf("row %+v, machines %+v", row, w.boxes.Machines())
		}
		// Once for who pays to be asked what it costs, and once to have it made.
		if len(told) != 2 || told[1] != told[0] || told[0].Environment.ID != id || told[0].Session.ID != s.ID || told[0].Payer != "ann" || told[0].Plan != "pro" {
			t.Errorf("told %+v", told)
		}
		own, _ := r.spawn(ann)
		r.mustWork(ann, inSession(own.ID))
		if last := told[len(told)-1]; last.Environment != (session.Environment{}) || last.Session.ID != own.ID {
			t.Errorf("of a session with a sandbox of its own: told %+v", last)
		}
	})

	inWorld(t, "lists show the environment's machine with each of its sessions", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		id := r.newEnvironment(ann)
		a, _ := r.borrow(ann, id)
		r.borrow(ann, id)
		states := func() (all []sandbox.State) {
			page, err := r.List(t.Context(), bob, session.Query{Project: "p"})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				one, err := r.Get(t.Context(), bob, item.Session.ID)
				if err != nil || one.Machine != item.Machine || item.Session.Environment != id {
					t.Errorf("Get: %+v, %v; List: %+v", one, err, item)
				}
				all = append(all, item.Machine)
			}
			page2, err := r.Environments(t.Context(), bob, session.EnvironmentQuery{Project: "p"})
			if err != nil || len(page2.Items) != 1 {
				t.Fatalf("Environments: %+v, %v", page2, err)
			}
			return append(all, page2.Items[0].Machine)
		}
		none, live := []sandbox.State{0, 0, 0}, []sandbox.State{sandbox.Live, sandbox.Live, sandbox.Live}
		if got := states(); !slices.Equal(got, none) {
			t.Errorf("before any work: %v", got)
		}
		closeWork(t, r.mustWork(ann, inSession(a.ID)))
		if got := states(); !slices.Equal(got, live) {
			t.Errorf("after work in one: %v", got)
		}
	})
}
