package sessiontest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

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

func missingChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"missing", "Missing are of one provider the live machines with a sign of absence and those lost lately, whoever's they are, but not what was lost with its host; they are counted up to Limit.", func(b *storeBench) {
			ask := func(what string, want int, q session.MissingQuery) {
				b.Helper()
				n, err := b.store.Missing(b.Context(), q)
				if err != nil || n != want {
					b.Errorf("%s: %d and error %v, want %d", what, n, err, want)
				}
			}
			q := session.MissingQuery{Provider: "p", Lately: time.Hour, Limit: 100}
			ask("of nothing", 0, q)
			for _, s := range inEveryState {
				if s != sandbox.Lost {
					b.room(machine(s, alice))
				}
			}
			gone := both(machine(sandbox.Live, alice), func(c *session.Change) { c.Stamps.Absent = true })
			elsewhere := func(c *session.Change) { c.Sandbox.Provider = "other" }
			r := b.room(gone)
			b.shared(gone)
			b.room(both(gone, elsewhere))
			b.room(both(machine(sandbox.Destroying, bob), func(c *session.Change) { c.Stamps.Absent = true }))
			b.room(both(machine(sandbox.Lost, alice), func(c *session.Change) { c.Sandbox.Incarnation = "" }))
			ask("two are not to be seen", 2, q)

			lost := b.room(machine(sandbox.Lost, bob))
			b.room(both(machine(sandbox.Lost, bob), elsewhere))
			ask("and one is lost", 3, q)
			ask("no further than that", 2, session.MissingQuery{Provider: "p", Lately: time.Hour, Limit: 2})
			ask("of what is lost none", 2, session.MissingQuery{Provider: "p", Limit: 100})
			ask("another's", 2, session.MissingQuery{Provider: "other", Lately: time.Hour, Limit: 100})
			ask("nobody's", 0, session.MissingQuery{Provider: "absent", Lately: time.Hour, Limit: 100})
			b.clock.Step(50 * time.Minute)
			ask("it still is", 3, q)
			b.clock.Step(20 * time.Minute)
			ask("it is no more, and what is missing is for ever", 2, q)
			row := lost.sandbox
			b.commit(session.Change{Sandbox: &row})
			ask("written again", 3, q)
			row = r.sandbox
			row.AbsentSince = time.Time{}
			b.commit(session.Change{Sandbox: &row})
			ask("one was seen", 2, q)
			b.commit(session.Change{Delete: []session.Address{{Session: lost.session.ID}}})
			ask("one was deleted", 1, q)

			for _, bad := range []session.MissingQuery{{Limit: 1}, {Provider: "p"}, {Provider: "p", Limit: -1}} {
				if _, err := b.store.Missing(b.Context(), bad); !errors.As(err, new(*access.FieldError)) {
					b.Errorf("Missing(%+v): %v, want a *access.FieldError", bad, err)
				}
			}
		}},
	}
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
