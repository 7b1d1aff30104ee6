package mounttest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

func soundStore() mount.Store { return memory.New(nil).Mounts() }

// crooked is a sound store of which a method is replaced.
type crooked struct {
	mount.Store
	get        func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error)
	find       func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error)
	create     func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error)
	byID       func(ctx context.Context, s mount.Store, id mount.ID) (mount.Row, error)
	update     func(ctx context.Context, s mount.Store, id mount.ID, c mount.Change) (mount.Row, error)
	list       func(ctx context.Context, s mount.Store, q mount.ListQuery) (mount.Page, error)
	delete     func(ctx context.Context, s mount.Store, t mount.Target, limit int) ([]mount.Row, error)
	scan       func(ctx context.Context, s mount.Store, after mount.ID, limit int) ([]mount.Row, error)
	tombstones func(ctx context.Context, s mount.Store, t mount.Target, after mount.ID, limit int) ([]mount.Tombstone, error)
}

func (c crooked) Create(ctx context.Context, r mount.Row) (mount.Row, error) {
	if c.create != nil {
		return c.create(ctx, c.Store, r)
	}
	return c.Store.Create(ctx, r)
}

func (c crooked) Get(ctx context.Context, id mount.ID) (mount.Row, error) {
	if c.byID != nil {
		return c.byID(ctx, c.Store, id)
	}
	return c.Store.Get(ctx, id)
}

func (c crooked) Update(ctx context.Context, id mount.ID, change mount.Change) (mount.Row, error) {
	if c.update != nil {
		return c.update(ctx, c.Store, id, change)
	}
	return c.Store.Update(ctx, id, change)
}

func (c crooked) List(ctx context.Context, q mount.ListQuery) (mount.Page, error) {
	if c.list != nil {
		return c.list(ctx, c.Store, q)
	}
	return c.Store.List(ctx, q)
}

func (c crooked) Scan(ctx context.Context, after mount.ID, limit int) ([]mount.Row, error) {
	if c.scan != nil {
		return c.scan(ctx, c.Store, after, limit)
	}
	return c.Store.Scan(ctx, after, limit)
}

func (c crooked) Delete(ctx context.Context, t mount.Target, limit int) ([]mount.Row, error) {
	if c.delete != nil {
		return c.delete(ctx, c.Store, t, limit)
	}
	return c.Store.Delete(ctx, t, limit)
}

func (c crooked) Tombstones(ctx context.Context, t mount.Target, after mount.ID, limit int) ([]mount.Tombstone, error) {
	if c.tombstones != nil {
		return c.tombstones(ctx, c.Store, t, after, limit)
	}
	return c.Store.Tombstones(ctx, t, after, limit)
}

func (c crooked) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	if c.get != nil {
		return c.get(ctx, c.Store, r)
	}
	return c.Store.GetOrCreate(ctx, r)
}

func (c crooked) Find(ctx context.Context, scope, slug string) (mount.Row, error) {
	if c.find != nil {
		return c.find(ctx, c.Store, scope, slug)
	}
	return c.Store.Find(ctx, scope, slug)
}

func TestSoundStorePasses(t *testing.T) {
	TestStore(t, func(*testing.T) mount.Store { return soundStore() })
}

// broken is a store that must not pass.
type broken struct {
	name  string
	open  func() mount.Store
	fails string // the check that is about it
}

func TestBrokenStoresFail(t *testing.T) {
	checked := map[string]bool{}
	for _, x := range slices.Concat(brokenKeys(), brokenRows(), brokenLists(), brokenDeletes()) {
		t.Run(x.name, func(t *testing.T) {
			for _, c := range storeChecks() {
				if c.name != x.fails {
					continue
				}
				checked[c.name] = true
				if c.run(t.Context(), x.open()) == nil {
					t.Errorf("check %q passes", c.name)
				}
			}
		})
	}
	for _, c := range storeChecks() {
		if !checked[c.name] {
			t.Errorf("no broken store shows that the check %q can fail", c.name)
		}
	}
}

func brokenKeys() []broken {
	return []broken{
		{"returns the fresh id on conflict", func() mount.Store {
			return crooked{Store: soundStore(), get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
				got, err := s.GetOrCreate(ctx, r)
				got.ID = r.ID
				return got, err
			}}
		}, "stored id"},
		{"looks first and inserts then", lookThenInsert, "at once"},
		{"creates what is looked for", func() mount.Store {
			return crooked{Store: soundStore(), find: func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error) {
				return s.GetOrCreate(ctx, mount.Row{ID: "found", Scope: scope, Slug: slug})
			}}
		}, "find never creates"},
		{"creates what is looked for and says nothing", func() mount.Store {
			return crooked{Store: soundStore(), find: func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error) {
				got, err := s.Find(ctx, scope, slug)
				if errors.Is(err, mount.ErrNotFound) {
					_, _ = s.GetOrCreate(ctx, mount.Row{ID: "found", Scope: scope, Slug: slug})
				}
				return got, err
			}}
		}, "find never creates"},
		{"has one scope", func() mount.Store {
			return crooked{
				Store: soundStore(),
				get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
					scope := r.Scope
					r.Scope = "all"
					got, err := s.GetOrCreate(ctx, r)
					got.Scope = scope
					return got, err
				},
				find: func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error) {
					got, err := s.Find(ctx, "all", slug)
					got.Scope = scope
					return got, err
				},
			}
		}, "apart"},
		{"takes the caller's dates", func() mount.Store {
			return crooked{Store: soundStore(), get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
				got, err := s.GetOrCreate(ctx, r)
				if r.CreatedAt != (time.Time{}) {
					got.CreatedAt = r.CreatedAt
				}
				return got, err
			}}
		}, "inserted"},
		{"folds the case of scopes", func() mount.Store {
			return crooked{Store: soundStore(), get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
				r.Scope = strings.ToLower(r.Scope)
				return s.GetOrCreate(ctx, r)
			}}
		}, "text"},
		{"updates what it finds", func() mount.Store {
			return crooked{Store: soundStore(), find: func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error) {
				got, err := s.Find(ctx, scope, slug)
				got.UpdatedAt = got.UpdatedAt.Add(time.Second)
				return got, err
			}}
		}, "find"},
		{"writes after the end of the context", func() mount.Store {
			return crooked{Store: soundStore(), get: func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error) {
				got, err := s.GetOrCreate(context.WithoutCancel(ctx), r)
				return got, errors.Join(err, ctx.Err())
			}}
		}, "cancelled"},
	}
}

// lookThenInsert inserts under a key of its own where it found nothing, as
// does a store without a unique key. The first two callers both find nothing.
func lookThenInsert() mount.Store {
	var (
		mu     sync.Mutex
		stored = map[string]mount.Row{}
		looks  int
		two    = make(chan struct{})
	)
	look := func(scope, slug string) (mount.Row, bool) {
		mu.Lock()
		defer mu.Unlock()
		r, ok := stored[scope+" "+slug]
		return r, ok
	}
	return crooked{
		get: func(_ context.Context, _ mount.Store, r mount.Row) (mount.Row, error) {
			if got, ok := look(r.Scope, r.Slug); ok {
				return got, nil
			}
			mu.Lock()
			if looks++; looks == 2 {
				close(two)
			}
			mu.Unlock()
			<-two
			mu.Lock()
			defer mu.Unlock()
			r.CreatedAt = time.Now().UTC()
			r.UpdatedAt = r.CreatedAt
			stored[r.Scope+" "+r.Slug] = r
			return r, nil
		},
		find: func(_ context.Context, _ mount.Store, scope, slug string) (mount.Row, error) {
			if got, ok := look(scope, slug); ok {
				return got, nil
			}
			return mount.Row{}, mount.ErrNotFound
		},
	}
}
