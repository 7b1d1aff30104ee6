package sessiontest

import (
	"errors"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// stored are all pages of what is stored, each of at most limit.
func (b *storeBench) stored(limit int) (all []session.Snapshot) {
	b.Helper()
	for after := sandbox.ID(""); ; {
		page, err := b.store.Stored(b.Context(), after, limit)
		if err != nil || len(page) > limit {
			b.Fatalf("Stored after %q: %d items, error %v, want at most %d", after, len(page), err, limit)
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
		after = page[limit-1].Sandbox.ID
	}
}

func (b *storeBench) charged(all ...session.StorageCharged) {
	b.Helper()
	if err := b.store.StorageCharged(b.Context(), all); err != nil {
		b.Fatalf("StorageCharged: %v", err)
	}
}

// wantStored fails the check unless Stored reads just the sandboxes of rooms.
func (b *storeBench) wantStored(when string, rooms ...room) {
	b.Helper()
	var got, want []sandbox.ID
	for _, s := range b.stored(2) {
		got = append(got, s.Sandbox.ID)
	}
	for _, r := range rooms {
		want = append(want, r.sandbox.ID)
	}
	slices.Sort(want)
	b.same("what is stored "+when, got, want)
}

func storedChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"stored", "Stored reads what is live and holds something, or has held something that was not charged, of sessions and of environments, page by page in the order of ids, with whom it belongs to and the clock.", func(b *storeBench) {
			if got := b.stored(1); len(got) > 0 {
				b.Errorf("of nothing: %+v", got)
			}
			holds := func(c *session.Change) { c.Sandbox.MeasuredBytes = 4096 }
			held := func(c *session.Change) { c.Sandbox.StoredUsed = 7 }
			b.room(machine(sandbox.Live, alice))                    // never measured
			b.room(both(machine(sandbox.Destroying, alice), holds)) // and never counted
			b.shared(machine(sandbox.Lost, alice))
			var want []session.Snapshot
			for _, r := range []room{
				b.room(both(machine(sandbox.Live, alice), holds)),
				b.room(both(machine(sandbox.None, bob), held)),
				b.room(both(machine(sandbox.Destroying, bob), both(holds, held))),
			} {
				want = append(want, session.Snapshot{Session: r.session, Sandbox: r.sandbox})
			}
			e := b.shared(both(machine(sandbox.Live, bob), holds))
			b.borrower(e, nil)
			want = append(want, session.Snapshot{Environment: e.environment, Sandbox: e.sandbox})
			slices.SortFunc(want, func(x, y session.Snapshot) int { return strings.Compare(string(x.Sandbox.ID), string(y.Sandbox.ID)) })
			for _, limit := range []int{1, 2, 4, session.MaxKnown} {
				got := b.stored(limit)
				if len(got) != len(want) {
					b.Fatalf("by pages of %d: %d of %d", limit, len(got), len(want))
				}
				for i := range want {
					if want[i].Now = got[i].Now; got[i].Now.Before(e.environment.CreatedAt) { // one row of it, stamped last
						b.Errorf("by pages of %d, item %d: the clock shows %v", limit, i, got[i].Now)
					}
					if d := diff(got[i], want[i]); d != "" {
						b.Errorf("by pages of %d, item %d:\n%s", limit, i, d)
					}
				}
			}
		}},
		{"stored-charged", "What was charged for is no more read by Stored until there is more of it; what is live and holds something is, all the same.", func(b *storeBench) {
			used := func(n int64) func(*session.Change) { return func(c *session.Change) { c.Sandbox.StoredUsed = n } }
			ended := b.room(both(machine(sandbox.None, alice), used(7)))
			dying := b.room(both(machine(sandbox.Destroying, bob), used(9)))
			live := b.room(both(machine(sandbox.Live, alice), func(c *session.Change) { c.Sandbox.StoredUsed, c.Sandbox.MeasuredBytes = 5, 4096 }))
			other := b.room(both(machine(sandbox.None, bob), used(1)))
			b.charged(session.StorageCharged{Sandbox: ended.sandbox.ID, Used: 6}, session.StorageCharged{Sandbox: "nobody's", Used: 6})
			b.wantStored("where a part was charged", ended, dying, live, other)
			b.charged(session.StorageCharged{Sandbox: live.sandbox.ID, Used: 5}, session.StorageCharged{Sandbox: ended.sandbox.ID, Used: 7},
				session.StorageCharged{Sandbox: ended.sandbox.ID, Used: 2}, session.StorageCharged{Sandbox: dying.sandbox.ID, Used: 9})
			b.wantStored("where all was charged", live, other)
			b.charged(session.StorageCharged{Sandbox: ended.sandbox.ID, Used: 1}, session.StorageCharged{Sandbox: dying.sandbox.ID})
			b.wantStored("where less was charged later", live, other)
			b.same("the row", b.load(ended.address()).Sandbox, ended.sandbox) // of the same version, too

			row := ended.sandbox
			row.StoredUsed = 8
			b.commit(session.Change{Sandbox: &row})
			b.wantStored("where there is more of it", ended, live, other)
			b.commit(session.Change{Waited: []sandbox.ID{dying.sandbox.ID, ended.sandbox.ID}})
			b.charged(session.StorageCharged{Sandbox: ended.sandbox.ID, Used: 8})
			b.charged()
			b.wantStored("and was charged too", live, other)
		}},
		{"stored-charged-due", "What was charged for is no less due than before.", func(b *storeBench) {
			var want []sandbox.ID
			for range 3 {
				r := b.room(both(machine(sandbox.Destroying, alice), func(c *session.Change) { c.Sandbox.StoredUsed = 1 }))
				want = append(want, r.sandbox.ID)
			}
			b.charged(session.StorageCharged{Sandbox: want[0], Used: 1})
			var got []sandbox.ID
			for _, d := range b.due(session.DueDestroying) {
				got = append(got, d.Snapshot.Sandbox.ID)
			}
			b.same("what is due", got, want)
		}},
		{"stored-charged-refused", "StorageCharged refuses more than MaxKnown at once, and then notes nothing.", func(b *storeBench) {
			r := b.room(both(machine(sandbox.None, alice), func(c *session.Change) { c.Sandbox.StoredUsed = 1 }))
			many := make([]session.StorageCharged, session.MaxKnown+1)
			for i := range many {
				many[i] = session.StorageCharged{Sandbox: r.sandbox.ID, Used: 1}
			}
			if err := b.store.StorageCharged(b.Context(), many); !errors.As(err, new(*access.FieldError)) {
				b.Errorf("of %d: error %v, want a FieldError", len(many), err)
			}
			b.wantStored("then", r)
			b.charged(many[1:]...)
			b.wantStored("of as many as may be")
		}},
		{"stored-refused", "Stored refuses a limit below 1 or above MaxKnown, and an id that can be none.", func(b *storeBench) {
			for _, q := range []struct {
				after sandbox.ID
				limit int
			}{{"", 0}, {"", -1}, {"", session.MaxKnown + 1}, {"a\x00b", 1}} {
				if _, err := b.store.Stored(b.Context(), q.after, q.limit); !errors.As(err, new(*access.FieldError)) {
					b.Errorf("after %q, limit %d: error %v, want a FieldError", q.after, q.limit, err)
				}
			}
		}},
	}
}
