package mounttest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
)

func soundStore() mount.Store { return memory.New(nil).Mounts() }

// crooked is a sound store of which a method is replaced.
type crooked struct {
	mount.Store
	get  func(ctx context.Context, s mount.Store, r mount.Row) (mount.Row, error)
	find func(ctx context.Context, s mount.Store, scope, slug string) (mount.Row, error)
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

func TestBrokenStoresFail(t *testing.T) {
	for _, x := range []struct {
		name  string
		open  func() mount.Store
		fails string // the check that is about it
	}{
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
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, c := range storeChecks() {
				if err := c.run(t.Context(), x.open()); c.name == x.fails && err == nil {
					t.Errorf("check %q passes", c.name)
				}
			}
		})
	}
}

// lookThenInsert inserts under a key of its own where it found nothing, as
// does a store without a unique key. The first two callers both find nothing.
func lookThenInsert() mount.Store {
	var (
		mu     sync.Mutex
		stored = map[string]mount.Row{}
		looked atomic.Int64
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
			looked.Add(1)
			for i := 0; looked.Load() < 2 && i < 1_000; i++ { // leave another caller the time to look
				runtime.Gosched()
			}
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
