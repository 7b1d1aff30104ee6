package sessiontest

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// names reads all pages of names. Each comes once.
func (b *storeBench) names() []sandbox.TombstoneKey {
	b.Helper()
	all := map[sandbox.TombstoneKey]bool{}
	for after := ""; ; {
		page, err := b.store.Names(b.Context(), after)
		if err != nil {
			b.Fatalf("Names(%q): %v", after, err)
		}
		if len(page.Items) > session.MaxNames {
			b.Fatalf("a page has %d names", len(page.Items))
		}
		for _, key := range page.Items {
			all[key] = true
		}
		if after = page.Next; after == "" {
			return slices.SortedFunc(maps.Keys(all), inOrder)
		}
	}
}

func inOrder(x, y sandbox.TombstoneKey) int {
	return strings.Compare(string(x.Sandbox)+string(x.Incarnation), string(y.Sandbox)+string(y.Incarnation))
}

func namesChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"names", "Names are the machines of what is creating, live or destroying, of a session as of an environment, and the whole outbox, and nothing else.", func(b *storeBench) {
			b.same("of nothing", len(b.names()), 0)
			var want []sandbox.TombstoneKey
			for _, s := range inEveryState {
				r, e := b.room(machine(s, alice)), b.shared(machine(s, alice))
				if s != sandbox.None && s != sandbox.Lost {
					want = append(want, machineOf(r.sandbox), machineOf(e.sandbox))
				}
			}
			one, all := b.tombstone(alice), b.tombstone(alice)
			all.Incarnation = ""
			kept := b.room(machine(sandbox.Live, alice))
			older := b.tombstone(alice) // of the same sandbox
			older.Sandbox = kept.sandbox.ID
			b.commit(session.Change{Bury: []sandbox.Tombstone{one, all, older}})
			want = append(want, one.TombstoneKey, all.TombstoneKey, machineOf(kept.sandbox), older.TombstoneKey)
			slices.SortFunc(want, inOrder)
			b.same("names", b.names(), want)

			_, err := b.store.Names(b.Context(), "no place")
			if !errors.As(err, new(*access.FieldError)) {
				b.Errorf("Names after what no page ended with: %v, want a *access.FieldError", err)
			}
		}},
	}
}
