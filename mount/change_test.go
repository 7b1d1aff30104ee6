package mount_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/mount"
)

func TestApplied(t *testing.T) {
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Hour)
	row := mount.Row{
		ID: "m", Version: 3, Scope: "project:p", Slug: "slug", Kind: mount.KindCustom, Name: "name", Description: "words", Meta: "{}",
		CreatedBy: "ana", CreatedAt: noon, UpdatedBy: "ana", UpdatedAt: noon,
	}
	archived := row
	archived.ArchivedBy, archived.ArchivedAt = "ana", noon
	changed := func(r mount.Row, change func(*mount.Row)) mount.Row {
		r.Version, r.UpdatedBy, r.UpdatedAt = 4, "bob", later
		change(&r)
		return r
	}
	for _, c := range []struct {
		rule   string
		row    mount.Row
		change mount.Change
		want   mount.Row
	}{
		{"nothing asked is nothing done", row, mount.Change{}, row},
		{"what is as it is asked for is nothing done", row, mount.Change{Name: new("name"), Archived: new(false)}, row},
		{"what is set is written", row, mount.Change{Name: new("x")}, changed(row, func(r *mount.Row) { r.Name = "x" })},
		{"empty is set too", row, mount.Change{Description: new(""), Meta: new("")}, changed(row, func(r *mount.Row) { r.Description, r.Meta = "", "" })},
		{"the version that was read will do", row, mount.Change{Version: 3, Meta: new(`{"a":1}`)}, changed(row, func(r *mount.Row) { r.Meta = `{"a":1}` })},
		{"it is put away", row, mount.Change{Archived: new(true)}, changed(row, func(r *mount.Row) { r.ArchivedBy, r.ArchivedAt = "bob", later })},
		{"put away it stays as long as it was", archived, mount.Change{Archived: new(true)}, archived},
		{"it is edited where it is", archived, mount.Change{Name: new("x")}, changed(archived, func(r *mount.Row) { r.Name = "x" })},
		{"it is taken out", archived, mount.Change{Archived: new(false)}, changed(row, func(*mount.Row) {})},
	} {
		c.change.By = "bob"
		if got, err := c.row.Applied(c.change, later); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", c.rule, got, err, c.want)
		}
	}
	got, err := row.Applied(mount.Change{Version: 2, Name: new("x")}, later)
	if e, ok := errors.AsType[*mount.VersionError](err); !ok || *e != (mount.VersionError{Mount: "m", Expected: 2, Actual: 3}) || got != (mount.Row{}) {
		t.Errorf("another version: got %+v, %v", got, err)
	}
	if used := archived.Used("bob", later); used != changed(row, func(*mount.Row) {}) {
		t.Errorf("used from the archive: %+v", used)
	}
	if used := row.Used("bob", later); used.Version != 3 || used.UpdatedBy != "bob" || used.UpdatedAt != later {
		t.Errorf("used: %+v", used)
	}
}

// What the service owns no change reaches, nothing is dated back, and a change that is repeated does nothing.
func TestChangesKeepWhatIsTheServices(t *testing.T) {
	maybe := func(name string) func(*rapid.T) *string {
		return func(t *rapid.T) *string {
			if rapid.Bool().Draw(t, name+" is set") {
				return new(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, name))
			}
			return nil
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
		row := mount.Row{ID: "m", Version: 1, Scope: "user:u", Slug: "s", Kind: mount.KindAgent, Agent: "a", Session: "s", Purpose: "p", UpdatedAt: at}
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			at = at.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "step")))
			c := mount.Change{By: "u", Name: maybe("name")(t), Description: maybe("description")(t), Meta: maybe("meta")(t)}
			if rapid.Bool().Draw(t, "archived is set") {
				c.Archived = new(rapid.Bool().Draw(t, "archived"))
			}
			next, err := row.Applied(c, at)
			if err != nil {
				t.Fatal(err)
			}
			if next.Version != row.Version && next.Version != row.Version+1 || (next == row) != (next.Version == row.Version) {
				t.Fatalf("version %d after %d", next.Version, row.Version)
			}
			if next.UpdatedAt.Before(row.UpdatedAt) {
				t.Fatalf("updated at %v after %v", next.UpdatedAt, row.UpdatedAt)
			}
			if again, err := next.Applied(c, at.Add(time.Hour)); err != nil || again != next {
				t.Fatalf("repeated: %+v, %v; want %+v", again, err, next)
			}
			owned := next
			owned.Version, owned.UpdatedAt, owned.UpdatedBy, owned.ArchivedAt, owned.ArchivedBy = row.Version, row.UpdatedAt, row.UpdatedBy, row.ArchivedAt, row.ArchivedBy
			owned.Name, owned.Description, owned.Meta = row.Name, row.Description, row.Meta
			if owned != row {
				t.Fatalf("%+v became %+v", row, next)
			}
			row = next
		}
	})
}
