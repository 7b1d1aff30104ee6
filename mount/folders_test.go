package mount_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

func newFolders(t *testing.T, store mount.Store) *mount.Folders {
	t.Helper()
	f, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGetOrCreateFillsTheServicesColumns(t *testing.T) {
	folders := newFolders(t, memory.New(nil).Mounts())
	row, err := folders.GetOrCreate(t.Context(), mount.Folder{Project: "web", Owner: "ana", Agent: "{" + agentUUID + "}", Name: "My Notes"}, "bob")
	if err != nil {
		t.Fatal(err)
	}
	if canonical, ok := id.Canonical(string(row.ID)); !ok || canonical != string(row.ID) {
		t.Errorf("id %q is not a canonical UUID", row.ID)
	}
	if row.CreatedAt.IsZero() || row.UpdatedAt.IsZero() {
		t.Errorf("the store did not date the row: %+v", row)
	}
	want := mount.Row{
		ID: row.ID, Scope: "project:web", Slug: "__bkr__agent__" + agentUUID + "__my-notes",
		Kind: mount.KindAgent, Agent: agentUUID, Name: "my-notes",
		CreatedBy: "bob", CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
}

// Mounts trap 4: a query created the mount it asked for. Asked twice it stays absent.
func TestFindNeverCreates(t *testing.T) {
	folders := newFolders(t, memory.New(nil).Mounts())
	f := mount.Folder{Project: "web", Agent: "reviewer"}
	for range 2 {
		if row, err := folders.Find(t.Context(), f); !errors.Is(err, mount.ErrNotFound) || row != (mount.Row{}) {
			t.Fatalf("Find of what was never made = %+v, %v", row, err)
		}
	}
	made, err := folders.GetOrCreate(t.Context(), f, "ana")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := folders.Find(t.Context(), f); err != nil || found != made {
		t.Errorf("Find = %+v, %v; want %+v", found, err, made)
	}
}

// Mounts traps 5 and 6: two first runs at once ended in a unique violation, or
// in the id of the row that was not stored.
func TestGetOrCreateAtOnceIsOneRow(t *testing.T) {
	folders := newFolders(t, memory.New(nil).Mounts())
	f := mount.Folder{Project: "web", Agent: "reviewer"}
	rows := make([]mount.Row, 16)
	var all sync.WaitGroup
	for i := range rows {
		all.Go(func() {
			row, err := folders.GetOrCreate(context.Background(), f, "ana")
			if err != nil {
				t.Error(err)
			}
			rows[i] = row
		})
	}
	all.Wait()
	stored, err := folders.Find(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.ID != stored.ID {
			t.Errorf("a caller got %s, stored is %s", row.ID, stored.ID)
		}
	}
}

func TestFoldersAreApart(t *testing.T) {
	folders := newFolders(t, memory.New(nil).Mounts())
	seen := map[mount.ID]mount.Folder{}
	for _, f := range []mount.Folder{
		{Project: "web", Agent: "reviewer"},
		{Project: "app", Agent: "reviewer"},
		{Owner: "web", Agent: "reviewer"},
		{Project: "user:web", Agent: "reviewer"},
		{Project: "web", Agent: "writer"},
		{Project: "web", Agent: "reviewer", Name: "other"},
	} {
		row, err := folders.GetOrCreate(t.Context(), f, "ana")
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[row.ID]; taken {
			t.Errorf("%+v and %+v are one row", f, other)
		}
		seen[row.ID] = f
	}
}

// The id of one agent may have been chosen to be the hash of another's. The
// columns tell them apart: the folder stays with the agent that had it first.
func TestAgentsMadeToCollideStayApart(t *testing.T) {
	const hash = "06cbfb73-88fe-5cdd-954e-5a9744f9f489" // see TestAgentSlugIsFrozen
	folders := newFolders(t, memory.New(nil).Mounts())
	victim, thief := mount.Folder{Project: "web", Agent: "reviewer"}, mount.Folder{Project: "web", Agent: hash}
	if _, err := folders.GetOrCreate(t.Context(), victim, "ana"); err != nil {
		t.Fatal(err)
	}
	if row, err := folders.GetOrCreate(t.Context(), thief, "eve"); !errors.Is(err, mount.ErrTaken) || row != (mount.Row{}) {
		t.Errorf("GetOrCreate of the colliding agent = %+v, %v; want ErrTaken", row, err)
	}
	if row, err := folders.Find(t.Context(), thief); !errors.Is(err, mount.ErrNotFound) || row != (mount.Row{}) {
		t.Errorf("Find of the colliding agent = %+v, %v; want ErrNotFound", row, err)
	}
}

func TestFoldersNameTheBadField(t *testing.T) {
	store := memory.New(nil).Mounts()
	good := newFolders(t, store)
	badID, err := mount.NewFolders(mount.FoldersConfig{Store: store, NewID: func() string { return "../x" }})
	if err != nil {
		t.Fatal(err)
	}
	f := mount.Folder{Project: "web", Agent: "reviewer"}
	create := func(s *mount.Folders, f mount.Folder, by access.UserID) func() error {
		return func() error { _, err := s.GetOrCreate(t.Context(), f, by); return err }
	}
	for _, c := range []struct {
		field string
		call  func() error
	}{
		{"Store", func() error { _, err := mount.NewFolders(mount.FoldersConfig{}); return err }},
		{"NewID", create(badID, f, "ana")},
		{"agent", create(good, mount.Folder{Project: "web"}, "ana")},
		{"owner", create(good, mount.Folder{Agent: "reviewer"}, "ana")},
		{"name", create(good, mount.Folder{Project: "web", Agent: "reviewer", Name: "!!!"}, "ana")},
		{"by", create(good, f, "\xff")},
		{"agent", func() error { _, err := good.Find(t.Context(), mount.Folder{Project: "web"}); return err }},
	} {
		err := c.call()
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field {
			t.Errorf("got %v, want a FieldError of %s", err, c.field)
		}
	}
	if _, err := good.Find(t.Context(), f); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("a refused call made a row: %v", err)
	}
}
