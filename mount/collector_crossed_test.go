package mount_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// What was put away long before its owner went waits all the same.
func TestCollectorWaitsAfterOwnerIsGone(t *testing.T) {
	y := newYard(t)
	id := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	if _, err := y.store.Update(t.Context(), id, mount.Change{By: "ana", Archived: new(true)}); err != nil {
		t.Fatal(err)
	}
	y.now = y.now.Add(100 * dayLong)
	y.gone[reviewer] = access.Yes // a moment ago
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{id: mount.PutAway})
	y.now = y.now.Add(dayLong - time.Second)
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{id: mount.Waits})
	y.wantRemoved()
	y.now = y.now.Add(time.Second)
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{id: mount.Deleted})
	y.wantRemoved(id)
}

// An owner that came back and goes again has its time again.
func TestCollectorOwnerGoesTwice(t *testing.T) {
	y := newYard(t)
	id := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	want := []mount.Fate{mount.PutAway, mount.Back, mount.PutAway}
	for i, gone := range []access.Tri{access.Yes, access.No, access.Yes} {
		y.gone[reviewer] = gone
		y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{id: want[i]})
		y.wantRemoved()
		y.now = y.now.Add(10 * dayLong)
	}
}

// The next pass removes what is left of a deleted one.
func TestCollectorNextPassRemoves(t *testing.T) {
	y := newYard(t)
	id := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	y.gone[reviewer] = access.Yes
	y.stuck[id] = errors.New("stuck")
	for range 4 {
		_, _ = y.collector().Collect(t.Context(), mount.CollectOptions{})
		y.now = y.now.Add(2 * dayLong)
		if _, err := y.store.Get(t.Context(), id); err != nil {
			delete(y.stuck, id)
		}
	}
	y.wantRemoved(id)
}

// A row of no scope is nobody's, and nobody can be gone.
func TestCollectorOfNobody(t *testing.T) {
	y := newYard(t)
	_, err := y.store.Create(t.Context(), mount.Row{ID: "0192f0c1-2ab4-7cde-8f01-23456789abcd", Scope: "legacy", Slug: "s", Kind: mount.KindCustom, Name: "s", CreatedBy: "ana"})
	if err != nil {
		t.Fatal(err)
	}
	y.gone[mount.Owner{}] = access.Yes // a directory that finds no such user
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{"0192f0c1-2ab4-7cde-8f01-23456789abcd": mount.Kept})
}

// The place to go on from is not lost where ctx ends at once.
func TestCollectEndedKeepsItsPlace(t *testing.T) {
	y := newYard(t)
	for i := range 3 {
		y.make(mount.Folder{Project: "web", Agent: access.AgentID(fmt.Sprint("a", i))})
	}
	got, err := y.collector().Collect(t.Context(), mount.CollectOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if again, err := y.collector().Collect(ended, mount.CollectOptions{After: got.Last}); err == nil || again.Last == "" {
		t.Errorf("%+v, %v: that were all", again, err)
	}
}

// swept is a store beside which somebody else sweeps.
type swept struct {
	mount.Store
	between func()
}

func (s *swept) Delete(ctx context.Context, t mount.Target, limit int) ([]mount.Row, error) {
	rows, err := s.Store.Delete(ctx, t, limit)
	if s.between != nil {
		s.between()
	}
	return rows, err
}

// A sweep in another process does not end a purge before all is deleted.
func TestPurgeBesideASweep(t *testing.T) {
	y := newYard(t)
	for i := range 5 {
		y.make(mount.Folder{Project: "web", Agent: access.AgentID(fmt.Sprint("a", i))})
	}
	p, err := mount.NewPurger(mount.PurgerConfig{Store: &swept{y.store, func() { _, _, _ = y.purger.Sweep(t.Context(), "", 10) }},
		Remove: func(context.Context, mount.Tombstone) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for {
		n, err := p.DeleteScope(t.Context(), "project:web", 2)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if rows, _ := y.store.Scan(t.Context(), "", 10); len(rows) > 0 {
		t.Errorf("done, and %d rows are left", len(rows))
	}
}
