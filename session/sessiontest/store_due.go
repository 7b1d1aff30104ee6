package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const everyKind = session.DueCreating | session.DueDestroying | session.DueTombstones

// creating gives a room a machine that is being created, with a deadline.
func creating(deadline time.Duration) func(*session.Change) {
	return both(machine(sandbox.Creating, alice), func(c *session.Change) { c.Stamps.Deadline = deadline })
}

// bound binds a room's machine to a host.
func bound(to string) func(*session.Change) {
	return func(c *session.Change) { c.Sandbox.Host = to }
}

// subjects are the sandboxes that items are about, in their order.
func subjects(items []session.Due) []sandbox.ID {
	var ids []sandbox.ID
	for _, d := range items {
		if d.Kind == session.DueTombstones {
			ids = append(ids, d.Tombstone.Sandbox)
		} else {
			ids = append(ids, d.Snapshot.Sandbox.ID)
		}
	}
	return ids
}

// yields expects that items are about just these sandboxes, in this order.
func (b *storeBench) yields(what string, items []session.Due, want ...sandbox.ID) {
	b.Helper()
	if got := subjects(items); !slices.Equal(got, want) {
		b.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func dueChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"due-creating", "A sandbox that is creating is due once its deadline has passed on the store's clock, the longest waiting first, whatever the deadlines.", func(b *storeBench) {
			late := b.room(creating(4 * time.Hour))
			b.clock.Step(time.Second)
			soon := b.room(creating(2 * time.Hour))
			b.room(machine(sandbox.Live, alice))
			b.yields("at once", b.due(session.DueCreating))
			b.clock.Step(3 * time.Hour)
			b.yields("after three hours", b.due(session.DueCreating), soon.sandbox.ID)
			b.clock.Step(3 * time.Hour)
			due := b.due(session.DueCreating)
			b.yields("after six hours", due, late.sandbox.ID, soon.sandbox.ID)
			now := due[1].Snapshot.Now
			if now.Before(late.sandbox.Deadline) {
				b.Errorf("Now is %v, before the deadline %v", now, late.sandbox.Deadline)
			}
			b.same("item", due[1], session.Due{Kind: session.DueCreating,
				Snapshot: session.Snapshot{Now: now, Session: soon.session, Sandbox: soon.sandbox}})
		}},
		{"due-destroying", "A sandbox that is destroying is due, whether its session has ended or not, the longest waiting first.", func(b *storeBench) {
			one := b.room(both(machine(sandbox.Destroying, alice), ended))
			two := b.room(nil)
			three := b.room(machine(sandbox.Destroying, alice))
			row := two.sandbox
			row.State = sandbox.Destroying
			b.commit(session.Change{Sandbox: &row})
			due := b.due(session.DueDestroying)
			b.yields("due", due, one.sandbox.ID, three.sandbox.ID, two.sandbox.ID)
			b.same("item", due[0], session.Due{Kind: session.DueDestroying,
				Snapshot: session.Snapshot{Now: due[0].Snapshot.Now, Session: one.session, Sandbox: one.sandbox}})
			if due[0].Snapshot.Now.IsZero() {
				b.Errorf("Now is not set")
			}
		}},
		{"due-tombstones", "The whole outbox is due, the longest waiting first, each with its sandbox's row while that exists.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			own := b.tombstone(alice)
			own.Sandbox, own.NotBefore = r.sandbox.ID, b.clock.Now().Add(time.Hour).Truncate(b.precision)
			orphan := b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{own}})
			b.clock.Step(time.Second)
			b.commit(session.Change{Bury: []sandbox.Tombstone{orphan}})
			due := b.due(session.DueTombstones)
			b.yields("due", due, own.Sandbox, orphan.Sandbox)
			b.same("tombstone of a row", due[0].Tombstone, own)
			b.same("row of the tombstone", due[0].Snapshot.Sandbox, r.sandbox)
			b.same("tombstone without a row", due[1].Tombstone, orphan)
			b.same("no row", due[1].Snapshot.Sandbox, sandbox.Row{})
			for _, d := range due {
				if d.Kind != session.DueTombstones || d.Snapshot.Now.IsZero() {
					b.Errorf("got kind %d, now %v", d.Kind, d.Snapshot.Now)
				}
			}
		}},
		{"due-kinds", "Due yields the kinds asked for, and nothing that is live, lost or without a machine.", func(b *storeBench) {
			for _, s := range []sandbox.State{sandbox.None, sandbox.Live, sandbox.Lost} {
				b.room(machine(s, alice))
			}
			c, d, t := b.room(creating(time.Second)), b.room(machine(sandbox.Destroying, alice)), b.tombstone(alice)
			b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
			b.clock.Step(time.Hour)
			ids := map[session.DueKind]sandbox.ID{
				session.DueCreating: c.sandbox.ID, session.DueDestroying: d.sandbox.ID, session.DueTombstones: t.Sandbox,
			}
			for kinds := session.DueKind(1); kinds <= everyKind; kinds++ {
				want := map[session.DueKind]sandbox.ID{}
				for kind, id := range ids {
					if kinds&kind != 0 {
						want[kind] = id
					}
				}
				items := b.due(kinds)
				got := map[session.DueKind]sandbox.ID{}
				for i, id := range subjects(items) {
					got[items[i].Kind] = id
				}
				if len(items) != len(want) || !maps.Equal(got, want) {
					b.Errorf("kinds %b: got %v, want %v", kinds, got, want)
				}
			}
		}},
		{"due-hosts", "What is bound to a host is due there only; what is bound to none is due everywhere.", func(b *storeBench) {
			free, here, there := b.tombstone(alice), b.tombstone(alice), b.tombstone(alice)
			here.Host, there.Host = "here", "there"
			b.commit(session.Change{Bury: []sandbox.Tombstone{free, here, there}})
			var c, d []sandbox.ID
			for _, h := range []string{"", "here", "there"} {
				c = append(c, b.room(both(creating(time.Second), bound(h))).sandbox.ID)
				d = append(d, b.room(both(machine(sandbox.Destroying, alice), bound(h))).sandbox.ID)
			}
			b.clock.Step(time.Hour)
			for _, q := range []struct {
				hosts []string
				want  []int // of the three places
			}{{nil, []int{0}}, {[]string{"here"}, []int{0, 1}}, {[]string{"there", "here"}, []int{0, 1, 2}}, {[]string{"her"}, []int{0}}} {
				for kind, ids := range map[session.DueKind][]sandbox.ID{
					session.DueCreating: c, session.DueDestroying: d, session.DueTombstones: {free.Sandbox, here.Sandbox, there.Sandbox},
				} {
					var want []sandbox.ID
					for _, i := range q.want {
						want = append(want, ids[i])
					}
					got := subjects(b.dueUpTo(100, kind, q.hosts...))
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						b.Errorf("kind %b on hosts %v: got %v, want %v", kind, q.hosts, got, want)
					}
				}
			}
		}},
		{"due-limit", "Limit bounds the items of each kind, not of all together.", func(b *storeBench) {
			for range 3 {
				b.room(creating(time.Second))
				b.room(machine(sandbox.Destroying, alice))
				b.commit(session.Change{Bury: []sandbox.Tombstone{b.tombstone(alice)}})
			}
			b.clock.Step(time.Hour)
			for _, limit := range []int{1, 2, 3, 4} {
				n := map[session.DueKind]int{}
				for _, d := range b.dueUpTo(limit, everyKind) {
					n[d.Kind]++
				}
				for _, kind := range []session.DueKind{session.DueCreating, session.DueDestroying, session.DueTombstones} {
					if n[kind] != min(limit, 3) {
						b.Errorf("limit %d: %d items of kind %b, want %d", limit, n[kind], kind, min(limit, 3))
					}
				}
			}
		}},
		{"due-fair", "What was written last waits the shortest: what can't be finished does not keep the rest from its turn.", func(b *storeBench) {
			one, two := b.tombstone(alice), b.tombstone(alice)
			for _, t := range []sandbox.Tombstone{one, two} {
				b.commit(session.Change{Bury: []sandbox.Tombstone{t}})
				b.clock.Step(time.Second)
			}
			for _, want := range []*sandbox.Tombstone{&one, &two, &one, &two} {
				b.yields("the first of the outbox", b.dueUpTo(1, session.DueTombstones, host), want.Sandbox)
				want.Attempts++
				b.commit(session.Change{Mark: []sandbox.Tombstone{*want}})
				b.clock.Step(time.Second)
			}
			first, second := b.room(machine(sandbox.Destroying, alice)), b.room(machine(sandbox.Destroying, alice))
			b.clock.Step(time.Second)
			b.yields("the first destroying", b.dueUpTo(1, session.DueDestroying, host), first.sandbox.ID)
			row := first.sandbox
			b.commit(session.Change{Sandbox: &row, Stamps: sandbox.Stamps{Absent: true}})
			b.yields("the first destroying, then", b.dueUpTo(1, session.DueDestroying, host), second.sandbox.ID)
		}},
		{"due-many", "However many are asked for, each comes once, longest waiting first, though the caller marks it; what is not due any more is left out.", func(b *storeBench) {
			var buried []sandbox.Tombstone
			for range 1203 {
				buried = append(buried, b.tombstone(alice))
			}
			first, rest := buried[0], buried[1:]
			b.commit(session.Change{Bury: []sandbox.Tombstone{first}})
			b.clock.Step(time.Second)
			b.commit(session.Change{Bury: rest})
			b.clock.Step(time.Second)
			seen := map[sandbox.ID]int{}
			var gone sandbox.ID
			for d, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: session.DueTombstones, Hosts: []string{host}, Limit: 5000}) {
				if err != nil {
					b.Fatalf("Due: %v", err)
				}
				t := d.Tombstone
				if len(seen) == 0 && t.Sandbox != first.Sandbox {
					b.Errorf("first comes %s, want %s", t.Sandbox, first.Sandbox)
				}
				seen[t.Sandbox]++
				if len(seen) == 1 { // what has come already can't be taken back
					last := rest[len(rest)-1]
					gone = last.Sandbox
					b.commit(session.Change{Prove: []sandbox.Tombstone{last}})
				}
				if len(seen)%100 == 0 {
					b.commit(session.Change{Mark: []sandbox.Tombstone{t.Marked(sandbox.TombstoneStep{}, "it is still there")}})
				}
				if seen[t.Sandbox] > 1 {
					b.Fatalf("%s comes twice", t.Sandbox)
				}
			}
			delete(seen, gone) // it may have been read before it went
			if len(seen) != 1202 {
				b.Errorf("%d items, want 1202", len(seen))
			}
		}},
		{"due-ended", "A context that ends while the caller ranges ends that: what is left of the page may still come, and then its error.", func(b *storeBench) {
			var buried []sandbox.Tombstone
			for range 1203 {
				buried = append(buried, b.tombstone(alice))
			}
			b.commit(session.Change{Bury: buried})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			n := 0
			var fault error
			for _, err := range b.store.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Hosts: []string{host}, Limit: 5000}) {
				if cancel(); err != nil {
					fault = err
					break
				}
				n++
			}
			if n == len(buried) || !errors.Is(fault, context.Canceled) {
				b.Errorf("%d items of %d, then error %v", n, len(buried), fault)
			}
			b.yields("afterwards", b.dueUpTo(1, session.DueCreating, host))
		}},
		{"due-in-turn", "One kind is read after the other: what becomes of a kind whose turn comes later comes as that, too.", func(b *storeBench) {
			r := b.room(creating(time.Minute))
			b.clock.Step(time.Hour)
			var kinds []session.DueKind
			for d, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: everyKind, Hosts: []string{host}, Limit: 10}) {
				if err != nil {
					b.Fatalf("Due: %v", err)
				}
				if kinds = append(kinds, d.Kind); d.Kind == session.DueCreating {
					row := d.Snapshot.Sandbox
					row.State = sandbox.Destroying
					b.commit(session.Change{Sandbox: &row, Bury: []sandbox.Tombstone{b.tombstone(alice)}})
				}
			}
			if want := []session.DueKind{session.DueCreating, session.DueDestroying, session.DueTombstones}; !slices.Equal(kinds, want) {
				b.Errorf("%s comes as %v, want %v", r.sandbox.ID, kinds, want)
			}
		}},
		{"due-while-committing", "The caller may commit while it ranges, and may stop ranging at any item.", func(b *storeBench) {
			for range 5 {
				b.room(machine(sandbox.Destroying, alice))
				b.commit(session.Change{Bury: []sandbox.Tombstone{b.tombstone(alice)}})
			}
			for n := range 3 {
				for _, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: everyKind, Limit: 10}) {
					if err != nil {
						b.Fatalf("Due: %v", err)
					}
					if n--; n < 0 {
						break
					}
				}
			}
			var seen int
			for d, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: everyKind, Limit: 10}) {
				if err == nil && d.Kind == session.DueTombstones {
					_, err = b.store.Commit(b.Context(), session.Change{Prove: []sandbox.Tombstone{d.Tombstone}})
				} else if err == nil {
					row := d.Snapshot.Sandbox
					row.State = sandbox.None
					_, err = b.store.Commit(b.Context(), session.Change{Sandbox: &row, Stamps: sandbox.Stamps{Destroyed: true}})
				}
				if err != nil {
					b.Fatalf("item %d: %v", seen, err)
				}
				seen++
			}
			if seen != 10 {
				b.Errorf("%d items, want 10", seen)
			}
			if left := b.due(everyKind); len(left) != 0 {
				b.Errorf("still due: %s", fmt.Sprint(subjects(left)))
			}
		}},
	}
}
