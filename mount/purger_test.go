package mount_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

// shelf is a store with a clock of its own, a purger, and what the purger has removed.
type shelf struct {
	*testing.T
	store   mount.Store
	folders *mount.Folders
	purger  *mount.Purger
	now     time.Time
	removed []mount.ID
	stuck   map[mount.ID]error // contents that can't be removed
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{T: t, now: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC), stuck: map[mount.ID]error{}}
	s.store = memory.New(&memory.Options{Now: func() time.Time { return s.now }}).Mounts()
	s.folders = newFolders(t, s.store)
	var err error
	s.purger, err = mount.NewPurger(mount.PurgerConfig{Store: s.store, Remove: func(_ context.Context, left mount.Tombstone) error {
		if err := s.stuck[left.ID]; err != nil {
			return err
		}
		if _, err := s.store.Get(context.Background(), left.ID); !errors.Is(err, mount.ErrNotFound) {
			s.Errorf("content of %s is removed while its row is there (%v)", left.ID, err)
		}
		s.removed = append(s.removed, left.ID)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shelf) make(f mount.Folder) mount.ID {
	s.Helper()
	row, err := s.folders.GetOrCreate(s.Context(), f, "ana")
	if err != nil {
		s.Fatal(err)
	}
	return row.ID
}

// wantRemoved wants these contents to be removed since it was last asked, and rows and tombstones of none.
func (s *shelf) wantRemoved(want ...mount.ID) {
	s.Helper()
	slices.Sort(s.removed)
	slices.Sort(want)
	if !slices.Equal(s.removed, want) {
		s.Errorf("removed %q, want %q", s.removed, want)
	}
	s.removed = nil
}

func (s *shelf) wantLeft(want ...mount.ID) {
	s.Helper()
	left, err := s.store.Tombstones(s.Context(), mount.Target{}, "", mount.MaxListed)
	var ids []mount.ID
	for _, t := range left {
		ids = append(ids, t.ID)
	}
	if err != nil || !slices.Equal(ids, want) {
		s.Errorf("tombstones %q (%v), want %q", ids, err, want)
	}
}

// Mounts trap 15: with a session its attachments stayed, or an agent's files went.
func TestDeleteSession(t *testing.T) {
	s := newShelf(t)
	agent := s.make(mount.Folder{Project: "web", Agent: "reviewer"})
	other := s.make(mount.Folder{Project: "web", Session: "S"})
	cwd := s.make(mount.Folder{Project: "web", Session: "s"})
	more := s.make(mount.Folder{Project: "web", Session: "s", Name: "more"})
	people := memory.NewDirectory()
	people.AddProject("web", "ana", "")
	catalog, err := mount.NewCatalog(mount.CatalogConfig{Store: s.store, Directory: people})
	if err != nil {
		t.Fatal(err)
	}
	attachments, err := catalog.AttachmentsMount(t.Context(), as("ana"), "web", "s")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, want := range []int{2, 1, 0} {
		n, err := s.purger.DeleteSession(t.Context(), "s", 2)
		if err != nil || n != want {
			t.Errorf("got %d, %v; want %d", n, err, want)
		}
		total += n
	}
	s.wantRemoved(cwd, more, attachments.ID)
	s.wantLeft()
	for _, id := range []mount.ID{agent, other} {
		if _, err := s.store.Get(t.Context(), id); err != nil {
			t.Errorf("%s is gone: %v", id, err)
		}
	}
	if n, err := s.purger.DeleteScope(t.Context(), "project:web", 10); err != nil || n != 2 {
		t.Errorf("the scope: got %d, %v; want 2", n, err)
	}
	s.wantRemoved(agent, other)
}

// A content that can't be removed is not forgotten, and keeps nobody from the
// others; the purge that is called again, or the sweep, goes on with it.
func TestPurgeGoesOn(t *testing.T) {
	s := newShelf(t)
	a := s.make(mount.Folder{Project: "web", Session: "s", Name: "a"})
	b := s.make(mount.Folder{Project: "web", Session: "s", Name: "b"})
	c := s.make(mount.Folder{Project: "web", Session: "s", Name: "c"})
	stuck := errors.New("the store is away")
	s.stuck[b] = stuck
	if n, err := s.purger.DeleteSession(t.Context(), "s", 10); n != 2 || !errors.Is(err, stuck) {
		t.Errorf("got %d, %v; want 2 and the fault", n, err)
	}
	s.wantRemoved(a, c)
	s.wantLeft(b)

	delete(s.stuck, b)
	if n, err := s.purger.DeleteSession(t.Context(), "s", 10); n != 1 || err != nil {
		t.Errorf("again: got %d, %v; want 1", n, err)
	}
	s.wantRemoved(b)
	s.wantLeft()

	// Broken off between the rows and their contents, as by a crash.
	d, e := s.make(mount.Folder{Owner: "ana", Session: "s"}), s.make(mount.Folder{Owner: "ana", Session: "t"})
	ended, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone home")
	s.stuck[d] = stuck
	if _, err := s.store.Delete(t.Context(), mount.Target{Scope: "user:ana"}, 10); err != nil {
		t.Fatal(err)
	}
	cancel(gone)
	if _, n, err := s.purger.Sweep(ended, "", 1); n != 0 || err == nil {
		t.Errorf("an ended sweep: got %d, %v", n, err)
	}
	last, n, err := s.purger.Sweep(t.Context(), "", 1)
	if last != d || n != 0 || !errors.Is(err, stuck) {
		t.Errorf("sweep: got %q, %d, %v", last, n, err)
	}
	if last, n, err = s.purger.Sweep(t.Context(), last, 1); last != e || n != 1 || err != nil { // what is stuck is in nobody's way
		t.Errorf("next: got %q, %d, %v", last, n, err)
	}
	if last, n, err = s.purger.Sweep(t.Context(), last, 1); last != "" || n != 0 || err != nil {
		t.Errorf("at the end: got %q, %d, %v", last, n, err)
	}
	s.wantRemoved(e)
	s.wantLeft(d)
}

// What is removed is forgotten, also where the purge is broken off right then.
func TestPurgeIsBrokenOff(t *testing.T) {
	s := newShelf(t)
	a := s.make(mount.Folder{Project: "web", Session: "s", Name: "a"})
	b := s.make(mount.Folder{Project: "web", Session: "s", Name: "b"})
	ctx, cancel := context.WithCancelCause(t.Context())
	home := errors.New("gone home")
	purger, err := mount.NewPurger(mount.PurgerConfig{Store: s.store, Remove: func(context.Context, mount.Tombstone) error {
		cancel(home)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := purger.DeleteSession(ctx, "s", 10); n != 1 || !errors.Is(err, home) {
		t.Errorf("got %d, %v; want 1 and the reason", n, err)
	}
	s.wantLeft(b)
	if _, err := s.store.Get(t.Context(), a); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("%s: %v", a, err)
	}
}

// What was put away goes after its grace, and not before; what was used since stays.
func TestDeleteArchived(t *testing.T) {
	s := newShelf(t)
	old := s.make(mount.Folder{Project: "web", Agent: "old"})
	used := s.make(mount.Folder{Project: "web", Agent: "used"})
	young := s.make(mount.Folder{Project: "web", Agent: "young"})
	archive := func(id mount.ID) {
		t.Helper()
		if _, err := s.store.Update(t.Context(), id, mount.Change{Archived: new(true)}); err != nil {
			t.Fatal(err)
		}
	}
	archive(old)
	archive(used)
	s.now = s.now.Add(time.Hour)
	archive(young)
	s.now = s.now.Add(23 * time.Hour)
	if again := s.make(mount.Folder{Project: "web", Agent: "used"}); again != used {
		t.Errorf("used again it is %s, and was %s", again, used)
	}
	for _, want := range []int{1, 0} {
		if n, err := s.purger.DeleteArchived(t.Context(), 24*time.Hour, 10); err != nil || n != want {
			t.Errorf("got %d, %v; want %d", n, err, want)
		}
	}
	s.wantRemoved(old)
	if again := s.make(mount.Folder{Project: "web", Agent: "old"}); again == old {
		t.Error("a folder made anew has the place of the old one")
	}
}

func TestPurgerNamesTheBadField(t *testing.T) {
	s := newShelf(t)
	call := func(_ int, err error) error { return err }
	for _, c := range []struct {
		field string
		err   error
	}{
		{"Store", second(mount.NewPurger(mount.PurgerConfig{Remove: func(context.Context, mount.Tombstone) error { return nil }}))},
		{"Remove", second(mount.NewPurger(mount.PurgerConfig{Store: s.store}))},
		{"session", call(s.purger.DeleteSession(t.Context(), "", 1))},
		{"scope", call(s.purger.DeleteScope(t.Context(), "", 1))},
		{"grace", call(s.purger.DeleteArchived(t.Context(), 0, 1))},
		{"limit", call(s.purger.DeleteSession(t.Context(), "s", 0))},
	} {
		if e, ok := errors.AsType[*access.FieldError](c.err); !ok || e.Field != c.field {
			t.Errorf("got %v, want a FieldError of %s", c.err, c.field)
		}
	}
}

func second[T any](_ T, err error) error { return err }
