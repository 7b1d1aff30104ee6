package sessiontest

import (
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func outboxChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"bury-once", "To bury what the outbox has already succeeds and changes nothing: what is known of it is never overwritten.", func(b *storeBench) {
			c := b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{c}})
			c.Attempts, c.LastError = 1, "as found"
			b.commit(session.Change{Mark: []sandbox.Tombstone{c}})
			again := sandbox.Tombstone{TombstoneKey: c.TombstoneKey, Name: "other", Payer: bob, Delay: 1}
			b.commit(session.Change{Bury: []sandbox.Tombstone{again, again}})
			b.same("outbox", b.outbox(), []sandbox.Tombstone{c})
		}},
		{"origins", "A tombstone keeps why it is there: whatever it is marked or buried with afterwards, and where its row is deleted, that tells it.", func(b *storeBench) {
			var want []sandbox.Tombstone
			for _, origin := range []sandbox.Origin{"", sandbox.OriginTornDown, sandbox.OriginLost} {
				c := b.tombstone(alice)
				c.Origin = origin
				b.commit(session.Change{Bury: []sandbox.Tombstone{c}})
				c.Attempts = 1
				other := c
				other.Origin = "another"
				b.commit(session.Change{Mark: []sandbox.Tombstone{other}})
				b.commit(session.Change{Bury: []sandbox.Tombstone{other}})
				want = append(want, c)
			}
			for state, origin := range map[sandbox.State]sandbox.Origin{
				sandbox.Creating: sandbox.OriginTornDown, sandbox.Live: sandbox.OriginTornDown, sandbox.Destroying: sandbox.OriginTornDown, sandbox.Lost: sandbox.OriginLost,
			} {
				r := b.room(machine(state, alice))
				t, _ := r.sandbox.Buried()
				t.Origin = origin
				b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}})
				want = append(want, t)
			}
			sortTombstones(want)
			b.same("outbox", b.outbox(), want)
		}},
		{"mark", "A tombstone is marked only if its Attempts is one less than what is written, else ErrStale.", func(b *storeBench) {
			c := b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{c}})
			for n := int64(1); n <= 2; n++ {
				c.Attempts, c.LastError = n, "pass"
				b.commit(session.Change{Mark: []sandbox.Tombstone{c}})
				b.refuses(session.Change{Mark: []sandbox.Tombstone{c}}, session.ErrStale, string(c.Sandbox)) // again
			}
			for _, n := range []int64{1, 2, 4} {
				late := c
				late.Attempts, late.LastError = n, "late"
				b.refuses(session.Change{Mark: []sandbox.Tombstone{late}}, session.ErrStale)
			}
			b.same("outbox", b.outbox(), []sandbox.Tombstone{c})
		}},
		{"prove", "A tombstone leaves the outbox only if its key and Attempts are as they were read, else ErrStale.", func(b *storeBench) {
			c := b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{c}})
			c.Attempts = 1
			b.commit(session.Change{Mark: []sandbox.Tombstone{c}})
			for _, spoil := range []func(*sandbox.Tombstone){
				func(c *sandbox.Tombstone) { c.Attempts = 0 },
				func(c *sandbox.Tombstone) { c.Attempts = 2 },
				func(c *sandbox.Tombstone) { c.Generation = 2 },
				func(c *sandbox.Tombstone) { c.Incarnation = "" },
				func(c *sandbox.Tombstone) { c.Sandbox = sandbox.ID(b.id()) },
			} {
				wrong := c
				spoil(&wrong)
				b.refuses(session.Change{Prove: []sandbox.Tombstone{wrong}}, session.ErrStale)
			}
			b.same("outbox", b.outbox(), []sandbox.Tombstone{c})
			b.commit(session.Change{Prove: []sandbox.Tombstone{c}})
			b.same("outbox", b.outbox(), []sandbox.Tombstone(nil))
			b.refuses(session.Change{Prove: []sandbox.Tombstone{c}}, session.ErrStale)
		}},
		{"two-generations", "Each generation and incarnation has a tombstone of its own, and the proof of one takes no other with it. (T-30, T-31, T-33)", func(b *storeBench) {
			one := b.tombstone(alice)
			two, unknown, other := one, one, one
			two.Generation, two.Name = 2, "bkr-gone-g2"
			unknown.Incarnation, other.Incarnation = "", "gone too"
			all := []sandbox.Tombstone{one, two, unknown, other}
			for _, c := range all {
				b.commit(session.Change{Bury: []sandbox.Tombstone{c}})
			}
			sortTombstones(all)
			b.same("outbox", b.outbox(), all)
			b.commit(session.Change{Prove: all[1:2]})
			b.same("outbox", b.outbox(), []sandbox.Tombstone{all[0], all[2], all[3]})
		}},
		{"unclaimed", "An incarnation that the outbox names for the sandbox can't become its machine: ErrClaimed.", func(b *storeBench) {
			r := b.room(machine(sandbox.Creating, alice))
			row := r.sandbox
			row.State, row.Incarnation = sandbox.Live, "i-1"
			adopt := session.Change{Sandbox: &row, Unclaimed: "i-1", Stamps: sandbox.Stamps{Live: true}}
			claim := sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: row.ID, Generation: 9, Incarnation: "i-1"}}
			b.commit(session.Change{Bury: []sandbox.Tombstone{claim}})
			b.refuses(adopt, session.ErrClaimed, string(row.ID))
			b.same("sandbox", b.load(r.address()).Sandbox, r.sandbox)

			// Neither another sandbox's tombstone nor one of a whole generation names it.
			b.commit(session.Change{Prove: []sandbox.Tombstone{claim}})
			foreign, whole := claim, claim
			foreign.Sandbox, whole.Incarnation, whole.Generation = sandbox.ID(b.id()), "", 1
			b.commit(session.Change{Bury: []sandbox.Tombstone{foreign, whole}})
			want := *adopt.Stamped(b.commit(adopt)).Sandbox
			b.same("sandbox", b.load(r.address()).Sandbox, want)
		}},
	}
}
