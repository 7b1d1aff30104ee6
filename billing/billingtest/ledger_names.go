package billingtest

import (
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func nameChecks() []check {
	return []check{
		{"names", "Any id is kept as it is, up to 256 bytes: with signs that mean something elsewhere, in any script, and none is taken for another.", func(b *bench) {
			names := []string{
				strings.Repeat("\u00fc", access.MaxID/2), strings.Repeat("x", access.MaxID), strings.Repeat("x", access.MaxID-1),
				"a'b", `a"b`, `a\b`, "a%b", "a_b", "a/b", "a b", "a b ", " a b", "A B", "a\tb", "a\nb", "\u00e9", "e\u0301", "\U0001f6cf", "$1", "?", "null",
			}
			at := b.now().Add(-time.Hour)
			var posts []billing.Post
			for _, name := range names {
				u := billing.Use{
					Meter: billing.Meter(strings.ReplaceAll(name, "/", "|")), Class: billing.Class(name), Resource: name, Payer: access.UserID(name),
					Session: access.SessionID(name), Project: access.ProjectID(name),
				}
				g := b.give(u.Payer, 1000, func(g *billing.Grant) { g.ID, g.Source = billing.GrantID(name), name })
				r := b.ask(u.Payer)
				r.ID, r.Use = billing.HoldID(name), u
				h := b.hold(r)
				b.same("hold", b.holds(name), []billing.Hold{h})
				b.same("grants", b.balance(u.Payer).Grants, []billing.Grant{g})
				posts = append(posts, last(on(h, span(u, at, time.Minute, 10))))
			}
			for i, got := range b.posts(posts...) {
				b.ends("Post to "+names[i], got.Err, "")
			}
			for i, name := range names {
				all := b.statement(access.UserID(name))
				if len(all) != 2 || all[0].Grant != billing.GrantID(name) || all[1].Use != posts[i].Use {
					b.Errorf("the book of %q: %+v", name, all)
				}
				b.verify(access.UserID(name))
			}
			if got := b.payers("", billing.MaxPosts); len(got) != len(names) {
				b.Errorf("%d payers, want %d", len(got), len(names))
			}
			b.exported(b.unexported(billing.MaxPosts)...)
			b.same("unexported", len(b.unexported(10)), 0)
		}},
		{"names-apart", "Names that run together to the same text are apart; a meter's holds no slash, for that makes its charges another's.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			for i, k := range []billing.MarkKey{
				{Meter: "a", Resource: "b/c"}, {Meter: "a", Resource: "b"}, {Meter: "A", Resource: "b"}, {Meter: "a", Resource: "b "}, {Meter: "grant", Resource: "b"},
			} {
				u := b.use(alice)
				u.Meter, u.Resource = k.Meter, k.Resource
				b.same("posted", b.post(span(u, at, time.Minute, int64(i+1))), billing.Posted{Charged: billing.Micros(i + 1)})
			}
			u := b.use(alice)
			u.Meter, u.Resource = "a/b", "c"
			b.fails(span(u, at, time.Minute, 1), "field Meter")
			usage := billing.UsageID(billing.MarkKey{Meter: "grant", Resource: "b"}, at)
			for _, id := range []string{usage, strings.TrimPrefix(usage, "usage/grant/"), strings.TrimPrefix(usage, "usage/")} {
				b.give(alice, 1, func(g *billing.Grant) { g.ID = billing.GrantID(id) })
			}
			b.stands(alice, billing.Standing{Available: 3, Debt: 15, Spent: 15})
			b.verify(alice)
		}},
	}
}
