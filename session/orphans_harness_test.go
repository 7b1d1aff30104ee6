package session_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// listing is a provider that can list its machines, as well or as badly as the
// test wants. Left alone it lists what there is, other deployments' machines too.
type listing struct {
	sandbox.Provider
	w *world

	mu    sync.Mutex
	alter func(all []sandbox.Listed) []sandbox.Listed // what is shown of the truth
	fault error                                       // after what is shown
	pause func(context.Context)                       // before the first machine
}

// sweeper is a process whose provider can list.
func (w *world) sweeper() (*replica, *listing) {
	l := &listing{w: w}
	r := w.replica(func(c *session.Config) {
		l.Provider = c.Sandboxes[0]
		c.Sandboxes = []sandbox.Provider{l}
		c.Store = ownStore{c.Store.(*wiredStore)}
	})
	return r, l
}

func (l *listing) set(f func(l *listing)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

func (l *listing) List(ctx context.Context, _ string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		l.mu.Lock()
		alter, fault, pause := l.alter, l.fault, l.pause
		l.mu.Unlock()
		if pause != nil {
			pause(ctx)
		}
		all := l.w.listed()
		if alter != nil {
			all = alter(all)
		}
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
		if fault != nil {
			yield(sandbox.Listed{}, fault)
		}
	}
}

// listed is the truth, as a provider would list it.
func (w *world) listed() (all []sandbox.Listed) {
	info := w.boxes.Info()
	for _, m := range w.boxes.Machines() {
		if !m.Hidden {
			all = append(all, sandbox.Listed{
				Ref:    sandbox.Ref{Provider: info.Provider, Name: m.Name, Incarnation: m.Incarnation, Host: info.Host},
				Labels: m.Labels, Status: m.Status,
			})
		}
	}
	return all
}

// ownStore also puts the calls of sweeps and purges on the wire.
type ownStore struct{ *wiredStore }

func (s ownStore) Known(ctx context.Context, keys []sandbox.TombstoneKey) (known []session.Known, err error) {
	err = s.line.call(ctx, "known", func() (err error) { known, err = s.Store.Known(ctx, keys); return })
	return known, err
}

func (s ownStore) Names(ctx context.Context, after string) (page session.NamesPage, err error) {
	err = s.line.call(ctx, "names", func() (err error) { page, err = s.Store.Names(ctx, after); return })
	return page, err
}

func (s ownStore) Owned(ctx context.Context, t session.PurgeTarget, limit int) (all []session.Address, err error) {
	err = s.line.call(ctx, "owned", func() (err error) { all, err = s.Store.Owned(ctx, t, limit); return })
	return all, err
}

// sweep makes a pass that must go well, and checks that its counts add up.
func (r *replica) sweep(o session.SweepOptions) session.SweepReport {
	r.w.Helper()
	rep, err := r.Sweep(r.w.Context(), o)
	if err != nil || rep.Incomplete {
		r.w.Fatalf("Sweep: %v, %+v", err, rep)
	}
	r.w.wantSums(rep)
	return rep
}

// wantSums fails the test unless each machine was counted as exactly one thing.
func (w *world) wantSums(rep session.SweepReport) {
	w.Helper()
	for _, p := range rep.Providers {
		if sum := p.Foreign + p.Named + p.Suspected + p.Young + p.Buried + p.Spared + p.Skipped + p.Failed; sum != p.Listed {
			w.Errorf("of %d listed %d are accounted for: %+v", p.Listed, sum, p)
		}
	}
	for _, i := range rep.Items {
		if i.Reason == "" || i.Provider == "" || i.Machine.Incarnation == "" || (i.Err != nil) != (i.Action == session.SweepFailed) {
			w.Errorf("item %+v", i)
		}
	}
}

// swept are the actions of a sweep on the machines that matter, in order.
func swept(rep session.SweepReport) (all []session.SweepAction) {
	for _, i := range rep.Items {
		all = append(all, i.Action)
	}
	return all
}

func wantSwept(t testing.TB, what string, rep session.SweepReport, want ...session.SweepAction) {
	t.Helper()
	if diff := cmp.Diff(want, swept(rep)); diff != "" {
		t.Errorf("%s: (-want +got)\n%s\n%+v", what, diff, rep)
	}
}

// stray is a machine that carries our labels, or other ones, and that no row has asked for.
func (w *world) stray(id sandbox.ID, generation int, labels ...string) sandbox.Incarnation {
	w.Helper()
	with := map[string]string{
		sandbox.LabelDeployment: "bunkroom", sandbox.LabelSandbox: string(id), sandbox.LabelGeneration: strconv.Itoa(generation),
	}
	for i := 0; i < len(labels); i += 2 {
		with[labels[i]] = labels[i+1]
	}
	m, err := w.boxes.Create(context.Background(), sandbox.CreateRequest{Name: fmt.Sprintf("%s-g%d", id, generation), Labels: with})
	if err != nil {
		w.Fatal(err)
	}
	return m.Ref.Incarnation
}

// alive reports whether there is such a machine.
func (w *world) alive(i sandbox.Incarnation) bool {
	return slices.ContainsFunc(w.boxes.Machines(), has(i))
}

// forgotten is the machine of a session that was deleted past the trigger.
func (r *replica) forgotten() sandbox.Incarnation {
	r.w.Helper()
	i := r.orphan()
	store := r.w.db.Sessions()
	for _, t := range r.w.outbox() {
		if _, err := store.Commit(context.Background(), session.Change{Prove: []sandbox.Tombstone{t}}); err != nil {
			r.w.Fatal(err)
		}
	}
	return i
}

// reclaimed lets the Keeper work until nothing is due.
func (w *world) reclaimed(r *replica) {
	w.Helper()
	for range 100 {
		if rep := r.reclaim(); !slices.ContainsFunc(rep.Items, func(i session.ReclaimItem) bool {
			return i.Kind&(session.DueCreating|session.DueDestroying|session.DueTombstones) != 0
		}) {
			return
		}
		time.Sleep(30 * time.Second)
	}
	w.Error("the Keeper has not come to rest in 100 passes")
}
