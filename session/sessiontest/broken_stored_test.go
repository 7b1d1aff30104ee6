package sessiontest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// charging is a sound store that notes in a way of its own what was charged.
func charging(note func(context.Context, session.Store, []session.StorageCharged) error) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, charges: func(ctx context.Context, all []session.StorageCharged) error {
			return note(ctx, s, slices.Clone(all))
		}}
	}
}

func TestBrokenStorageFails(t *testing.T) {
	for _, x := range []broken[session.Store]{
		{
			name: "forgets the storage of environments",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, stored: func(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
					page, err := s.Stored(ctx, after, limit)
					return slices.DeleteFunc(page, func(s session.Snapshot) bool { return s.Sandbox.Environment != "" }), err
				}}
			},
			fails: []string{"stored"},
		},
		{
			name:  "forgets what was charged",
			open:  charging(func(context.Context, session.Store, []session.StorageCharged) error { return nil }),
			fails: []string{"stored-charged"},
			also:  []string{"stored-charged-refused"},
		},
		{
			name: "takes all for charged of which a part was",
			open: charging(func(ctx context.Context, s session.Store, all []session.StorageCharged) error {
				for i := range all {
					all[i].Used = 1 << 40
				}
				return s.StorageCharged(ctx, all)
			}),
			fails: []string{"stored-charged"},
		},
		{
			name: "turns what was charged to the end of what is due",
			open: charging(func(ctx context.Context, s session.Store, all []session.StorageCharged) error {
				for _, c := range all {
					if _, err := s.Commit(ctx, session.Change{Waited: []sandbox.ID{c.Sandbox}}); err != nil {
						return err
					}
				}
				return s.StorageCharged(ctx, all)
			}),
			fails: []string{"stored-charged-due"},
		},
		{
			name: "notes however much was charged",
			open: charging(func(ctx context.Context, s session.Store, all []session.StorageCharged) error {
				for part := range slices.Chunk(all, session.MaxKnown) {
					if err := s.StorageCharged(ctx, part); err != nil {
						return err
					}
				}
				return nil
			}),
			fails: []string{"stored-charged-refused"},
		},
		{
			name: "lets whoever marks a tombstone say why it is there",
			open: func(clock *Clock) session.Store {
				s, origins := sound(clock), new(sync.Map) // of each tombstone
				return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
					for _, t := range c.Mark {
						origins.Store(t.TombstoneKey, t.Origin)
					}
					return s.Commit(ctx, c)
				}, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
					return func(yield func(session.Due, error) bool) {
						for d, err := range s.Due(ctx, q) {
							if origin, marked := origins.Load(d.Tombstone.TombstoneKey); marked {
								d.Tombstone.Origin, _ = origin.(sandbox.Origin)
							}
							if !yield(d, err) {
								return
							}
						}
					}
				}}
			},
			fails: []string{"origins"},
		},
		{
			name: "skips one where a page of what is stored begins",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, stored: func(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
					page, err := s.Stored(ctx, after, limit)
					if after != "" && len(page) > 0 {
						page = page[1:]
					}
					return page, err
				}}
			},
			fails: []string{"stored"},
			also:  []string{"stored-charged"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench { return &storeBench{b, x.open(b.clock)} }))
		})
	}
}
