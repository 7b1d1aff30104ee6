package mounttest

import (
	"context"
	"errors"
	"fmt"
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
	return []storeCheck{
		{"inserted", "GetOrCreate inserts a row that is not there, every field of it, dated by the store", checkInserted},
		{"stored id", "GetOrCreate returns the stored row with the stored id, never the one it was called with (mounts trap 6)", checkStoredID},
		{"at once", "of many callers at once all get one row (mounts trap 5)", checkOneRow},
		{"find", "Find returns the stored row", checkFind},
		{"find never creates", "Find answers ErrNotFound for what is not there, names it, and never creates it (mounts trap 4)", checkFindCreatesNothing},
		{"apart", "one slug in two scopes is two mounts, and two slugs in one scope are", checkScopes},
		{"text", "scopes, slugs and ids are kept byte by byte, whatever their case", checkText},
		{"cancelled", "with an ended context the call answers with its error and writes nothing", checkCancelled},
	}
}

// storeRow is a row to insert. n makes an id of its own.
func storeRow(n int, scope, slug string) mount.Row {
	return mount.Row{
		ID: mount.ID(fmt.Sprintf("0192f0c1-2ab4-7cde-8f01-%012x", n)), Scope: scope, Slug: slug,
		Kind: mount.KindAgent, Agent: "agent ü", Name: "default", CreatedBy: "alice",
	}
}

// sameRow compares two rows but for UpdatedAt.
func sameRow(what string, got, want mount.Row) error {
	if !got.CreatedAt.Equal(want.CreatedAt) {
		return fmt.Errorf("%s: created at %v, want %v", what, got.CreatedAt, want.CreatedAt)
	}
	got.CreatedAt, got.UpdatedAt = want.CreatedAt, want.UpdatedAt
	if got != want {
		return fmt.Errorf("%s: got %+v, want %+v", what, got, want)
	}
	return nil
}

func checkInserted(ctx context.Context, s mount.Store) error {
	want := storeRow(1, "project:p", "slug")
	want.CreatedAt = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC) // the store has a clock of its own
	want.UpdatedAt = want.CreatedAt
	got, err := s.GetOrCreate(ctx, want)
	if err != nil {
		return err
	}
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
		if got.UpdatedAt.Before(last) {
			return fmt.Errorf("UpdatedAt went back from %v to %v", last, got.UpdatedAt)
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

func checkFind(ctx context.Context, s mount.Store) error {
	want, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	got, err := s.Find(ctx, want.Scope, want.Slug)
	if err != nil {
		return err
	}
	if !got.UpdatedAt.Equal(want.UpdatedAt) {
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
		want.CreatedAt = got.CreatedAt
		if err := sameRow("row", got, want); err != nil {
			return err
		}
	}
	return nil
}

func checkCancelled(ctx context.Context, s mount.Store) error {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.GetOrCreate(ended, storeRow(1, "project:p", "slug")); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("GetOrCreate: got error %v", err)
	}
	if _, err := s.Find(ended, "project:p", "slug"); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("mounttest: Find: got error %v", err)
	}
	if got, err := s.Find(ctx, "project:p", "slug"); !errors.Is(err, mount.ErrNotFound) {
		return fmt.Errorf("afterwards Find returns %+v and error %v, want ErrNotFound", got, err)
	}
	return nil
}
