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

func storedChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"stored", "Stored reads what holds something or has held something, of sessions and of environments, live or not, page by page in the order of ids, with whom it belongs to and the clock.", func(b *storeBench) {
			if got := b.stored(1); len(got) > 0 {
				b.Errorf("of nothing: %+v", got)
			}
			holds := func(c *session.Change) { c.Sandbox.MeasuredBytes = 4096 }
			held := func(c *session.Change) { c.Sandbox.StoredUsed = 7 }
			b.room(machine(sandbox.Live, alice)) // never measured
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
