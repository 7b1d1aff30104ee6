package sessiontest

import (
	"errors"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func borrowedChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"borrowed-deleted", "A deleted environment still shows in the snapshots of those who borrow it, and is never replaced by a sandbox of their own. (Rule 13)", func(b *storeBench) {
			e := b.shared(machine(sandbox.Live, alice))
			r := b.borrower(e, nil)
			late := b.borrower(e, nil)
			next, row := e.environment, e.sandbox
			row.State = sandbox.Destroying
			c := session.Change{Environment: &next, Retire: true, Sandbox: &row}
			c = c.Stamped(b.commit(c))
			want := session.Snapshot{Environment: *c.Environment, Sandbox: *c.Sandbox}
			b.same("by environment", b.seen(e.address()), want)
			for _, r := range []room{r, late} {
				want.Session, want.Conversation = r.session, r.conversation
				b.same("by conversation", b.seen(thread(r.conversation)), want)
			}
		}},
		{"borrowed-kept", "To delete the row of an environment that a session borrows, ended or not, is ErrStale and writes nothing; when none does any more it is deleted. (Rule 13)", func(b *storeBench) {
			e := b.shared(machine(sandbox.Live, alice))
			next := e.environment
			b.commit(session.Change{Environment: &next, Retire: true})
			open, done := b.borrower(e, nil), b.borrower(e, ended)
			before, env := b.picture(open, done), b.seen(e.address())
			refused := func() {
				b.Helper()
				c := session.Change{Delete: []session.Address{e.address()}, Conversation: b.thread(session.Session{})}
				b.refuses(c, session.ErrStale, string(e.environment.ID))
				b.missing(thread(*c.Conversation))
				b.same("the environment", b.seen(e.address()), env)
			}
			refused()
			b.same("what is stored", b.picture(open, done), before)
			b.commit(session.Change{Delete: []session.Address{open.address()}})
			refused()
			b.commit(session.Change{Delete: []session.Address{done.address(), e.address()}}) // in one change
			b.missing(e.address())
			b.same("outbox", b.outbox(), []sandbox.Tombstone{must(e.sandbox.Buried())})
			b.commit(session.Change{Expect: []session.Guard{{Environment: e.environment.ID}, {Sandbox: e.sandbox.ID}}}) // neither is there
		}},
		{"borrowed-buried", "A deleted environment's sandbox leaves its tombstone in every state but none, and one that the outbox has already stays as it is; a borrower's end or deletion leaves none. (T-31, T-35)", func(b *storeBench) {
			var want []sandbox.Tombstone
			for _, s := range inEveryState {
				e := b.shared(func(c *session.Change) {
					row := b.filledRow(room{sandbox: *c.Sandbox}, s.String())
					row.State, row.Host, row.Environment = s, host, c.Environment.ID
					c.Sandbox = &row
				})
				r := b.borrower(e, nil)
				b.commit(session.Change{Delete: []session.Address{r.address()}})
				b.same("outbox after the borrower's deletion", b.outbox(), want)
				b.same("sandbox after the borrower's deletion", b.load(e.address()).Sandbox, e.sandbox)
				if t, ok := e.sandbox.Buried(); ok {
					if s == sandbox.Lost { // as one that was found lost
						t.LastError = "as found"
						b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
					}
					want = append(want, t)
				}
				b.commit(session.Change{Delete: []session.Address{e.address()}})
				b.missing(e.address())
				sortTombstones(want)
				b.same("outbox", b.outbox(), want)
			}
			if len(want) != 4 {
				b.Fatalf("four of the states leave a tombstone, not %d", len(want))
			}
		}},
		{"race-borrow", "Of a deletion of an environment's row and sessions that would borrow it at once, either the deletion is written or all the sessions are; none ever borrows what is not there. (Rule 13)", func(b *storeBench) {
			stale := func(err error) bool { return errors.Is(err, session.ErrStale) }
			for range 20 {
				e := b.shared(nil)
				changes := []session.Change{{Delete: []session.Address{e.address()}}}
				for range 3 {
					c := b.spawn(both(placed(project, alice), borrows(e)))
					c.Expect = []session.Guard{{Environment: e.environment.ID, Version: e.environment.Version}}
					changes = append(changes, c)
				}
				errs := parallel(len(changes), func(i int) error {
					_, err := b.store.Commit(b.Context(), changes[i])
					return err
				})
				if err := others(errs, stale); err != nil {
					b.Errorf("one was answered with %v", err)
				}
				_, err := b.store.Load(b.Context(), e.address())
				deleted, lent := errs[0] == nil, number(errs[1:], isNil)
				if deleted != errors.Is(err, session.ErrNotFound) || deleted && lent > 0 || !deleted && lent < len(errs[1:]) {
					b.Errorf("the deletion answered %v, the sessions %v, a Load of the environment %v", errs[0], errs[1:], err)
				}
				if b.Failed() {
					return
				}
			}
		}},
	}
}
