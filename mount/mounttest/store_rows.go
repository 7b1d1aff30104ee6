package mounttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/bunkroom/bunkroom/mount"
)

func rowChecks() []storeCheck {
	return []storeCheck{
		{"created", "Create inserts a row, every field of it, and answers ErrExists for a slug that is taken, also by an archived row, which stays as it is", checkCreated},
		{"created at once", "of many callers at once one creates", checkCreatedOnce},
		{"get", "Get returns the stored row, and ErrNotFound for what is not there", checkGet},
		{"update", "Update writes what is set, leaves the rest, raises the version and says who it was", checkUpdate},
		{"update nothing", "an update that changes nothing writes nothing, so that it can be repeated", checkUpdateNothing},
		{"version", "Update refuses another version than the row has, with both in the error, and writes nothing", checkVersion},
		{"update at once", "of many updates of one version one is done", checkUpdateOnce},
		{"archive", "an archived row keeps its place, its id and the date it was put away, until it is taken out again", checkArchive},
	}
}

// fullRow is a row of which every field is set that an insert may set.
func fullRow(n int, scope, slug string) mount.Row {
	r := storeRow(n, scope, slug)
	r.Kind, r.Agent, r.Session, r.Purpose = mount.KindSession, "", "session ü", "some"
	r.Name, r.Description, r.Meta = "Näme", "what\nit is", `{"a":"ü"}`
	return r
}

func checkCreated(ctx context.Context, s mount.Store) error {
	want := inserted(fullRow(1, "project:p", "slug"))
	got, err := s.Create(ctx, want)
	if err != nil {
		return err
	}
	want.CreatedAt = got.CreatedAt
	if err := sameRow("created row", got, want); err != nil {
		return err
	}
	for _, archived := range []bool{false, true} {
		if got, err = s.Update(ctx, want.ID, mount.Change{Archived: &archived}); err != nil {
			return err
		}
		again, err := s.Create(ctx, storeRow(2, "project:p", "slug"))
		if !errors.Is(err, mount.ErrExists) || again != (mount.Row{}) {
			return fmt.Errorf("of a slug that is taken (archived: %v): got %+v and error %v, want ErrExists", archived, again, err)
		}
		if !strings.Contains(err.Error(), "slug") {
			return fmt.Errorf("error %q does not name its subject", err)
		}
		if stored, err := s.Get(ctx, want.ID); err != nil || stored != got {
			return fmt.Errorf("afterwards the row that had it is %+v (error %v), want %+v", stored, err, got)
		}
	}
	if _, err := s.Create(ctx, storeRow(3, "project:q", "slug")); err != nil {
		return fmt.Errorf("the same slug in another scope: %w", err)
	}
	return nil
}

func checkCreatedOnce(ctx context.Context, s mount.Store) error {
	n, err := winners(func(i int) error {
		_, err := s.Create(ctx, storeRow(i+1, "project:p", "slug"))
		return err
	}, func(err error) bool { return errors.Is(err, mount.ErrExists) })
	if err == nil && n != 1 {
		err = fmt.Errorf("%d have created it", n)
	}
	return err
}

// winners is how many of many calls at once succeed, where the others are refused.
func winners(call func(i int) error, refused func(error) bool) (n int, fault error) {
	const callers = 16
	var (
		errs  [callers]error
		start = make(chan struct{})
		done  sync.WaitGroup
	)
	for i := range callers {
		done.Go(func() {
			<-start
			errs[i] = call(i)
		})
	}
	close(start)
	done.Wait()
	for _, err := range errs {
		switch {
		case err == nil:
			n++
		case !refused(err):
			fault = errors.Join(fault, err)
		}
	}
	return n, fault
}

func checkGet(ctx context.Context, s mount.Store) error {
	want, err := s.GetOrCreate(ctx, fullRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	if got, err := s.Get(ctx, want.ID); err != nil || got != want {
		return fmt.Errorf("got %+v and error %v, want %+v", got, err, want)
	}
	got, err := s.Get(ctx, "absent")
	if !errors.Is(err, mount.ErrNotFound) || got != (mount.Row{}) || !strings.Contains(err.Error(), "absent") {
		return fmt.Errorf("of an id that is not there: got %+v and error %v, want ErrNotFound, with the id", got, err)
	}
	return nil
}

func checkUpdate(ctx context.Context, s mount.Store) error {
	row, err := s.GetOrCreate(ctx, fullRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	for _, c := range []mount.Change{
		{By: "bob", Name: new("New")},
		{By: "carol", Description: new("new"), Version: 2},
		{By: "bob", Meta: new(`{"b":2}`)},
		{By: "carol", Meta: new(""), Name: new(""), Description: new("")},
		{By: "bob", Archived: new(true), Name: new("Old")},
	} {
		want := row
		want.Version++
		for _, f := range []struct{ to, from *string }{{&want.Name, c.Name}, {&want.Description, c.Description}, {&want.Meta, c.Meta}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		got, err := s.Update(ctx, row.ID, c)
		if err != nil {
			return err
		}
		if c.Archived != nil {
			want.ArchivedBy, want.ArchivedAt = c.By, got.ArchivedAt
			if got.ArchivedAt.Before(row.UpdatedAt) {
				return fmt.Errorf("archived at %v, which is before %v", got.ArchivedAt, row.UpdatedAt)
			}
		}
		if err := sameRow("updated row", got, want); err != nil {
			return err
		}
		if got.UpdatedBy != c.By || got.UpdatedAt.Before(row.UpdatedAt) {
			return fmt.Errorf("updated at %v by %q, want no earlier than %v by %q", got.UpdatedAt, got.UpdatedBy, row.UpdatedAt, c.By)
		}
		if row, err = s.Get(ctx, row.ID); err != nil || row != got {
			return fmt.Errorf("stored is %+v (error %v), want %+v", row, err, got)
		}
	}
	got, err := s.Update(ctx, "absent", mount.Change{Name: new("x")})
	if !errors.Is(err, mount.ErrNotFound) || got != (mount.Row{}) || !strings.Contains(err.Error(), "absent") {
		return fmt.Errorf("of an id that is not there: got %+v and error %v, want ErrNotFound, with the id", got, err)
	}
	return nil
}

func checkUpdateNothing(ctx context.Context, s mount.Store) error {
	row, err := s.GetOrCreate(ctx, fullRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	for _, c := range []mount.Change{{By: "bob"}, {By: "bob", Name: &row.Name, Meta: &row.Meta, Archived: new(false)}} {
		if got, err := s.Update(ctx, row.ID, c); err != nil || got != row {
			return fmt.Errorf("got %+v and error %v, want %+v", got, err, row)
		}
		if got, err := s.Get(ctx, row.ID); err != nil || got != row {
			return fmt.Errorf("stored is %+v (error %v), want %+v", got, err, row)
		}
	}
	return nil
}

func checkVersion(ctx context.Context, s mount.Store) error {
	row, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	got, err := s.Update(ctx, row.ID, mount.Change{Version: 7, Name: new("x")})
	e, ok := errors.AsType[*mount.VersionError](err)
	if !ok || got != (mount.Row{}) || *e != (mount.VersionError{Mount: row.ID, Expected: 7, Actual: 1}) {
		return fmt.Errorf("got %+v and error %v, want a VersionError of 7 and 1", got, err)
	}
	if got, err := s.Get(ctx, row.ID); err != nil || got != row {
		return fmt.Errorf("stored is %+v (error %v), want %+v", got, err, row)
	}
	return nil
}

func checkUpdateOnce(ctx context.Context, s mount.Store) error {
	row, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	n, err := winners(func(i int) error {
		_, err := s.Update(ctx, row.ID, mount.Change{Version: row.Version, Name: new(fmt.Sprint("of ", i))})
		return err
	}, func(err error) bool {
		_, ok := errors.AsType[*mount.VersionError](err)
		return ok
	})
	if err == nil && n != 1 {
		err = fmt.Errorf("%d updates of one version were done", n)
	}
	return err
}

func checkArchive(ctx context.Context, s mount.Store) error {
	row, err := s.GetOrCreate(ctx, storeRow(1, "project:p", "slug"))
	if err != nil {
		return err
	}
	away, err := s.Update(ctx, row.ID, mount.Change{By: "bob", Archived: new(true)})
	if err != nil {
		return err
	}
	if !away.Archived() || away.ArchivedBy != "bob" {
		return fmt.Errorf("archived row: got %+v", away)
	}
	if again, err := s.Update(ctx, row.ID, mount.Change{By: "carol", Archived: new(true)}); err != nil || again != away {
		return fmt.Errorf("archived twice: got %+v and error %v, want %+v", again, err, away)
	}
	if found, err := s.Find(ctx, row.Scope, row.Slug); err != nil || found != away {
		return fmt.Errorf("found in the archive: got %+v and error %v, want %+v", found, err, away)
	}
	back, err := s.Update(ctx, row.ID, mount.Change{By: "carol", Archived: new(false)})
	if err != nil {
		return err
	}
	row.Version = away.Version + 1
	return sameRow("row out of the archive", back, row)
}
