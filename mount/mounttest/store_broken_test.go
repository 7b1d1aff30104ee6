package mounttest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// made opens a sound store of which a part is replaced.
func made(c crooked) func() mount.Store {
	return func() mount.Store {
		c.Store = soundStore()
		return c
	}
}

func brokenRows() []broken {
	return []broken{
		{"leaves archived rows in the archive", made(crooked{get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
			if got, err := s.Find(ctx, r.Scope, r.Slug); err == nil {
				return got, nil
			}
			return s.GetOrCreate(ctx, r)
		}}), "revived"},
		{"takes an archived row for none", made(crooked{get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
			if got, err := s.Find(ctx, r.Scope, r.Slug); err == nil && got.Archived() {
				if _, err := s.Delete(ctx, mount.Target{Scope: r.Scope}, 1); err != nil {
					return mount.Row{}, err
				}
			}
			return s.GetOrCreate(ctx, r)
		}}), "revived"},
		{"writes over what was edited", made(crooked{get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
			got, err := s.GetOrCreate(ctx, r)
			if err != nil {
				return got, err
			}
			return s.Update(ctx, got.ID, mount.Change{Name: &r.Name})
		}}), "edited"},
		{"creates over what is there", made(crooked{create: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
			return s.GetOrCreate(ctx, r)
		}}), "created"},
		{"revives what is in the way", made(crooked{create: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
			got, err := s.Create(ctx, r)
			if errors.Is(err, mount.ErrExists) {
				_, _ = s.GetOrCreate(ctx, r)
			}
			return got, err
		}}), "created"},
		{"looks first and creates then", lookThenCreate, "created at once"},
		{"has a row for any id", made(crooked{byID: func(ctx context.Context, s mount.Store, id mount.ID) (mount.Row, error) {
			got, err := s.Get(ctx, id)
			if errors.Is(err, mount.ErrNotFound) {
				return mount.Row{ID: id}, nil
			}
			return got, err
		}}), "get"},
		{"unsets what is not set", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			for _, f := range []**string{&c.Name, &c.Description, &c.Meta} {
				if *f == nil {
					*f = new("")
				}
			}
			return s.Update(ctx, id, c)
		}}), "update"},
		{"does not say who it was", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			c.By = ""
			return s.Update(ctx, id, c)
		}}), "update"},
		{"says it was done and forgets it", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			was, err := s.Get(ctx, id)
			if err != nil {
				return was, err
			}
			return was.Applied(c, time.Now().UTC())
		}}), "update"},
		{"counts what changes nothing", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			got, err := s.Update(ctx, id, c)
			got.Version++
			return got, err
		}}), "update nothing"},
		{"knows no versions", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			c.Version = 0
			return s.Update(ctx, id, c)
		}}), "version"},
		{"lets everybody win", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			c.Version = 0
			return s.Update(ctx, id, c)
		}}), "update at once"},
		{"puts away again what is put away", made(crooked{update: func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error) {
			if c.Archived != nil && *c.Archived {
				if _, err := s.Update(ctx, id, mount.Change{Archived: new(false)}); err != nil {
					return mount.Row{}, err
				}
			}
			return s.Update(ctx, id, c)
		}}), "archive"},
		{"finds nothing in the archive", made(crooked{find: func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error) {
			got, err := s.Find(ctx, scope, slug)
			if got.Archived() {
				return mount.Row{}, mount.ErrNotFound
			}
			return got, err
		}}), "archive"},
	}
}

// lookThenCreate has no unique key, and the first two callers both find nothing.
func lookThenCreate() mount.Store {
	same := lookThenInsert()
	return crooked{Store: soundStore(), create: func(ctx context.Context, _ mount.Store, r mount.Row) (mount.Row, error) {
		got, err := same.GetOrCreate(ctx, r)
		if err == nil && got.ID != r.ID {
			return mount.Row{}, mount.ErrExists
		}
		return got, err
	}}
}

// relisted is a store whose lists are changed.
func relisted(change func(*mount.Page)) func() mount.Store {
	return made(crooked{list: func(ctx context.Context, s mount.Store, q mount.ListQuery) (mount.Page, error) {
		page, err := s.List(ctx, q)
		change(&page)
		return page, err
	}})
}

// asked is a store that is asked for another list.
func asked(change func(*mount.ListQuery)) func() mount.Store {
	return made(crooked{list: func(ctx context.Context, s mount.Store, q mount.ListQuery) (mount.Page, error) {
		change(&q)
		return s.List(ctx, q)
	}})
}

func brokenLists() []broken {
	return []broken{
		{"has the newest first", relisted(func(p *mount.Page) { slices.Reverse(p.Items) }), "order"},
		{"has one page", relisted(func(p *mount.Page) { p.Next = "" }), "order"},
		{"begins anew with each page", asked(func(q *mount.ListQuery) { q.After = "" }), "order"},
		{"has pages that are too short", relisted(func(p *mount.Page) { p.Items = p.Items[:min(1, len(p.Items))] }), "order"},
		{"has archived rows too", asked(func(q *mount.ListQuery) { q.Archived = true }), "filters"},
		{"asks for no session", asked(func(q *mount.ListQuery) { q.Session = "" }), "filters"},
		{"asks for no agent", asked(func(q *mount.ListQuery) { q.Agent = "" }), "filters"},
		{"filters after the limit", filteredLate(func(r mount.Row) bool { return r.Protected() }), "protected"},
		{"goes by the slug", filteredLate(func(r mount.Row) bool { return r.Slug[:2] == "__" }), "protected"},
		{"takes any limit", asked(func(q *mount.ListQuery) { q.Limit = min(max(1, q.Limit), mount.MaxListed) }), "bad pages"},
		{"takes any token", made(crooked{list: func(ctx context.Context, s mount.Store, q mount.ListQuery) (mount.Page, error) {
			if q.After == "no token" {
				q.After = ""
			}
			return s.List(ctx, q)
		}}), "bad pages"},
	}
}

// filteredLate has stored what is protected without its purpose, and leaves it
// out of the pages that it lists.
func filteredLate(out func(mount.Row) bool) func() mount.Store {
	return func() mount.Store {
		purposes := map[mount.ID]mount.Purpose{}
		return crooked{
			Store: soundStore(),
			get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
				purposes[r.ID] = r.Purpose
				r.Purpose = ""
				return s.GetOrCreate(ctx, r)
			},
			list: func(ctx context.Context, s mount.Store, q mount.ListQuery) (mount.Page, error) {
				page, err := s.List(ctx, q)
				page.Items = slices.DeleteFunc(page.Items, func(r mount.Row) bool {
					r.Purpose = purposes[r.ID]
					return out(r)
				})
				return page, err
			},
		}
	}
}

func brokenDeletes() []broken {
	return []broken{
		{"leaves what is protected", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			rows, err := s.Delete(ctx, t, limit)
			if t.Session == "" || err != nil {
				return rows, err
			}
			return slices.DeleteFunc(rows, mount.Row.Protected), err
		}}), "delete session"},
		{"deletes agents' along with a session's", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.Session != "" {
				t = mount.Target{Scope: "project:p"}
			}
			return s.Delete(ctx, t, limit)
		}}), "delete session"},
		{"deletes what it likes of a scope", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.Scope != "" {
				t = mount.Target{Session: "s1"}
			}
			return s.Delete(ctx, t, limit)
		}}), "delete scope"},
		{"deletes without a limit", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, _ int) ([]mount.Row, error) {
			return s.Delete(ctx, t, mount.MaxListed)
		}}), "delete scope"},
		{"knows no grace", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			t.Archived = min(t.Archived, 1)
			return s.Delete(ctx, t, limit)
		}}), "delete archived"},
		{"deletes nothing from the archive", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.Archived > 0 {
				return nil, nil
			}
			return s.Delete(ctx, t, limit)
		}}), "delete archived"},
		{"deletes whichever version there is", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.ID != "" {
				t.Version = 0
			}
			return s.Delete(ctx, t, limit)
		}}), "delete one"},
		{"deletes one that is in use", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.ID != "" {
				t.Archived = 0
			}
			return s.Delete(ctx, t, limit)
		}}), "delete one"},
		{"scans what is in use", made(crooked{scan: func(ctx context.Context, s mount.Store, after mount.ID, limit int) ([]mount.Row, error) {
			rows, err := s.Scan(ctx, after, limit)
			return slices.DeleteFunc(rows, mount.Row.Archived), err
		}}), "scan"},
		{"scans what is not protected", made(crooked{scan: func(ctx context.Context, s mount.Store, after mount.ID, limit int) ([]mount.Row, error) {
			rows, err := s.Scan(ctx, after, limit)
			return slices.DeleteFunc(rows, mount.Row.Protected), err
		}}), "scan"},
		{"leaves nothing behind", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			rows, err := s.Delete(ctx, t, limit)
			for _, r := range rows {
				err = errors.Join(err, s.Forget(ctx, []mount.ID{r.ID}))
			}
			return rows, err
		}}), "tombstones"},
		{"has tombstones from the first on", made(crooked{tombstones: func(ctx context.Context, s mount.Store, t mount.Target, _ mount.ID, limit int) ([]mount.Tombstone, error) {
			return s.Tombstones(ctx, t, "", limit)
		}}), "tombstones"},
		{"has everybody's tombstones", made(crooked{tombstones: func(ctx context.Context, s mount.Store, _ mount.Target, after mount.ID, limit int) ([]mount.Tombstone, error) {
			return s.Tombstones(ctx, mount.Target{}, after, limit)
		}}), "tombstones"},
		{"keeps the row in sight", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, _ int) ([]mount.Row, error) {
			page, err := s.List(ctx, mount.ListQuery{Scope: t.Scope, Limit: 1})
			for _, r := range page.Items {
				_, err = s.Update(ctx, r.ID, mount.Change{Archived: new(true)})
			}
			return page.Items, err
		}}), "anew"},
		{"deletes for the first of two reasons", made(crooked{delete: func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error) {
			if t.Scope != "" {
				t.Session = ""
			}
			return s.Delete(ctx, t, limit)
		}}), "bad targets"},
	}
}
