package sessiontest

import (
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// inLine opens three rooms, a second apart, so that it is clear who waits
// longest, and lets an hour pass.
func (b *storeBench) inLine(edit func(*session.Change)) (one, two, three room) {
	b.Helper()
	var rooms [3]room
	for i := range rooms {
		rooms[i] = b.room(edit)
		b.clock.Step(time.Second)
	}
	b.clock.Step(time.Hour)
	return rooms[0], rooms[1], rooms[2]
}

// wait marks sandboxes as looked at, a second before whatever comes next.
func (b *storeBench) wait(ids ...sandbox.ID) {
	b.Helper()
	b.commit(session.Change{Waited: ids})
	b.clock.Step(time.Second)
}

// rotating are the kinds of what Waited has an effect on, each with what is due of it.
var rotating = []struct {
	kind session.DueKind
	edit func(*session.Change)
}{
	{session.DueCreating, creating(time.Minute)},
	{session.DueDestroying, machine(sandbox.Destroying, alice)},
	{session.DueLive, machine(sandbox.Live, alice)},
	{session.DueIdle, machine(sandbox.Live, alice)},
}

func waitedChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"waited-rotates", "What was looked at and not written goes to the end of what is due, of every kind: what can't be finished does not keep the rest from its turn.", func(b *storeBench) {
			for _, x := range rotating {
				one, two, three := b.inLine(x.edit)
				b.yields("as written", b.due(x.kind), one.sandbox.ID, two.sandbox.ID, three.sandbox.ID)
				for range 2 {
					for _, r := range []room{one, two, three} {
						b.yields("the first", b.dueUpTo(1, x.kind, host), r.sandbox.ID)
						b.wait(r.sandbox.ID)
					}
				}
				b.wait(one.sandbox.ID, three.sandbox.ID)
				b.yields("the first, once two at once have waited", b.dueUpTo(1, x.kind, host), two.sandbox.ID)
				row := two.sandbox
				b.commit(session.Change{Sandbox: &row}) // a write counts as a look
				b.clock.Step(time.Second)
				b.wait(one.sandbox.ID)
				b.yields("the last of those written and waited", b.due(x.kind)[2:], one.sandbox.ID)
				b.commit(session.Change{Delete: []session.Address{one.address(), two.address(), three.address()}})
				b.commit(session.Change{Prove: b.outbox()})
			}
		}},
		{"waited-no-version", "To have waited raises no version and changes nothing that is loaded or listed.", func(b *storeBench) {
			for _, x := range rotating {
				r := b.room(x.edit)
				e := b.shared(machine(sandbox.Live, alice))
				loan := b.borrower(e, nil)
				b.clock.Step(time.Hour)
				before, env := b.picture(r, loan), b.seen(e.address())
				page := b.list(session.ListQuery{Owner: alice, Limit: 10})
				b.wait(r.sandbox.ID, e.sandbox.ID)
				b.wait(r.sandbox.ID)
				b.same("what is stored", b.picture(r, loan), before)
				b.same("the environment", b.seen(e.address()), env)
				b.same("list", b.list(session.ListQuery{Owner: alice, Limit: 10}), page)
				row := r.sandbox
				b.commit(session.Change{Sandbox: &row, Expect: []session.Guard{{Session: r.session.ID, Version: 1}}})
			}
		}},
		{"waited-alone", "A change of nothing but Waited is not empty, is written, and is dated by the store's clock.", func(b *storeBench) {
			r := b.room(machine(sandbox.Destroying, alice))
			c := session.Change{Waited: []sandbox.ID{r.sandbox.ID}}
			if c.Empty() {
				b.Errorf("%+v is empty", c)
			}
			b.clock.Step(time.Hour)
			if clock := b.commit(c); clock.Before(r.session.CreatedAt.Add(time.Hour)) {
				b.Errorf("an hour after %v Commit answers %v", r.session.CreatedAt, clock)
			}
		}},
		{"waited-absent", "What is not there, or has no machine, has waited without an error and without a trace.", func(b *storeBench) {
			one, two, _ := b.inLine(machine(sandbox.Destroying, alice))
			none := b.room(nil)
			before := b.picture(one, two, none)
			absent := sandbox.ID(b.id())
			b.wait(absent, one.sandbox.ID, sandbox.ID(one.session.ID), none.sandbox.ID)
			b.wait(absent)
			b.same("what is stored", b.picture(one, two, none), before)
			b.yields("the first", b.dueUpTo(1, session.DueDestroying, host), two.sandbox.ID)
			b.commit(session.Change{Expect: []session.Guard{{Sandbox: absent}}})
		}},
		{"waited-tombstones", "That a sandbox has waited does not move its tombstones, which have attempts of their own.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			own := b.tombstone(alice)
			own.Sandbox = r.sandbox.ID
			other := b.tombstone(alice)
			for _, t := range []sandbox.Tombstone{own, other} {
				b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
				b.clock.Step(time.Second)
			}
			b.wait(r.sandbox.ID)
			b.yields("outbox", b.due(session.DueTombstones), own.Sandbox, other.Sandbox)
			b.same("outbox", b.due(session.DueTombstones)[0].Tombstone, own)
		}},
		{"waited-refused", "Where a change is refused for another part, nothing has waited.", func(b *storeBench) {
			one, _, _ := b.inLine(machine(sandbox.Destroying, alice))
			b.refuses(session.Change{
				Waited: []sandbox.ID{one.sandbox.ID}, Expect: []session.Guard{{Session: one.session.ID, Version: 9}},
			}, session.ErrStale)
			b.limited(session.Change{
				Waited: []sandbox.ID{one.sandbox.ID}, Limits: []session.Limit{{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 1}},
			})
			b.yields("the first", b.dueUpTo(1, session.DueDestroying, host), one.sandbox.ID)
		}},
	}
}
