package mount_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// yard is a shelf, a collector, and what is said of owners.
type yard struct {
	*shelf
	store mount.Store // what the collector has; may fail
	gone  map[mount.Owner]access.Tri
	fault map[mount.Owner]error
	asked func(mount.Owner)
}

const dayLong = 24 * time.Hour

func newYard(t *testing.T) *yard {
	s := newShelf(t)
	return &yard{shelf: s, store: s.store, gone: map[mount.Owner]access.Tri{}, fault: map[mount.Owner]error{}, asked: func(mount.Owner) {}}
}

func (y *yard) collector() *mount.Collector {
	y.Helper()
	purger, err := mount.NewPurger(mount.PurgerConfig{Store: y.store, Remove: func(_ context.Context, left mount.Tombstone) error {
		if err := y.stuck[left.ID]; err != nil {
			return err
		}
		y.removed = append(y.removed, left.ID)
		return nil
	}})
	if err != nil {
		y.Fatal(err)
	}
	c, err := mount.NewCollector(mount.CollectorConfig{
		Store: y.store, Purger: purger, Grace: dayLong, Now: func() time.Time { return y.now },
		Gone: func(_ context.Context, who mount.Owner) (access.Tri, error) {
			y.asked(who)
			said, known := y.gone[who]
			if !known {
				said = access.No
			}
			return said, y.fault[who]
		},
	})
	if err != nil {
		y.Fatal(err)
	}
	return c
}

// wantFates runs a pass and wants these fates, and of all others nothing.
func (y *yard) wantFates(o mount.CollectOptions, want map[mount.ID]mount.Fate) {
	y.Helper()
	got := map[mount.ID]mount.Fate{}
	all, err := y.collector().Collect(y.Context(), o)
	failed := false
	for _, item := range all.Items {
		got[item.Row.ID] = item.Fate
		failed = failed || item.Err != nil
	}
	if (err != nil) != failed {
		y.Errorf("error %v of the items %+v", err, all.Items)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		y.Errorf("got %v, want %v", got, want)
	}
}

var (
	projectWeb = mount.Owner{Project: "web"}
	reviewer   = mount.Owner{Project: "web", Agent: "reviewer"}
	sessionS   = mount.Owner{Project: "web", Session: "s"}
)

// A mount whose owner is gone is put away, waits, and is deleted with what it
// held; one that is used meanwhile is as if nothing had been.
func TestCollect(t *testing.T) {
	y := newYard(t)
	agent := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	session := y.make(mount.Folder{Project: "web", Session: "s"})
	other := y.make(mount.Folder{Project: "web", Agent: "writer"})
	y.wantFates(mount.CollectOptions{}, nil)

	y.gone[reviewer], y.gone[sessionS] = access.Yes, access.Yes
	y.wantFates(mount.CollectOptions{DryRun: true}, map[mount.ID]mount.Fate{agent: mount.PutAway, session: mount.PutAway})
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.PutAway, session: mount.PutAway})
	y.now = y.now.Add(dayLong - time.Second)
	y.wantFates(mount.CollectOptions{DryRun: true}, map[mount.ID]mount.Fate{agent: mount.Waits, session: mount.Waits})
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Waits, session: mount.Waits})

	y.make(mount.Folder{Project: "web", Agent: "reviewer"}) // is used again
	y.now = y.now.Add(time.Second)
	y.wantFates(mount.CollectOptions{DryRun: true}, map[mount.ID]mount.Fate{agent: mount.PutAway, session: mount.Deleted})
	y.wantRemoved()
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.PutAway, session: mount.Deleted})
	y.wantRemoved(session)
	y.wantLeft()
	y.gone[reviewer] = access.No // it was restored
	y.now = y.now.Add(100 * dayLong)
	y.wantFates(mount.CollectOptions{DryRun: true}, map[mount.ID]mount.Fate{agent: mount.Back})
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Back})
	y.wantFates(mount.CollectOptions{}, nil)
	for _, id := range []mount.ID{agent, other} {
		if row, err := y.store.Get(t.Context(), id); err != nil || row.Archived() {
			t.Errorf("%s: %+v, %v", id, row, err)
		}
	}
}

// Who can't be said to be gone keeps everything, and who is there keeps what
// they put away themselves, for ever.
func TestCollectorKeeps(t *testing.T) {
	y := newYard(t)
	agent := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	session := y.make(mount.Folder{Project: "web", Session: "s"})
	mine := y.make(mount.Folder{Owner: "ana", Agent: "reviewer"})
	if _, err := y.store.Update(t.Context(), mine, mount.Change{By: "ana", Archived: new(true)}); err != nil {
		t.Fatal(err)
	}
	y.gone[reviewer] = access.Unknown
	y.gone[sessionS], y.fault[sessionS] = access.Yes, errors.New("no answer") // an error is no answer, whatever comes with it
	want := map[mount.ID]mount.Fate{agent: mount.Kept, session: mount.Kept}
	y.wantFates(mount.CollectOptions{}, want)
	y.now = y.now.Add(1000 * dayLong)
	y.wantFates(mount.CollectOptions{}, want)
	y.wantRemoved()
	if row, err := y.store.Get(t.Context(), mine); err != nil || !row.Archived() {
		t.Errorf("got %+v, %v", row, err)
	}
}

// Between the look and the deed somebody may use a mount, or its owner come
// back: then it stays, with its files.
func TestCollectorComesTooLate(t *testing.T) {
	y := newYard(t)
	agent := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
	y.gone[reviewer] = access.Yes
	use := func() { y.make(mount.Folder{Project: "web", Agent: "reviewer"}) }

	version := func() int64 {
		row, err := y.store.Get(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		return row.Version
	}
	y.asked = func(mount.Owner) { // somebody else puts it away first
		if _, err := y.shelf.store.Update(t.Context(), agent, mount.Change{Name: new(fmt.Sprint("n", version()))}); err != nil {
			t.Fatal(err)
		}
	}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Changed})
	y.asked = func(mount.Owner) {}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.PutAway})
	y.now = y.now.Add(dayLong)

	n := 0
	y.asked = func(mount.Owner) {
		if n++; n == 2 {
			use()
		}
	}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Changed})
	y.asked = func(mount.Owner) {}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.PutAway})
	y.now = y.now.Add(dayLong)

	n = 0
	y.asked = func(mount.Owner) {
		if n++; n == 2 {
			y.gone[reviewer] = access.No
		}
	}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Kept})
	y.wantRemoved()

	y.gone[reviewer], n = access.Yes, 0
	y.asked = func(mount.Owner) {
		if n++; n == 2 {
			if _, err := y.purger.DeleteScope(t.Context(), "project:web", 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	y.wantFates(mount.CollectOptions{}, map[mount.ID]mount.Fate{agent: mount.Changed})
	y.wantRemoved(agent)
	y.wantLeft()
}

// A pass is gone on with from where it ended, and one content that can't be
// removed keeps nobody from the others: it is removed later.
func TestCollectGoesOn(t *testing.T) {
	y := newYard(t)
	var all []mount.ID
	for i := range 5 {
		who := access.AgentID(fmt.Sprint("agent ", i))
		all = append(all, y.make(mount.Folder{Project: "web", Agent: who}))
		y.gone[mount.Owner{Project: "web", Agent: who}] = access.Yes
	}
	slices.Sort(all)
	passes := func() (looked int) {
		for after := mount.ID(""); ; {
			got, err := y.collector().Collect(t.Context(), mount.CollectOptions{After: after, Limit: 2})
			if err != nil {
				t.Log(err)
			}
			if looked += got.Looked; got.Last == "" {
				return looked
			}
			after = got.Last
		}
	}
	if n := passes(); n != 5 {
		t.Errorf("looked at %d, want 5", n)
	}
	y.now = y.now.Add(dayLong)
	y.stuck[all[1]] = errors.New("stuck")
	if n := passes(); n != 5 {
		t.Errorf("looked at %d, want 5", n)
	}
	y.wantRemoved(all[0], all[2], all[3], all[4])
	y.wantLeft(all[1])
	delete(y.stuck, all[1])
	if _, _, err := y.purger.Sweep(t.Context(), "", 10); err != nil {
		t.Error(err)
	}
	y.wantRemoved(all[1])
	y.wantLeft()

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := y.collector().Collect(ended, mount.CollectOptions{}); !errors.Is(err, context.Canceled) || got.Looked != 0 {
		t.Errorf("with an ended context: %+v, %v", got, err)
	}
}

// mortalStore is a store of a process that is gone from its nth call on: either
// before the call does anything, or after it did.
type mortalStore struct {
	mount.Store
	n     int
	after bool
}

var errDied = errors.New("died")

func dies[T any](s *mortalStore, call func() (T, error)) (T, error) {
	var none T
	if s.n--; s.n < 0 || s.n == 0 && !s.after {
		return none, errDied
	}
	got, err := call()
	if s.n == 0 {
		return none, errDied
	}
	return got, err
}

func (s *mortalStore) Scan(ctx context.Context, after mount.ID, limit int) ([]mount.Row, error) {
	return dies(s, func() ([]mount.Row, error) { return s.Store.Scan(ctx, after, limit) })
}

func (s *mortalStore) Get(ctx context.Context, id mount.ID) (mount.Row, error) {
	return dies(s, func() (mount.Row, error) { return s.Store.Get(ctx, id) })
}

func (s *mortalStore) Update(ctx context.Context, id mount.ID, c mount.Change) (mount.Row, error) {
	return dies(s, func() (mount.Row, error) { return s.Store.Update(ctx, id, c) })
}

func (s *mortalStore) Delete(ctx context.Context, t mount.Target, limit int) ([]mount.Row, error) {
	return dies(s, func() ([]mount.Row, error) { return s.Store.Delete(ctx, t, limit) })
}

func (s *mortalStore) Forget(ctx context.Context, ids []mount.ID) error {
	_, err := dies(s, func() (struct{}, error) { return struct{}{}, s.Store.Forget(ctx, ids) })
	return err
}

// Wherever a process dies, the passes of the next one and its sweep leave
// nothing of what is gone, and everything of what is not.
func TestCollectorDiesAtEveryCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			y := newYard(t)
			agent := y.make(mount.Folder{Project: "web", Agent: "reviewer"})
			session := y.make(mount.Folder{Project: "web", Session: "s"})
			stays := y.make(mount.Folder{Project: "web", Agent: "writer"})
			y.gone[reviewer], y.gone[sessionS] = access.Yes, access.Yes
			died := &mortalStore{Store: y.shelf.store, n: n, after: after}
			y.store = died
			for range 2 {
				_, _ = y.collector().Collect(t.Context(), mount.CollectOptions{}) // what it says dies with it
				y.now = y.now.Add(dayLong)
			}
			alive := died.n > 0
			y.store = y.shelf.store
			for range 2 {
				if _, err := y.collector().Collect(t.Context(), mount.CollectOptions{}); err != nil {
					t.Error(err)
				}
				y.now = y.now.Add(dayLong)
			}
			if _, _, err := y.purger.Sweep(t.Context(), "", 10); err != nil {
				t.Error(err)
			}
			slices.Sort(y.removed)
			y.removed = slices.Compact(y.removed) // what was removed just before it died is removed once more
			y.wantRemoved(agent, session)
			y.wantLeft()
			if rows, err := y.store.Scan(t.Context(), "", 10); err != nil || len(rows) != 1 || rows[0].ID != stays {
				t.Errorf("died at call %d (after it: %v): left are %+v, %v", n, after, rows, err)
			}
			if alive {
				if n < 7 {
					t.Errorf("a pass makes %d calls, which is too few to tell", n-1)
				}
				break
			}
		}
	}
}

func TestCollectorRefusesByField(t *testing.T) {
	s := newShelf(t)
	gone := func(context.Context, mount.Owner) (access.Tri, error) { return access.No, nil }
	for field, c := range map[string]mount.CollectorConfig{
		"Store":  {Purger: s.purger, Gone: gone},
		"Purger": {Store: s.store, Gone: gone},
		"Gone":   {Store: s.store, Purger: s.purger},
		"Grace":  {Store: s.store, Purger: s.purger, Gone: gone, Grace: -1},
	} {
		got, err := mount.NewCollector(c)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field || got != nil {
			t.Errorf("%s: %v, %v", field, got, err)
		}
	}
	c, err := mount.NewCollector(mount.CollectorConfig{Store: s.store, Purger: s.purger, Gone: gone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Collect(t.Context(), mount.CollectOptions{Limit: -1}); err == nil {
		t.Error("a negative limit was taken")
	}
	if got := mount.OwnerOf(mount.Row{Scope: "project:web"}); got != projectWeb {
		t.Errorf("got %+v", got)
	}
}
