package mounttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// TestStore checks a store against the contract of [mount.Store]. open
// returns one that is empty, and cleans up with t.Cleanup.
func TestStore(t *testing.T, open func(t *testing.T) mount.Store) {
	t.Helper()
	for _, c := range storeChecks() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.Context(), open(t)); err != nil {
				t.Errorf("%s: %v", c.rule, err)
			}
		})
	}
}

type storeCheck struct {
	name, rule string
	run        func(context.Context, mount.Store) error
}

func storeChecks() []storeCheck {
	return slices.Concat([]storeCheck{
		{"inserted", "GetOrCreate inserts a row that is not there, every field of it, dated by the store", checkInserted},
		{"stored id", "GetOrCreate returns the stored row with the stored id, never the one it was called with (mounts trap 6)", checkStoredID},
		{"at once", "of many callers at once all get one row (mounts trap 5)", checkOneRow},
		{"revived", "GetOrCreate takes a row out of the archive: it has the id it had, and so its files (mounts trap 7)", checkRevived},
		{"edited", "GetOrCreate leaves what users have edited as it is", checkEditedStays},
		{"find", "Find returns the stored row", checkFind},
		{"find never creates", "Find answers ErrNotFound for what is not there, names it, and never creates it (mounts trap 4)", checkFindCreatesNothing},
		{"apart", "one slug in two scopes is two mounts, and two slugs in one scope are", checkScopes},
		{"text", "scopes, slugs and ids are kept byte by byte, whatever their case", checkText},
		{"cancelled", "with an ended context a call answers with its error and writes nothing", checkCancelled},
	}, rowChecks(), listChecks(), deleteChecks())
}

// storeRow is a row to insert. n makes an id of its own.
func storeRow(n int, scope, slug string) mount.Row {
	return mount.Row{
		ID: mount.ID(fmt.Sprintf("0192f0c1-2ab4-7cde-8f01-%012x", n)), Scope: scope, Slug: slug,
		Kind: mount.KindAgent, Agent: "agent ü", Name: "default", CreatedBy: "alice",
	}
}

// inserted is r as it is once it has been inserted, but for its dates.
func inserted(r mount.Row) mount.Row {
	r.Version, r.UpdatedBy, r.ArchivedBy = 1, r.CreatedBy, ""
	return r
}

// sameRow compares two rows but for UpdatedAt and by whom.
func sameRow(what string, got, want mount.Row) error {
	if !got.CreatedAt.Equal(want.CreatedAt) {
		return fmt.Errorf("%s: created at %v, want %v", what, got.CreatedAt, want.CreatedAt)
	}
	if !got.ArchivedAt.Equal(want.ArchivedAt) {
		return fmt.Errorf("%s: archived at %v, want %v", what, got.ArchivedAt, want.ArchivedAt)
	}
	got.CreatedAt, got.ArchivedAt, got.UpdatedAt, got.UpdatedBy = want.CreatedAt, want.ArchivedAt, want.UpdatedAt, want.UpdatedBy
	if got != want {
		return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	return nil
}

func checkInserted(ctx context.Context, s mount.Store) error {
	want := fullRow(1, "project:p", "slug")
	want.CreatedAt = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) // the store has a clock of its own
	want.UpdatedAt = want.CreatedAt
	got, err := s.GetOrCreate(ctx, want)
	if err != nil {
		return err
	}
	if got.UpdatedBy != want.CreatedBy {
		return fmt.Errorf("updated by %q, want %q", got.UpdatedBy, want.CreatedBy)
	}
	want = inserted(want)
	if got.CreatedAt.Year() <= 2001 || got.UpdatedAt.Before(got.CreatedAt) {
		return fmt.Errorf("created at %v, updated at %v", got.CreatedAt, got.UpdatedAt)
	}
	if _, offset := got.CreatedAt.Zone(); offset != 0 {
		return fmt.Errorf("created at %v, which is not in UTC", got.CreatedAt)
	}
	want.CreatedAt = got.CreatedAt
	return sameRow("inserted row", got, want)
}

func checkStoredID(ctx context.Context, s mount.Store) error {
	first, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	last := first.UpdatedAt
	for n := 2; n < 5; n++ {
		other := storeRow(n, "project:p", "slug")
		other.Agent, other.Name, other.CreatedBy, other.Kind = "another", "another", "bob", 7
		got, err := s.GetOrCreate(ctx, other)
		if err != nil {
			return err
		}
		if err := sameRow("existing row", got, first); err != nil {
			return err
		}
		if got.UpdatedAt.Before(last) || got.UpdatedBy != "bob" {
			return fmt.Errorf("updated at %v by %s, want no earlier than %v by bob", got.UpdatedAt, got.UpdatedBy, last)
		}
		last = got.UpdatedAt
	}
	return nil
}

func checkOneRow(ctx context.Context, s mount.Store) error {
	const callers = 32
	var (
		rows  [callers]mount.Row
		errs  [callers]error
		start = make(chan struct{})
		done  sync.WaitGroup
	)
	for i := range callers {
		done.Go(func() {
			<-start
			rows[i], errs[i] = s.GetOrCreate(ctx, storeRow(i+1, "project:p", "slug"))
		})
	}
	close(start)
	done.Wait()
	stored, err := s.Find(ctx, "project:p", "slug")
	if err := errors.Join(append(errs[:], err)...); err != nil {
		return err
	}
	for i, got := range rows {
		if err := sameRow(fmt.Sprintf("row of caller %d", i), got, stored); err != nil {
			return err
		}
	}
	return nil
}

func checkRevived(ctx context.Context, s mount.Store) error {
	first, err := s.GetOrCreate(ctx, fullRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	away, err := s.Update(ctx, first.ID, mount.Change{By: "bob", Archived: new(true)})
	if err != nil {
		return err
	}
	got, err := s.GetOrCreate(ctx, storeRow(2, "project:p", "slug"))
	if err != nil {
		return err
	}
	first.Version = away.Version + 1
	if err := sameRow("revived row", got, first); err != nil {
		return err
	}
	stored, err := s.Get(ctx, first.ID)
	if err != nil {
		return err
	}
	return sameRow("stored row", stored, first)
}

func checkEditedStays(ctx context.Context, s mount.Store) error {
	first, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	edited, err := s.Update(ctx, first.ID, mount.Change{By: "bob", Name: new("Notes"), Description: new("ours"), Meta: new(`{"a":1}`)})
	if err != nil {
		return err
	}
	got, err := s.GetOrCreate(ctx, fullRow(2, "project:p", "slug"))
	if err != nil {
		return err
	}
	return sameRow("edited row", got, edited)
}

func checkFind(ctx context.Context, s mount.Store) error {
	want, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	got, err := s.Find(ctx, want.Scope, want.Slug)
	if err != nil {
		return err
	}
	if !got.UpdatedAt.Equal(want.UpdatedAt) || got.UpdatedBy != want.UpdatedBy {
		return fmt.Errorf("updated at %v, want %v: to find is not to update", got.UpdatedAt, want.UpdatedAt)
	}
	return sameRow("found row", got, want)
}

func checkFindCreatesNothing(ctx context.Context, s mount.Store) error {
	for range 2 { // asked twice it stays empty
		switch got, err := s.Find(ctx, "project:p", "a slug"); {
		case !errors.Is(err, mount.ErrNotFound):
			return fmt.Errorf("got %+v and error %v, want ErrNotFound", got, err)
		case !strings.Contains(err.Error(), "a slug"):
			return fmt.Errorf("error %q does not name its subject", err)
		}
	}
	want := storeRow(9, "project:p", "a slug")
	got, err := s.GetOrCreate(ctx, want)
	if err == nil && got.ID != want.ID {
		return fmt.Errorf("after it was looked for it has the id %s, want %s", got.ID, want.ID)
	}
	return err
}

func checkScopes(ctx context.Context, s mount.Store) error {
	var rows []mount.Row
	for _, at := range [][2]string{{"project:p", "one"}, {"project:p", "two"}, {"user:p", "one"}, {"project:q", "two"}} {
		got, err := s.GetOrCreate(ctx, storeRow(len(rows)+1, at[0], at[1]))
		if err != nil {
			return err
		}
		rows = append(rows, got)
	}
	for i, want := range rows {
		got, err := s.Find(ctx, want.Scope, want.Slug)
		if err != nil {
			return err
		}
		if err := sameRow("row", got, want); err != nil {
			return err
		}
		if id := storeRow(i+1, "", "").ID; got.ID != id {
			return fmt.Errorf("%s in %s has the id %s, want %s", got.Slug, got.Scope, got.ID, id)
		}
	}
	if got, err := s.Find(ctx, "project:q", "one"); !errors.Is(err, mount.ErrNotFound) {
		return fmt.Errorf("a slug of other scopes: got %+v and error %v, want ErrNotFound", got, err)
	}
	return nil
}

func checkText(ctx context.Context, s mount.Store) error {
	long := strings.Repeat("🛏", access.MaxID/4)
	for i, scope := range []string{"project:" + long, "project:Case", "project:case", "project:%' OR 1=1 --", "project:cas_"} {
		want := storeRow(i+1, scope, "slug")
		want.Agent, want.CreatedBy = access.AgentID(long), access.UserID(long)
		got, err := s.GetOrCreate(ctx, want)
		if err != nil {
			return err
		}
		want = inserted(want)
		want.CreatedAt = got.CreatedAt
		if err := sameRow("row", got, want); err != nil {
			return err
		}
	}
	return nil
}
