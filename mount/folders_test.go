package mount_test

import (
	"context"
	"errors"
	"strings"
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
		Version: 1, CreatedBy: "bob", CreatedAt: row.CreatedAt, UpdatedBy: "bob", UpdatedAt: row.UpdatedAt,
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
		{Project: "web", Session: "reviewer"},
		{Project: "web", Session: "reviewer", Name: "default"},
		{Project: "web", Session: "Reviewer"},
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

// What stands under the slug of a session's folder and is not that folder is
// not had by who asks for the folder.
func TestFoldersAreWhatTheirColumnsSay(t *testing.T) {
	d := newDesk(t)
	folders := newFolders(t, d.store)
	slug, err := mount.SessionSlug("s", "")
	if err != nil {
		t.Fatal(err)
	}
	other := mount.Row{ID: "m1", Scope: "project:web", Slug: slug, Kind: mount.KindSession, Session: "another"}
	plain := mount.Row{ID: "m2", Scope: "project:web", Slug: strings.TrimSuffix(slug, "cwd") + "attachments", Kind: mount.KindSession, Session: "s"}
	for _, r := range []mount.Row{other, plain} {
		d.made(d.store.Create(t.Context(), r))
	}
	f := mount.Folder{Project: "web", Session: "s"}
	if row, err := folders.GetOrCreate(t.Context(), f, "ana"); !errors.Is(err, mount.ErrTaken) {
		t.Errorf("another session's: got %+v, %v; want ErrTaken", row, err)
	}
	if row, err := folders.Find(t.Context(), f); !errors.Is(err, mount.ErrNotFound) {
		t.Errorf("another session's: found %+v, %v", row, err)
	}
	if row, err := d.catalog.AttachmentsMount(t.Context(), as("bob"), "web", "s"); !errors.Is(err, mount.ErrTaken) {
		t.Errorf("what is not protected: got %+v, %v; want ErrTaken", row, err)
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
		{"agent", create(good, mount.Folder{Project: "web", Agent: "reviewer", Session: "s"}, "ana")},
		{"session", create(good, mount.Folder{Project: "web", Session: "\x00"}, "ana")},
		{"name", create(good, mount.Folder{Project: "web", Session: "s", Name: "Attachments"}, "ana")},
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
