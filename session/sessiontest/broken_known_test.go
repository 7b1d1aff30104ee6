package sessiontest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenKnowledgeFails(t *testing.T) {
	for _, x := range []broken[session.Store]{
		{
			name: "answers out of order",
			open: answering(func(_ context.Context, _ session.Store, _ []sandbox.TombstoneKey, known []session.Known) {
				slices.SortFunc(known, func(x, y session.Known) int { return len(x.Sandbox.ID) - len(y.Sandbox.ID) })
			}),
			fails: []string{"known-rows"},
		},
		{
			name: "knows nothing of entries for a whole generation",
			open: answering(func(ctx context.Context, s session.Store, keys []sandbox.TombstoneKey, known []session.Known) {
				for i, key := range keys {
					known[i].Buried = slices.Contains(graves(ctx, s), key)
				}
			}),
			fails: []string{"known-buried"},
		},
		{
			name: "takes the entry of one machine for all of its generation's",
			open: answering(func(ctx context.Context, s session.Store, keys []sandbox.TombstoneKey, known []session.Known) {
				for i, key := range keys {
					known[i].Buried = slices.ContainsFunc(graves(ctx, s), func(g sandbox.TombstoneKey) bool {
						return g.Sandbox == key.Sandbox && g.Generation == key.Generation
					})
				}
			}),
			fails: []string{"known-buried"},
			also:  []string{"known-outbox"},
		},
		{
			name: "counts the entries of one generation",
			open: answering(func(ctx context.Context, s session.Store, keys []sandbox.TombstoneKey, known []session.Known) {
				for i, key := range keys {
					known[i].Outbox = 0
					for _, g := range graves(ctx, s) {
						if g.Sandbox == key.Sandbox && g.Generation == key.Generation {
							known[i].Outbox++
						}
					}
				}
			}),
			fails: []string{"known-outbox"},
			also:  []string{"known-buried"},
		},
		{
			name: "dates what it knows by a clock that stands",
			open: answering(func(_ context.Context, _ session.Store, _ []sandbox.TombstoneKey, known []session.Known) {
				for i := range known {
					known[i].Now = NewClock().Now().UTC()
				}
			}),
			fails: []string{"known-clock"},
		},
		{
			name: "answers however much is asked",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, known: func(ctx context.Context, keys []sandbox.TombstoneKey) (all []session.Known, err error) {
					for part := range slices.Chunk(keys, session.MaxKnown) {
						known, err := s.Known(ctx, part)
						if err != nil {
							return nil, err
						}
						all = append(all, known...)
					}
					return all, ctx.Err()
				}}
			},
			fails: []string{"known-bounds"},
		},
		{
			name: "hands out another project's rows to a purge",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				all, err := s.Owned(ctx, t, limit)
				if err == nil && t.Project == project {
					more, _ := s.Owned(ctx, session.PurgeTarget{Project: "far"}, limit)
					all = append(more, all...)
				}
				return all[:min(max(limit, 0), len(all))], err
			}),
			fails: []string{"owned", "owned-limit", "owned-purge"},
		},
		{
			name: "hands out what an environment's maker made to a purge of the user",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				all, err := s.Owned(ctx, t, 1000*limit)
				if err == nil && t.User == alice {
					more, _ := s.Owned(ctx, session.PurgeTarget{Project: project}, 1000)
					all = append(all, slices.DeleteFunc(more, func(a session.Address) bool { return a.Environment == "" })...)
				}
				return all[:min(max(limit, 0), len(all))], err
			}),
			fails: []string{"owned"},
			also:  []string{"owned-limit", "owned-purge"},
		},
		{
			name: "hands out more than asked for",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				return s.Owned(ctx, t, 1000*limit)
			}),
			fails: []string{"owned-limit"},
			also:  []string{"owned-purge"},
		},
		{
			name: "deletes a session before it looks for its conversations",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				all, err := s.Owned(ctx, t, 1000*limit)
				slices.Reverse(all)
				return all[:min(max(limit, 0), len(all))], err
			}),
			fails: []string{"owned", "owned-limit", "owned-purge"},
		},
		{
			name: "purges the history that was to stay",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				t.History = true
				return s.Owned(ctx, t, limit)
			}),
			fails: []string{"owned", "owned-purge"},
			also:  []string{"owned-limit"},
		},
		{
			name: "leaves the history that was to go",
			open: owning(func(ctx context.Context, s session.Store, t session.PurgeTarget, limit int) ([]session.Address, error) {
				t.History = false
				return s.Owned(ctx, t, limit)
			}),
			fails: []string{"owned", "owned-purge"},
			also:  []string{"owned-limit"},
		},
		{
			name: "names nothing of the outbox",
			open: naming(func(ctx context.Context, s session.Store, key sandbox.TombstoneKey) bool {
				return !slices.Contains(graves(ctx, s), key)
			}),
			fails: []string{"names"},
		},
		{
			name: "counts what is missing at every provider",
			open: counting(func(ctx context.Context, s session.Store, q session.MissingQuery) (n int, err error) {
				for _, p := range []string{"p", "other"} {
					q := q
					q.Provider = p
					m, err := s.Missing(ctx, q)
					if err != nil {
						return 0, err
					}
					n += m
				}
				return n, nil
			}),
			fails: []string{"missing"},
		},
		{
			name: "counts whatever was ever lost",
			open: counting(func(ctx context.Context, s session.Store, q session.MissingQuery) (int, error) {
				q.Lately = max(q.Lately, 1000*time.Hour)
				return s.Missing(ctx, q)
			}),
			fails: []string{"missing"},
		},
		{
			name: "counts nothing that is lost",
			open: counting(func(ctx context.Context, s session.Store, q session.MissingQuery) (int, error) {
				q.Lately = 0
				return s.Missing(ctx, q)
			}),
			fails: []string{"missing"},
		},
		{
			name: "counts on",
			open: counting(func(ctx context.Context, s session.Store, q session.MissingQuery) (int, error) {
				q.Limit *= 100
				return s.Missing(ctx, q)
			}),
			fails: []string{"missing"},
		},
		{
			name:  "names nothing whose incarnation is not known",
			open:  naming(func(_ context.Context, _ session.Store, key sandbox.TombstoneKey) bool { return key.Incarnation != "" }),
			fails: []string{"names"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench {
				return &storeBench{b, x.open(b.clock)}
			}))
		})
	}
}

// answering is a sound store that spoils what it knows.
func answering(spoil func(context.Context, session.Store, []sandbox.TombstoneKey, []session.Known)) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, known: func(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
			known, err := s.Known(ctx, keys)
			if err == nil {
				spoil(ctx, s, keys, known)
			}
			return known, err
		}}
	}
}

// naming is a sound store that names only what is kept.
func naming(keep func(context.Context, session.Store, sandbox.TombstoneKey) bool) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, names: func(ctx context.Context, after string) (session.NamesPage, error) {
			page, err := s.Names(ctx, after)
			page.Items = slices.DeleteFunc(page.Items, func(key sandbox.TombstoneKey) bool { return !keep(ctx, s, key) })
			return page, err
		}}
	}
}

// counting is a sound store with another count of what is missing.
func counting(answer func(context.Context, session.Store, session.MissingQuery) (int, error)) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, lacks: func(ctx context.Context, q session.MissingQuery) (int, error) {
			if q.Provider == "" || q.Limit < 1 {
				return s.Missing(ctx, q)
			}
			return answer(ctx, s, q)
		}}
	}
}

// owning is a sound store with another answer to what a purge deletes.
func owning(answer func(context.Context, session.Store, session.PurgeTarget, int) ([]session.Address, error)) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, owned: func(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
			return answer(ctx, s, t, limit)
		}}
	}
}

// graves are the keys of what is in the outbox.
func graves(ctx context.Context, s session.Store) (keys []sandbox.TombstoneKey) {
	for d, err := range s.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Hosts: []string{host}, Limit: 1000}) {
		if err == nil {
			keys = append(keys, d.Tombstone.TombstoneKey)
		}
	}
	return keys
}
