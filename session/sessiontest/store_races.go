package sessiontest

import (
	"errors"
	"strconv"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// racers is how many callers commit at once.
const racers = 50

func raceChecks() []check[*storeBench] {
	stale := func(err error) bool { return errors.Is(err, session.ErrStale) }
	exists := func(err error) bool { return errors.Is(err, session.ErrExists) }
	limit := func(err error) bool { return errors.As(err, new(*session.LimitError)) }
	// one expects one winner, and of all others a refusal.
	one := func(b *storeBench, errs []error, refusal func(error) bool) {
		b.Helper()
		if won := number(errs, isNil); won != 1 {
			b.Errorf("%d of %d were written, want 1", won, len(errs))
		}
		if err := others(errs, refusal); err != nil {
			b.Errorf("one was answered with %v", err)
		}
	}
	return []check[*storeBench]{
		{"race-limit", "Of 50 commits at once where there is room for one more, exactly one is written. (T-26)", func(b *storeBench) {
			b.room(nil)
			b.room(ended)
			changes := make([]session.Change, racers)
			for i := range changes {
				changes[i] = b.spawn(nil)
				changes[i].Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(alice), Max: 2}}
			}
			one(b, parallel(racers, func(i int) error {
				_, err := b.store.Commit(b.Context(), changes[i])
				return err
			}), limit)
			b.counts(session.SessionsPerOwner, string(alice), 2)
		}},
		{"race-machines", "Of 50 sandboxes of one payer that want the last machine at once, exactly one gets to create it.", func(b *storeBench) {
			b.commit(session.Change{Bury: []sandbox.Tombstone{b.tombstone(alice)}})
			changes := make([]session.Change, racers)
			for i := range changes {
				row := b.room(nil).sandbox
				row.State, row.Payer, row.Generation = sandbox.Creating, alice, 1
				changes[i] = session.Change{Sandbox: &row, Limits: []session.Limit{{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 2}}}
			}
			one(b, parallel(racers, func(i int) error {
				_, err := b.store.Commit(b.Context(), changes[i])
				return err
			}), limit)
			b.counts(session.MachinesPerPayer, string(alice), 2)
		}},
		{"race-insert", "Of 50 inserts of one conversation id at once exactly one is written; the others are ErrExists. (T-07)", func(b *storeBench) {
			r := b.room(nil)
			v := b.thread(r.session)
			one(b, parallel(racers, func(i int) error {
				w := *v
				w.Title = strconv.Itoa(i)
				_, err := b.store.Commit(b.Context(), session.Change{Conversation: &w})
				return err
			}), exists)
		}},
		{"race-sandbox", "Of 50 sandboxes for one session at once exactly one is written; the others are ErrStale.", func(b *storeBench) {
			c := b.spawn(nil)
			c.Sandbox = nil
			b.commit(c)
			rows := make([]sandbox.Row, racers)
			for i := range rows {
				rows[i] = sandbox.Row{ID: sandbox.ID(b.id()), Session: c.Session.ID}
			}
			one(b, parallel(racers, func(i int) error {
				_, err := b.store.Commit(b.Context(), session.Change{Sandbox: &rows[i]})
				return err
			}), stale)
		}},
		{"race-update", "Whoever reads, changes and writes with the version he read loses no update of anybody else.", func(b *storeBench) {
			r := b.room(func(c *session.Change) { c.Session.Name = "0" })
			const callers, times = 8, 10
			errs := parallel(callers, func(int) error {
				for done := 0; done < times; {
					s, err := b.store.Load(b.Context(), r.address())
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(s.Session.Name)
					if err != nil {
						return err
					}
					s.Session.Name = strconv.Itoa(n + 1)
					if _, err = b.store.Commit(b.Context(), session.Change{Session: &s.Session}); err == nil {
						done++
					} else if !stale(err) {
						return err
					}
				}
				return nil
			})
			if err := others(errs, isNil); err != nil {
				b.Fatalf("%v", err)
			}
			got := b.load(r.address()).Session
			if got.Name != strconv.Itoa(callers*times) || got.Version != 1+callers*times {
				b.Errorf("after %d updates: the sum is %s, the version %d", callers*times, got.Name, got.Version)
			}
		}},
		{"race-skew", "Of an end and an ensure at once, each of which expects the other's row unchanged, exactly one is written. (T-14, T-15)", func(b *storeBench) {
			for range 20 {
				r := b.room(nil)
				one(b, parallel(2, func(i int) error {
					s, row := r.session, r.sandbox
					row.State, row.Generation = sandbox.Creating, 1
					c := session.Change{Session: &s, End: true, Expect: []session.Guard{{Sandbox: row.ID, Version: row.Version}}}
					if i == 1 {
						c = session.Change{Sandbox: &row, Expect: []session.Guard{{Session: s.ID, Version: s.Version}}}
					}
					_, err := b.store.Commit(b.Context(), c)
					return err
				}), stale)
				if got := b.load(r.address()); got.Session.Ended() == (got.Sandbox.State == sandbox.Creating) {
					b.Errorf("session ended at %v, sandbox %v", got.Session.EndedAt, got.Sandbox.State)
				}
				if b.Failed() {
					return
				}
			}
		}},
		{"race-prove", "Of 50 callers who mark or prove one tombstone at once exactly one succeeds. (T-33)", func(b *storeBench) {
			t := b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
			one(b, parallel(racers, func(i int) error {
				c := session.Change{Prove: []sandbox.Tombstone{t}}
				if i%2 == 0 {
					marked := t
					marked.Attempts++
					c = session.Change{Mark: []sandbox.Tombstone{marked}}
				}
				_, err := b.store.Commit(b.Context(), c)
				return err
			}), stale)
		}},
	}
}
