package mounttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

func deleteChecks() []storeCheck {
	return []storeCheck{
		{"delete session", "Delete of a session takes all of its rows, protected and archived ones too, in every scope, and no other (mounts trap 15)", checkDeleteSession},
		{"delete scope", "Delete of a scope takes all of its rows and no other's", checkDeleteScope},
		{"delete archived", "Delete of what is archived takes what has been so for long enough, and what was used since stays", checkDeleteArchived},
		{"delete one", "Delete of one takes that row and no other, and only with the version and the time in the archive that are asked for", checkDeleteOne},
		{"scan", "Scan has every row of every scope, archived and protected ones too, once and in the order of their ids", checkScan},
		{"tombstones", "each deleted row leaves a tombstone until it is forgotten, and they are had in the order of their ids, of a scope or a session too", checkTombstones},
		{"anew", "after a row is deleted its slug makes a new one, with an id of its own", checkAnew},
		{"bad targets", "Delete refuses no target and more than one, and both it and Tombstones a limit that is none, with nothing deleted", checkBadTargets},
	}
}

// deleted calls Delete until nothing is left, a few at a time, and returns the slugs in order.
func deleted(ctx context.Context, s mount.Store, t mount.Target) (slugs []string, err error) {
	const few = 2
	for {
		rows, err := s.Delete(ctx, t, few)
		if err != nil {
			return nil, err
		}
		if len(rows) > few {
			return nil, fmt.Errorf("%d rows were deleted, and %d may be", len(rows), few)
		}
		if len(rows) == 0 {
			slices.Sort(slugs)
			return slugs, nil
		}
		for _, r := range rows {
			slugs = append(slugs, r.Slug)
		}
	}
}

// stock fills a store with rows of sessions and agents in several scopes.
func stock(ctx context.Context, s mount.Store) ([]mount.Row, error) {
	var all []mount.Row
	for n, r := range []struct {
		scope, slug string
		kind        mount.Kind
		session     access.SessionID
		purpose     mount.Purpose
		archived    bool
	}{
		{"project:p", "a", mount.KindSession, "s1", "", false},
		{"project:p", "b", mount.KindSession, "s1", mount.PurposeAttachments, false},
		{"project:p", "c", mount.KindSession, "s1", "", true},
		{"user:p", "d", mount.KindSession, "s1", "", false},
		{"project:p", "e", mount.KindSession, "S1", "", false},
		{"project:p", "f", mount.KindAgent, "", "", false},
		{"project:p", "g", mount.KindCustom, "", "", true},
	} {
		row := storeRow(n+1, r.scope, r.slug)
		row.Kind, row.Session, row.Purpose = r.kind, r.session, r.purpose
		stored, err := s.Create(ctx, row)
		if err == nil && r.archived {
			stored, err = s.Update(ctx, row.ID, mount.Change{By: "bob", Archived: &r.archived})
		}
		if err != nil {
			return nil, err
		}
		all = append(all, stored)
	}
	return all, nil
}

// gone compares which of all are there, and as they were.
func gone(ctx context.Context, s mount.Store, all []mount.Row, slugs ...string) error {
	for _, want := range all {
		got, err := s.Get(ctx, want.ID)
		if slices.Contains(slugs, want.Slug) {
			if !errors.Is(err, mount.ErrNotFound) {
				return fmt.Errorf("%s: got %+v and error %v, want ErrNotFound", want.Slug, got, err)
			}
		} else if err != nil || got != want {
			return fmt.Errorf("%s: got %+v and error %v, want %+v", want.Slug, got, err, want)
		}
	}
	return nil
}

func checkDelete(ctx context.Context, s mount.Store, t mount.Target, want ...string) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	if got, err := deleted(ctx, s, t); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("deleted %q (error %v), want %q", got, err, want)
	}
	return gone(ctx, s, all, want...)
}

func checkDeleteSession(ctx context.Context, s mount.Store) error {
	return checkDelete(ctx, s, mount.Target{Session: "s1"}, "a", "b", "c", "d")
}

func checkDeleteScope(ctx context.Context, s mount.Store) error {
	return checkDelete(ctx, s, mount.Target{Scope: "project:p"}, "a", "b", "c", "e", "f", "g")
}

func checkDeleteArchived(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	if got, err := deleted(ctx, s, mount.Target{Archived: time.Hour}); err != nil || got != nil {
		return fmt.Errorf("deleted %q (error %v), which were archived a moment ago", got, err)
	}
	last := all[len(all)-1].ArchivedAt
	for n := 1000; ; n++ { // wait for the store's own clock
		r, err := s.GetOrCreate(ctx, storeRow(1000, "user:clock", "clock"))
		if err != nil {
			return err
		}
		if r.UpdatedAt.Sub(last) > time.Millisecond {
			break
		}
		if n > 1_000_000 {
			return errors.New("the store's clock stands still")
		}
	}
	if all[2], err = s.GetOrCreate(ctx, all[2]); err != nil { // c is used again
		return err
	}
	if got, err := deleted(ctx, s, mount.Target{Archived: time.Millisecond}); err != nil || !slices.Equal(got, []string{"g"}) {
		return fmt.Errorf("deleted %q (error %v), want g", got, err)
	}
	return gone(ctx, s, all, "g")
}

func checkDeleteOne(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	a, g := all[0], all[6] // in use, and in the archive since a moment ago
	for _, t := range []mount.Target{
		{ID: a.ID, Version: a.Version + 1}, {ID: a.ID, Archived: time.Nanosecond}, {ID: g.ID, Archived: time.Hour},
		{ID: g.ID, Version: g.Version, Archived: time.Hour}, {ID: storeRow(99, "", "").ID},
	} {
		if got, err := s.Delete(ctx, t, 10); err != nil || len(got) > 0 {
			return fmt.Errorf("%+v: deleted %+v (error %v), want nothing", t, got, err)
		}
	}
	if err := gone(ctx, s, all); err != nil {
		return err
	}
	for _, c := range []struct {
		target mount.Target
		row    mount.Row
	}{{mount.Target{ID: a.ID}, a}, {mount.Target{ID: g.ID, Version: g.Version}, g}} {
		if got, err := s.Delete(ctx, c.target, 10); err != nil || len(got) != 1 || got[0] != c.row {
			return fmt.Errorf("%+v: deleted %+v (error %v), want %+v", c.target, got, err, c.row)
		}
	}
	return gone(ctx, s, all, "a", "g")
}

func checkScan(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b mount.Row) int { return cmp.Compare(a.ID, b.ID) })
	var found []mount.Row
	for after := mount.ID(""); ; {
		page, err := s.Scan(ctx, after, 3)
		if err != nil {
			return err
		}
		if found = append(found, page...); len(page) < 3 {
			break
		}
		if len(page) > 3 || len(found) > len(all) {
			return fmt.Errorf("a page of 3 has %d rows, and there are %d so far", len(page), len(found))
		}
		after = page[2].ID
	}
	if !slices.Equal(found, all) {
		return fmt.Errorf("got %+v, want %+v", found, all)
	}
	return nil
}

func checkTombstones(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	var left []mount.Tombstone
	for _, r := range all {
		left = append(left, mount.Tombstone{ID: r.ID, Scope: r.Scope, Session: r.Session})
	}
	if got, err := s.Tombstones(ctx, mount.Target{}, "", mount.MaxListed); err != nil || len(got) > 0 {
		return fmt.Errorf("tombstones %+v (error %v) of what is there", got, err)
	}
	for _, scope := range []string{"project:p", "user:p"} {
		if _, err := deleted(ctx, s, mount.Target{Scope: scope}); err != nil {
			return err
		}
	}
	ask := func(t mount.Target, after mount.ID, limit int, want ...mount.Tombstone) error {
		if got, err := s.Tombstones(ctx, t, after, limit); err != nil || !slices.Equal(got, want) {
			return fmt.Errorf("tombstones of %+v, %d behind %q: got %+v (error %v), want %+v", t, limit, after, got, err, want)
		}
		return nil
	}
	if err := errors.Join(
		ask(mount.Target{}, "", mount.MaxListed, left...),
		ask(mount.Target{}, "", 2, left[:2]...),
		ask(mount.Target{}, left[1].ID, 2, left[2:4]...),
		ask(mount.Target{}, left[6].ID, 2),
		ask(mount.Target{Session: "s1"}, "", mount.MaxListed, left[:4]...),
		ask(mount.Target{Scope: "user:p"}, "", mount.MaxListed, left[3]),
		ask(mount.Target{Scope: "project:p"}, left[2].ID, 2, left[4:6]...),
	); err != nil {
		return err
	}
	for range 2 { // what is forgotten already does not matter
		if err := s.Forget(ctx, []mount.ID{left[0].ID, "absent", left[3].ID}); err != nil {
			return err
		}
	}
	if err := s.Forget(ctx, nil); err != nil {
		return err
	}
	return ask(mount.Target{}, "", mount.MaxListed, slices.Concat(left[1:3], left[4:])...)
}

func checkAnew(ctx context.Context, s mount.Store) error {
	if _, err := s.GetOrCreate(ctx, fullRow(1, "project:p", "slug")); err != nil {
		return err
	}
	if _, err := deleted(ctx, s, mount.Target{Scope: "project:p"}); err != nil {
		return err
	}
	if got, err := s.Find(ctx, "project:p", "slug"); !errors.Is(err, mount.ErrNotFound) {
		return fmt.Errorf("deleted row: got %+v and error %v, want ErrNotFound", got, err)
	}
	want := inserted(storeRow(2, "project:p", "slug"))
	got, err := s.GetOrCreate(ctx, want)
	if err != nil {
		return err
	}
	want.CreatedAt = got.CreatedAt
	return sameRow("row made anew", got, want)
}

func checkBadTargets(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	for _, t := range []mount.Target{{}, {Scope: "project:p", Session: "s1"}, {Session: "s1", Archived: time.Hour}, {Archived: -time.Hour},
		{ID: "m", Archived: -time.Hour}, {ID: "m", Scope: "project:p"}, {Scope: "project:p", Version: 1}, {Archived: time.Hour, Version: 1}} {
		rows, err := s.Delete(ctx, t, 1)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "target" || rows != nil {
			return fmt.Errorf("%+v: got %+v and error %v, want a FieldError of target", t, rows, err)
		}
	}
	for _, limit := range []int{-1, 0, mount.MaxListed + 1} {
		_, delete := s.Delete(ctx, mount.Target{Scope: "project:p"}, limit)
		_, list := s.Tombstones(ctx, mount.Target{}, "", limit)
		_, scan := s.Scan(ctx, "", limit)
		for _, err := range []error{delete, list, scan} {
			if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "limit" {
				return fmt.Errorf("limit %d: got error %v, want a FieldError of limit", limit, err)
			}
		}
	}
	return gone(ctx, s, all)
}

func checkCancelled(ctx context.Context, s mount.Store) error {
	all, err := stock(ctx, s)
	if err != nil {
		return err
	}
	if _, err := s.Delete(ctx, mount.Target{Scope: "user:p"}, 1); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	id := all[0].ID
	for what, call := range map[string]func() error{
		"GetOrCreate": func() error { _, err := s.GetOrCreate(ended, storeRow(90, "project:p", "new")); return err },
		"Create":      func() error { _, err := s.Create(ended, storeRow(91, "project:p", "new")); return err },
		"Find":        func() error { _, err := s.Find(ended, "project:p", "a"); return err },
		"Get":         func() error { _, err := s.Get(ended, id); return err },
		"Update":      func() error { _, err := s.Update(ended, id, mount.Change{Name: new("x")}); return err },
		"List":        func() error { _, err := s.List(ended, mount.ListQuery{Scope: "project:p", Limit: 1}); return err },
		"Delete":      func() error { _, err := s.Delete(ended, mount.Target{Scope: "project:p"}, 1); return err },
		"Scan":        func() error { _, err := s.Scan(ended, "", 1); return err },
		"Tombstones":  func() error { _, err := s.Tombstones(ended, mount.Target{}, "", 1); return err },
		"Forget":      func() error { return s.Forget(ended, []mount.ID{all[3].ID}) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%s: got error %v", what, err)
		}
	}
	if got, err := s.Find(ctx, "project:p", "new"); !errors.Is(err, mount.ErrNotFound) {
		return fmt.Errorf("afterwards Find returns %+v and error %v, want ErrNotFound", got, err)
	}
	if left, err := s.Tombstones(ctx, mount.Target{}, "", 10); err != nil || len(left) != 1 {
		return fmt.Errorf("afterwards the tombstones are %+v (error %v), want one", left, err)
	}
	return gone(ctx, s, all, "d")
}
