package sessiontest

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func sound(clock *Clock) session.Store {
	return memory.New(&memory.Options{Now: clock.Now}).Sessions()
}

// wrapped is a sound store of which some methods are replaced.
type wrapped struct {
	session.Store
	load    func(context.Context, session.Address) (session.Snapshot, error)
	commit  func(context.Context, session.Change) (time.Time, error)
	list    func(context.Context, session.ListQuery) (session.Page, error)
	due     func(context.Context, session.DueQuery) iter.Seq2[session.Due, error]
	touch   func(context.Context, session.Address) error
	known   func(context.Context, []sandbox.TombstoneKey) ([]session.Known, error)
	names   func(context.Context, string) (session.NamesPage, error)
	owned   func(context.Context, session.PurgeTarget, int) ([]session.Address, error)
	lacks   func(context.Context, session.MissingQuery) (int, error)
	stored  func(context.Context, sandbox.ID, int) ([]session.Snapshot, error)
	charges func(context.Context, []session.StorageCharged) error
	envs    func(context.Context, session.EnvironmentQuery) (session.EnvironmentPage, error)
}

func (w wrapped) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	if w.load != nil {
		return w.load(ctx, a)
	}
	return w.Store.Load(ctx, a)
}

func (w wrapped) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	if w.commit != nil {
		return w.commit(ctx, c)
	}
	return w.Store.Commit(ctx, c)
}

func (w wrapped) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	if w.list != nil {
		return w.list(ctx, q)
	}
	return w.Store.List(ctx, q)
}

func (w wrapped) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	if w.due != nil {
		return w.due(ctx, q)
	}
	return w.Store.Due(ctx, q)
}

func (w wrapped) Touch(ctx context.Context, a session.Address) error {
	if w.touch != nil {
		return w.touch(ctx, a)
	}
	return w.Store.Touch(ctx, a)
}

func (w wrapped) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	if w.known != nil {
		return w.known(ctx, keys)
	}
	return w.Store.Known(ctx, keys)
}

func (w wrapped) Missing(ctx context.Context, q session.MissingQuery) (int, error) {
	if w.lacks != nil {
		return w.lacks(ctx, q)
	}
	return w.Store.Missing(ctx, q)
}

func (w wrapped) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	if w.stored != nil {
		return w.stored(ctx, after, limit)
	}
	return w.Store.Stored(ctx, after, limit)
}

func (w wrapped) StorageCharged(ctx context.Context, all []session.StorageCharged) error {
	if w.charges != nil {
		return w.charges(ctx, all)
	}
	return w.Store.StorageCharged(ctx, all)
}

func (w wrapped) Names(ctx context.Context, after string) (session.NamesPage, error) {
	if w.names != nil {
		return w.names(ctx, after)
	}
	return w.Store.Names(ctx, after)
}

func (w wrapped) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	if w.owned != nil {
		return w.owned(ctx, t, limit)
	}
	return w.Store.Owned(ctx, t, limit)
}

func (w wrapped) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	if w.envs != nil {
		return w.envs(ctx, q)
	}
	return w.Store.Environments(ctx, q)
}

// changed is a sound store whose changes are spoilt on their way in.
func changed(spoil func(ctx context.Context, s session.Store, c *session.Change)) func(*Clock) session.Store {
	return func(clock *Clock) session.Store {
		s := sound(clock)
		return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			spoil(ctx, s, &c)
			return s.Commit(ctx, c)
		}}
	}
}

func TestSoundStorePasses(t *testing.T) {
	broken[session.Store]{}.judge(t, failing(t, storeChecks(), nil, func(b bench) *storeBench {
		return &storeBench{b, sound(b.clock)}
	}))
}

func TestBrokenStoresFail(t *testing.T) {
	for _, x := range []broken[session.Store]{
		{
			name:  "writes a change part by part",
			open:  partByPart,
			fails: []string{"delete-refused", "waited-refused", "all-or-nothing", "spawn-whole"},
			also: []string{"borrowed-kept", "delete-each-kind", "environment-limits", "two-ids", "exists-sandbox", "limit-all", "limit-conversations", "limit-kind", "limit-machines", "limit-reopen",
				"limit-replacement", "limit-sessions", "load-one-instant", "race-limit", "race-machines", "race-skew"},
		},
		{
			name: "overwrites whatever version it finds",
			open: changed(func(ctx context.Context, s session.Store, c *session.Change) {
				if c.Session != nil && c.Session.Version > 0 {
					if got, err := s.Load(ctx, session.Address{Session: c.Session.ID}); err == nil {
						v := *c.Session
						v.Version, c.Session = got.Session.Version, &v
					}
				}
			}),
			fails: []string{"version-of-session"},
			also:  []string{"all-or-nothing", "race-update"},
		},
		{
			name:  "expects nothing of the rows a decision rests on",
			open:  changed(func(_ context.Context, _ session.Store, c *session.Change) { c.Expect = nil }),
			fails: []string{"environment-guard", "guard", "end-or-ensure"},
			also:  []string{"amend-stale", "delete-refused", "two-ids", "waited-refused", "all-or-nothing", "delete-guarded", "race-skew"},
		},
		{
			name:  "overwrites what the outbox has",
			open:  overwriting,
			fails: []string{"bury-once"},
			also:  []string{"origins"},
		},
		{
			name:  "counts before it locks",
			open:  countsFirst,
			fails: []string{"race-limit"}, only: []string{"race-limit"},
		},
		{
			name: "forgets a column",
			open: changed(func(_ context.Context, _ session.Store, c *session.Change) {
				if c.Sandbox != nil {
					row := *c.Sandbox
					row.MeasuredIncarnation, c.Sandbox = "", &row
				}
			}),
			fails: []string{"environment-every-field", "known-rows", "sandbox-every-field"},
			also:  []string{"borrowed-buried"},
		},
		{
			name:  "buries what was lost with its host",
			open:  buryingAll,
			fails: []string{"delete-buries"},
		},
		{
			name:  "deletes a sandbox without a trace",
			open:  withoutTrigger,
			fails: []string{"borrowed-buried", "delete-buries"},
			also:  []string{"origins", "borrowed-kept", "delete-each-again", "delete-each-kind", "known-rows", "owned-purge", "all-or-nothing", "delete-keeps", "limit-replacement"},
		},
		{
			name:  "answers with another clock than it stamps with",
			open:  callersClock,
			fails: []string{"stamps-clock"}, only: []string{"stamps-clock"},
		},
		{
			name:  "repeats the last item of a page on the next",
			open:  repeating,
			fails: []string{"list-pages"},
			also:  []string{"list-last-page", "list-order"},
		},
		{
			name: "touches by a write",
			open: func(clock *Clock) session.Store {
				s := sound(clock)
				return wrapped{Store: s, touch: func(ctx context.Context, a session.Address) error {
					if got, err := s.Load(ctx, a); err == nil && got.Session.ID != "" {
						if _, err := s.Commit(ctx, session.Change{Session: &got.Session}); err != nil {
							return err
						}
					}
					return s.Touch(ctx, a)
				}}
			},
			fails: []string{"touch"},
			also:  []string{"session-replace", "touch-never-lowers"},
		},
		{
			name: "dates a deadline by the clock of whoever commits",
			open: func(clock *Clock) session.Store {
				return changed(func(_ context.Context, _ session.Store, c *session.Change) {
					if c.Sandbox != nil && c.Stamps.Deadline > 0 {
						row := *c.Sandbox
						row.Deadline = clock.Now().Add(c.Stamps.Deadline - 30*time.Second)
						c.Sandbox, c.Stamps.Deadline = &row, 0
					}
				})(clock)
			},
			fails: []string{"stamps-sandbox"},
			also:  []string{"due-environments", "due-creating"},
		},
		{
			name:  "turns to what was written last",
			open:  impatient,
			fails: []string{"waited-rotates", "due-fair", "due-many"},
			also:  []string{"stored-charged-due", "waited-tombstones", "due-idle", "due-live", "due-live-hosts", "waited-absent", "waited-refused", "due-destroying", "due-tombstones", "due-creating", "due-ended", "due-in-turn"},
		},
		{
			name:  "holds its lock while it yields",
			open:  holding,
			fails: []string{"due-while-committing", "due-many"},
			also:  []string{"due-in-turn"},
		},
		{
			name:  "loads row by row",
			open:  rowByRow,
			fails: []string{"load-one-instant"}, only: []string{"load-one-instant"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			x.judge(t, failing(t, storeChecks(), x.only, func(b bench) *storeBench {
				return &storeBench{b, x.open(b.clock)}
			}))
		})
	}
}

// partByPart commits each part of a change on its own, until one is refused.
func partByPart(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (at time.Time, err error) {
		for _, part := range []session.Change{
			{Expect: c.Expect},
			{Environment: c.Environment, Retire: c.Retire},
			{Session: c.Session, End: c.End},
			{Sandbox: c.Sandbox, Stamps: c.Stamps, Unclaimed: c.Unclaimed},
			{Conversation: c.Conversation}, {Amend: c.Amend},
			{Bury: c.Bury}, {Mark: c.Mark}, {Prove: c.Prove}, {Waited: c.Waited}, {Delete: c.Delete},
			{Limits: c.Limits},
		} {
			if at, err = s.Commit(ctx, part); err != nil {
				return time.Time{}, err
			}
		}
		return at, nil
	}}
}

// overwriting replaces a tombstone that is to be buried again.
func overwriting(clock *Clock) session.Store {
	return changed(func(ctx context.Context, s session.Store, c *session.Change) {
		for d, err := range s.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Limit: 1000, Hosts: []string{host}}) {
			for _, t := range c.Bury {
				if err == nil && t.TombstoneKey == d.Tombstone.TombstoneKey {
					_, _ = s.Commit(ctx, session.Change{Prove: []sandbox.Tombstone{d.Tombstone}})
				}
			}
		}
	})(clock)
}

// countsFirst checks the limits of a change before it writes it, as who reads
// a count and then inserts. All racers read before any of them writes.
func countsFirst(clock *Clock) session.Store {
	s := sound(clock)
	var counted sync.WaitGroup
	counted.Add(racers)
	return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
		if c.Session != nil && c.Limits != nil {
			limits := append([]session.Limit(nil), c.Limits...)
			for i := range limits {
				limits[i].Max--
			}
			_, err := s.Commit(ctx, session.Change{Limits: limits})
			counted.Done()
			if err != nil {
				return time.Time{}, err
			}
			counted.Wait()
			c.Limits = nil
		}
		return s.Commit(ctx, c)
	}}
}

// withoutTrigger leaves no tombstone of a session that it deletes.
func withoutTrigger(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
		var left []sandbox.Tombstone
		for _, a := range c.Delete {
			if got, err := s.Load(ctx, a); err == nil && a.Conversation == "" {
				if t, ok := got.Sandbox.Buried(); ok {
					left = append(left, t)
				}
			}
		}
		at, err := s.Commit(ctx, c)
		if err == nil {
			for _, t := range left {
				_, _ = s.Commit(ctx, session.Change{Prove: []sandbox.Tombstone{t}})
			}
		}
		return at, err
	}}
}

// buryingAll leaves a tombstone of what was lost with its host, too.
func buryingAll(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
		for _, a := range c.Delete {
			if got, err := s.Load(ctx, a); err == nil && got.Sandbox.State == sandbox.Lost && got.Sandbox.Incarnation == "" {
				row := got.Sandbox
				row.State = sandbox.Creating
				t, _ := row.Buried()
				c.Bury = append(c.Bury, t)
			}
		}
		return s.Commit(ctx, c)
	}}
}

// callersClock answers with another clock than it stamps with.
func callersClock(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, commit: func(ctx context.Context, c session.Change) (time.Time, error) {
		at, err := s.Commit(ctx, c)
		return at.Add(-time.Millisecond), err
	}}
}

// repeating has its pages follow the last item but one of the page before.
func repeating(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, list: func(ctx context.Context, q session.ListQuery) (session.Page, error) {
		p, err := s.List(ctx, q)
		if err == nil && p.Next != "" && q.Limit > 1 {
			q.Limit--
			short, err := s.List(ctx, q)
			p.Next = short.Next
			return p, err
		}
		return p, err
	}}
}

// impatient turns to what was written last.
func impatient(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
		return func(yield func(session.Due, error) bool) {
			all := q
			all.Limit = max(q.Limit, 1000)
			var found []session.Due
			for d, err := range s.Due(ctx, all) {
				if err != nil {
					yield(d, err)
					return
				}
				found = append(found, d)
			}
			slices.Reverse(found)
			n := map[session.DueKind]int{}
			for _, d := range found {
				if n[d.Kind]++; n[d.Kind] <= q.Limit && !yield(d, nil) {
					return
				}
			}
		}
	}}
}

// rowByRow reads the session, and then the sandbox, which somebody may have written in between.
func rowByRow(clock *Clock) session.Store {
	s := sound(clock)
	return wrapped{Store: s, load: func(ctx context.Context, a session.Address) (session.Snapshot, error) {
		first, err := s.Load(ctx, a)
		second := first
		for range 1000 { // give a writer the time
			if err != nil || second.Sandbox.Version != first.Sandbox.Version {
				break
			}
			runtime.Gosched()
			second, err = s.Load(ctx, a)
		}
		first.Sandbox = second.Sandbox
		return first, err
	}}
}

// holding refuses commits while somebody ranges, as a database does that is locked by an open cursor.
func holding(clock *Clock) session.Store {
	s := sound(clock)
	var open atomic.Int64
	return wrapped{
		Store: s,
		commit: func(ctx context.Context, c session.Change) (time.Time, error) {
			if open.Load() > 0 {
				return time.Time{}, errors.New("the database is locked")
			}
			return s.Commit(ctx, c)
		},
		due: func(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
			return func(yield func(session.Due, error) bool) {
				open.Add(1)
				defer open.Add(-1)
				s.Due(ctx, q)(yield)
			}
		},
	}
}
