package sessiontest

import (
	"context"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestBrokenQueuesFail(t *testing.T) {
	for _, x := range []broken[session.Store]{
		{
			name: "raises a version where something has waited",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
					at, err := s.Commit(ctx, c)
					for _, id := range c.Waited {
						if k, lost := s.Known(ctx, []sandbox.TombstoneKey{{Sandbox: id}}); err == nil && lost == nil && k[0].Sandbox.ID != "" {
							_, _ = s.Commit(ctx, session.Change{Sandbox: &k[0].Sandbox})
						}
					}
					return at, err
				}}
			},
			fails: []string{"waited-no-version"},
			also:  []string{"waited-absent", "waited-rotates"},
		},
		{
			name:  "forgets what has waited",
			open:  changed(func(_ context.Context, _ session.Store, c *session.Change) { c.Waited = nil }),
			fails: []string{"waited-rotates"},
			also:  []string{"due-live", "waited-absent"},
		},
		{
			name: "has what was refused wait",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
					at, err := s.Commit(ctx, c)
					if err != nil {
						_, _ = s.Commit(ctx, session.Change{Waited: c.Waited})
					}
					return at, err
				}}
			},
			fails: []string{"waited-refused"},
		},
		{
			name:  "moves the tombstones of what has waited",
			open:  ordered(func(d session.Due) bool { return d.Kind != session.DueTombstones || d.Snapshot.Sandbox.ID == "" }),
			fails: []string{"waited-tombstones"},
			also:  []string{"due-tombstones"},
		},
		{
			name:  "asks anew for each page of what is due",
			open:  askedAgain,
			fails: []string{"due-many"},
		},
		{
			name: "goes on whatever becomes of its context",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
					return s.Due(context.WithoutCancel(ctx), q)
				}}
			},
			fails: []string{"due-ended"},
			also:  []string{"cancelled"},
		},
		{
			name: "looks for all kinds before it yields any",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
					return func(yield func(session.Due, error) bool) {
						var all []session.Due
						for d, err := range s.Due(ctx, q) {
							if err != nil {
								yield(d, err)
								return
							}
							all = append(all, d)
						}
						for _, d := range all {
							if ctx.Err() != nil {
								yield(session.Due{}, ctx.Err())
								return
							}
							if !yield(d, nil) {
								return
							}
						}
					}
				}}
			},
			fails: []string{"due-in-turn"},
			also:  []string{"due-many", "due-while-committing", "due-ended"},
		},
		{
			name:  "takes what is creating by its deadline",
			open:  byDeadline,
			fails: []string{"due-creating", "waited-rotates"},
		},
		{
			name:  "looks at what is live all the time",
			open:  asked(func(q *session.DueQuery) { q.Unseen = 0 }),
			fails: []string{"due-live"},
		},
		{
			name:  "takes everybody for idle",
			open:  asked(func(q *session.DueQuery) { q.Idle = 0 }),
			fails: []string{"due-idle"},
		},
		{
			name:  "stops environments for idleness",
			open:  idleEnvironments,
			fails: []string{"due-idle"},
		},
		{
			name: "acts for hosts it was not asked for",
			open: asked(func(q *session.DueQuery) {
				if q.Kinds&(session.DueLive|session.DueIdle) != 0 {
					q.Hosts = append(slices.Clone(q.Hosts), "here", "there")
				}
			}),
			fails: []string{"due-live-hosts", "due-only-hosts"},
		},
		{
			name:  "brings what is bound to no host along with what is on one",
			open:  asked(func(q *session.DueQuery) { q.OnlyHosts = false }),
			fails: []string{"due-only-hosts"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench {
				return &storeBench{b, x.open(b.clock)}
			}))
		})
	}
}

// asked is a sound store whose Due is asked otherwise.
func asked(spoil func(*session.DueQuery)) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
			spoil(&q)
			return s.Due(ctx, q)
		}}
	}
}

// sorted is a sound store whose Due yields each kind in another order.
func sorted(compare func(x, y session.Due) int) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
			return func(yield func(session.Due, error) bool) {
				for _, kind := range []session.DueKind{session.DueCreating, session.DueDestroying, session.DueTombstones, session.DueLive, session.DueIdle} {
					all := q
					all.Kinds, all.Limit = q.Kinds&kind, max(q.Limit, 1000)
					var found []session.Due
					for d, err := range s.Due(ctx, all) {
						if err != nil {
							yield(d, err)
							return
						}
						found = append(found, d)
					}
					slices.SortStableFunc(found, compare)
					for _, d := range found[:min(len(found), q.Limit)] {
						if ctx.Err() != nil {
							yield(session.Due{}, ctx.Err())
							return
						}
						if !yield(d, nil) {
							return
						}
					}
				}
			}
		}}
	}
}

// askedAgain is a sound store whose Due asks anew for each page.
func askedAgain(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
		return func(yield func(session.Due, error) bool) {
			for left := q.Limit; left > 0; left -= 500 {
				n, page := 0, q
				page.Limit = min(left, 500)
				for d, err := range s.Due(ctx, page) {
					if n++; !yield(d, err) {
						return
					}
				}
				if n < page.Limit {
					return
				}
			}
		}
	}}
}

// ordered is a sound store whose Due yields those for which first holds before the others.
func ordered(first func(session.Due) bool) func(*Clock) session.Store {
	return sorted(func(x, y session.Due) int {
		switch {
		case first(x) && !first(y):
			return -1
		case first(y) && !first(x):
			return 1
		}
		return 0
	})
}

// byDeadline takes what is creating by its deadline.
func byDeadline(clock *Clock) session.Store {
	return sorted(func(x, y session.Due) int {
		if x.Kind != session.DueCreating || y.Kind != session.DueCreating {
			return 0
		}
		return x.Snapshot.Sandbox.Deadline.Compare(y.Snapshot.Sandbox.Deadline)
	})(clock)
}

// idleEnvironments yields what is live in an environment as idle.
func idleEnvironments(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
		return func(yield func(session.Due, error) bool) {
			for d, err := range s.Due(ctx, q) {
				if !yield(d, err) {
					return
				}
			}
			if q.Kinds != session.DueIdle {
				return
			}
			q.Kinds, q.Unseen = session.DueLive, q.Idle
			for d, err := range s.Due(ctx, q) {
				if d.Kind = session.DueIdle; d.Snapshot.Environment.ID != "" && !yield(d, err) {
					return
				}
			}
		}
	}}
}
