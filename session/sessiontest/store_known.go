package sessiontest

import (
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// known asks what is known of keys, and checks what holds of every answer.
func (b *storeBench) known(keys ...sandbox.TombstoneKey) []session.Known {
	b.Helper()
	got, err := b.store.Known(b.Context(), keys)
	if err != nil {
		b.Fatalf("Known: %v", err)
	}
	if len(got) != len(keys) {
		b.Fatalf("Known of %d machines answered %d", len(keys), len(got))
	}
	for _, k := range got {
		if k.Now.IsZero() || !k.Now.Equal(got[0].Now) {
			b.Errorf("one answer is of %v, another of %v", got[0].Now, k.Now)
		}
		if _, offset := k.Now.Zone(); offset != 0 {
			b.Errorf("Now is not in UTC: %v", k.Now)
		}
	}
	return got
}

// knows expects just these answers, whenever they were given.
func (b *storeBench) knows(what string, got []session.Known, want ...session.Known) {
	b.Helper()
	for i := range got {
		got[i].Now = time.Time{}
	}
	b.same(what, got, want)
}

// machineOf is the key of the machine of row.
func machineOf(row sandbox.Row) sandbox.TombstoneKey {
	return sandbox.TombstoneKey{Sandbox: row.ID, Generation: row.Generation, Incarnation: row.Incarnation}
}

func knownChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"known-rows", "Known answers each key in its place, with the row of its sandbox: a session's or an environment's; what has none has the zero row.", func(b *storeBench) {
			r, none := b.room(func(c *session.Change) {
				row := b.filledRow(room{session: *c.Session, sandbox: *c.Sandbox}, "row")
				c.Sandbox = &row
			}), b.room(nil)
			e := b.shared(machine(sandbox.Live, alice))
			gone := b.room(machine(sandbox.Live, alice))
			b.commit(session.Change{Delete: []session.Address{gone.address()}})
			nobody := sandbox.TombstoneKey{Sandbox: sandbox.ID(b.id()), Generation: 1, Incarnation: "i"}
			other := machineOf(r.sandbox) // of another generation: it is asked about sandboxes, too
			other.Generation, other.Incarnation = 77, "other"

			keys := []sandbox.TombstoneKey{nobody, machineOf(e.sandbox), other, machineOf(gone.sandbox), machineOf(none.sandbox), machineOf(r.sandbox)}
			want := []session.Known{{}, {Sandbox: e.sandbox}, {Sandbox: r.sandbox}, {Buried: true, Outbox: 1}, {Sandbox: none.sandbox}, {Sandbox: r.sandbox}}
			b.knows("as asked", b.known(keys...), want...)
			for i, j := 0, len(keys)-1; i < j; i, j = i+1, j-1 {
				keys[i], keys[j], want[i], want[j] = keys[j], keys[i], want[j], want[i]
			}
			b.knows("the other way round", b.known(keys...), want...)
			b.knows("twice", b.known(machineOf(e.sandbox), machineOf(e.sandbox)), session.Known{Sandbox: e.sandbox}, session.Known{Sandbox: e.sandbox})
		}},
		{"known-buried", "A machine is buried where the outbox names it, or all of its generation; not by an entry of another machine, generation or sandbox.", func(b *storeBench) {
			r, other := b.room(machine(sandbox.Live, alice)), b.room(machine(sandbox.Live, alice))
			key := func(generation int64, incarnation sandbox.Incarnation) sandbox.TombstoneKey {
				return sandbox.TombstoneKey{Sandbox: r.sandbox.ID, Generation: generation, Incarnation: incarnation}
			}
			bury := func(keys ...sandbox.TombstoneKey) {
				for _, k := range keys {
					t := b.tombstone(alice)
					t.TombstoneKey = k
					b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
				}
			}
			bury(key(1, "one"), key(2, ""), sandbox.TombstoneKey{Sandbox: other.sandbox.ID, Generation: 3, Incarnation: ""})
			const n = 2 // of r's sandbox
			ask := []sandbox.TombstoneKey{
				key(1, "one"), key(1, "two"), key(1, ""), // named; not named; not all of them
				key(2, "one"), key(2, "two"), key(2, ""), // all of them
				key(3, "one"), key(3, ""), // of another sandbox
			}
			var want []session.Known
			for _, buried := range []bool{true, false, false, true, true, true, false, false} {
				want = append(want, session.Known{Sandbox: r.sandbox, Buried: buried, Outbox: n})
			}
			b.knows("answers", b.known(ask...), want...)
		}},
		{"known-outbox", "Outbox counts the entries of the sandbox, of whatever generation; what is proven counts no more.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			var buried []sandbox.Tombstone
			for i, incarnation := range []sandbox.Incarnation{"a", "b", "", ""} {
				t := b.tombstone(bob)
				t.TombstoneKey = sandbox.TombstoneKey{Sandbox: r.sandbox.ID, Generation: int64(i) + 1, Incarnation: incarnation}
				buried = append(buried, t)
			}
			b.commit(session.Change{Bury: append(buried, b.tombstone(alice))})
			b.knows("of its live machine", b.known(machineOf(r.sandbox)), session.Known{Sandbox: r.sandbox, Outbox: 4})
			b.commit(session.Change{Prove: buried[:3]})
			b.knows("after proofs", b.known(machineOf(r.sandbox), buried[0].TombstoneKey, buried[3].TombstoneKey),
				session.Known{Sandbox: r.sandbox, Outbox: 1}, session.Known{Sandbox: r.sandbox, Outbox: 1}, session.Known{Sandbox: r.sandbox, Buried: true, Outbox: 1})
		}},
		{"known-clock", "Now is the store's clock at the instant of the answer.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			first := b.known(machineOf(r.sandbox))[0].Now
			if first.Before(r.session.CreatedAt) {
				b.Errorf("Now is %v, before the commit at %v", first, r.session.CreatedAt)
			}
			b.clock.Step(3 * time.Hour)
			if now := b.known(machineOf(r.sandbox))[0].Now; now.Before(first.Add(3 * time.Hour)) {
				b.Errorf("three hours after %v Now is %v", first, now)
			}
		}},
		{"known-bounds", "MaxKnown machines are answered in one call, none are answered with nothing, and more are a *access.FieldError.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			b.knows("none", b.known())
			keys := make([]sandbox.TombstoneKey, session.MaxKnown)
			for i := range keys {
				keys[i] = sandbox.TombstoneKey{Sandbox: sandbox.ID(b.id()), Generation: 1, Incarnation: "i"}
			}
			keys[len(keys)-1] = machineOf(r.sandbox)
			many := b.known(keys...)
			b.knows("the last of as many as may be", many[len(keys)-1:], session.Known{Sandbox: r.sandbox})
			for i, k := range many[:len(keys)-1] {
				if k.Sandbox.ID != "" || k.Buried || k.Outbox != 0 {
					b.Fatalf("answer %d: got %+v of what is not there", i, k)
				}
			}
			got, err := b.store.Known(b.Context(), append(keys, machineOf(r.sandbox)))
			if !errors.As(err, new(*access.FieldError)) {
				b.Errorf("one more: got %d answers and error %v, want a *access.FieldError", len(got), err)
			}
		}},
	}
}
