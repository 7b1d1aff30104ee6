package billingtest

import (
	"errors"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// input is something that no caller should send, and the field that is wrong.
type input[T any] struct {
	field string
	edit  func(*T)
}

// Ids that no row can have.
const (
	withNUL = "a\x00b"
	notUTF8 = "a\xffb"
)

var tooLong = strings.Repeat("x", access.MaxID+1)

// badUses are wrong in what is used for whom.
func badUses[T any](use func(*T) *billing.Use) (all []input[T]) {
	for field, at := range map[string]func(*billing.Use, string){
		"Meter":    func(u *billing.Use, s string) { u.Meter = billing.Meter(s) },
		"Class":    func(u *billing.Use, s string) { u.Class = billing.Class(s) },
		"Resource": func(u *billing.Use, s string) { u.Resource = s },
		"Payer":    func(u *billing.Use, s string) { u.Payer = access.UserID(s) },
		"Session":  func(u *billing.Use, s string) { u.Session = access.SessionID(s) },
		"Project":  func(u *billing.Use, s string) { u.Project = access.ProjectID(s) },
	} {
		for _, bad := range []string{"", withNUL, notUTF8, tooLong} {
			if bad == "" && (field == "Class" || field == "Session" || field == "Project") {
				continue
			}
			all = append(all, input[T]{field, func(v *T) { at(use(v), bad) }})
		}
	}
	return all
}

func inputChecks() []check {
	return []check{
		{"input-hold", "A hold that makes no sense is a *FieldError that names the field.", func(b *bench) {
			b.give(alice, 1000, nil)
			for _, c := range append(badUses(func(r *billing.HoldRequest) *billing.Use { return &r.Use }),
				input[billing.HoldRequest]{"Meter", func(r *billing.HoldRequest) { r.Meter = "a/b" }},
				input[billing.HoldRequest]{"ID", func(r *billing.HoldRequest) { r.ID = "" }},
				input[billing.HoldRequest]{"ID", func(r *billing.HoldRequest) { r.ID = withNUL }},
				input[billing.HoldRequest]{"ID", func(r *billing.HoldRequest) { r.ID = billing.HoldID(tooLong) }},
				input[billing.HoldRequest]{"TTL", func(r *billing.HoldRequest) { r.TTL = 0 }},
				input[billing.HoldRequest]{"TTL", func(r *billing.HoldRequest) { r.TTL = -time.Second }},
				input[billing.HoldRequest]{"Terms", func(r *billing.HoldRequest) { r.Terms.Estimate = -1 }},
			) {
				r := b.ask(alice)
				c.edit(&r)
				_, err := b.ledger.Hold(b.Context(), r)
				b.ends("Hold", err, "field "+c.field)
			}
			b.stands(alice, billing.Standing{Available: 1000})
		}},
		{"input-post", "A post that makes no sense is a *FieldError that names the field, and is no matter of the others.", func(b *bench) {
			bad := append(badUses(func(p *billing.Post) *billing.Use { return &p.Use }),
				input[billing.Post]{"From", func(p *billing.Post) { p.From = time.Time{} }},
				input[billing.Post]{"To", func(p *billing.Post) { p.To = p.From.Add(-time.Microsecond) }},
				input[billing.Post]{"To", func(p *billing.Post) { p.To = time.Time{} }},
				input[billing.Post]{"Quantity", func(p *billing.Post) { p.Quantity = -1 }},
				input[billing.Post]{"Quantity", func(p *billing.Post) { p.To = p.From }},
				input[billing.Post]{"Rate", func(p *billing.Post) { p.Rate.Price = -1 }},
				input[billing.Post]{"Rate", func(p *billing.Post) { p.Rate.Per = 0 }},
				input[billing.Post]{"Rate", func(p *billing.Post) { p.Rate = billing.Rate{} }},
				input[billing.Post]{"Renew", func(p *billing.Post) { p.Renew = -time.Second }},
				input[billing.Post]{"Hold", func(p *billing.Post) { p.Hold = withNUL }},
				input[billing.Post]{"Hold", func(p *billing.Post) { p.Hold = billing.HoldID(tooLong) }},
			)
			at := b.now().Add(-time.Hour)
			var posts []billing.Post
			for _, c := range bad {
				p := span(b.use(alice), at, time.Minute, 1)
				c.edit(&p)
				posts = append(posts, p)
			}
			got := b.posts(append(posts, span(b.use(alice), at, time.Minute, 7))...)
			for i, c := range bad {
				b.ends("Post", got[i].Err, "field "+c.field)
			}
			b.ends("the post that is well", got[len(bad)].Err, "")
			b.stands(alice, billing.Standing{Debt: 7, Spent: 7})
		}},
		{"input-grant", "A grant that makes no sense is a *FieldError that names the field.", func(b *bench) {
			at := b.now()
			for _, c := range []input[billing.Grant]{
				{"ID", func(g *billing.Grant) { g.ID = "" }}, {"ID", func(g *billing.Grant) { g.ID = billing.GrantID(tooLong) }},
				{"ID", func(g *billing.Grant) { g.ID = withNUL }}, {"ID", func(g *billing.Grant) { g.ID = notUTF8 }},
				{"Payer", func(g *billing.Grant) { g.Payer = "" }}, {"Payer", func(g *billing.Grant) { g.Payer = withNUL }},
				{"Source", func(g *billing.Grant) { g.Source = "" }}, {"Source", func(g *billing.Grant) { g.Source = notUTF8 }},
				{"Amount", func(g *billing.Grant) { g.Amount = 0 }}, {"Amount", func(g *billing.Grant) { g.Amount = -1 }},
				{"ExpiresAt", func(g *billing.Grant) { g.GrantedAt, g.ExpiresAt = at, at }},
				{"ExpiresAt", func(g *billing.Grant) { g.GrantedAt, g.ExpiresAt = at, at.Add(-time.Second) }},
			} {
				g := billing.Grant{ID: "g", Payer: alice, Amount: 100, Source: "top-up"}
				c.edit(&g)
				_, err := b.ledger.Grant(b.Context(), g)
				b.ends("Grant", err, "field "+c.field)
			}
			b.same("payers", len(b.payers("", 10)), 0)
		}},
		{"input-limits", "What is asked for is bounded: a *FieldError names the bound that is not kept.", func(b *bench) {
			ctx, l := b.Context(), b.ledger
			const over = billing.MaxPosts + 1
			second := func(_ any, err error) error { return err }
			statement := func(limit int) error {
				return second(l.Statement(ctx, billing.StatementQuery{Payer: alice, Limit: limit}))
			}
			for _, limit := range []int{-1, 0, over} {
				b.ends("Statement", statement(limit), "field Limit")
				b.ends("Payers", second(l.Payers(ctx, "", limit)), "field limit")
				b.ends("Unexported", second(l.Unexported(ctx, limit)), "field limit")
			}
			for _, limit := range []int{-1, 0} {
				b.ends("Expire", second(l.Expire(ctx, 0, limit)), "field limit")
			}
			b.ends("Statement", second(l.Statement(ctx, billing.StatementQuery{Payer: alice, Limit: 1, After: -1})), "field After")
			b.ends("Expire", second(l.Expire(ctx, -time.Second, 1)), "field lateness")
			b.ends("Post", second(l.Post(ctx, make([]billing.Post, over)...)), "field posts")
			b.ends("Marks", second(l.Marks(ctx, make([]billing.MarkKey, over))), "field keys")
			b.ends("Exported", l.Exported(ctx, make([]string, over)), "field ids")
		}},
		{"input-reads", "Asking for what can't be there finds nothing, or is a *FieldError; it is no fault of the database.", func(b *bench) {
			ctx, l := b.Context(), b.ledger
			b.spend(alice, 1)
			for _, bad := range []string{withNUL, notUTF8, tooLong} {
				balance, e1 := l.Balance(ctx, access.UserID(bad))
				page, e2 := l.Statement(ctx, billing.StatementQuery{Payer: access.UserID(bad), Limit: 1})
				holds, e3 := l.Holds(ctx, bad)
				marks, e4 := l.Marks(ctx, []billing.MarkKey{{Resource: bad, Meter: "m"}})
				_, e5 := l.Release(ctx, billing.HoldID(bad))
				e6 := l.Exported(ctx, []string{bad})
				if balance.Account.Entries != 0 || len(page.Items) != 0 || len(holds) != 0 || len(marks) > 1 || len(marks) == 1 && !marks[0].Through.IsZero() {
					b.Errorf("%q: found %+v, %+v, %+v, %+v", bad, balance, page, holds, marks)
				}
				for _, err := range []error{e1, e2, e3, e4, e5, e6} {
					if got := outcome(err); got != "" && got != "not found" && !errors.As(err, new(*access.FieldError)) {
						b.Errorf("%q: %v", bad, err)
					}
				}
				if e5 == nil {
					b.Errorf("%q was released", bad)
				}
			}
		}},
		{"cancelled", "A context that has ended stops everything: nothing is answered, and nothing is written.", func(b *bench) {
			b.give(alice, 1000, func(g *billing.Grant) { g.ExpiresAt = b.now().Add(30 * time.Minute) })
			h := b.hold(b.ask(alice))
			p := b.tail(h)
			p.Last = false
			b.post(p)
			b.clock.Step(time.Hour)
			want, events := b.picture(alice, p.Key()), b.unexported(10)
			ctx, l := cancelled(b), b.ledger
			second := func(_ any, err error) error { return err }
			next := on(h, last(span(h.Use, p.To, time.Minute, 1)))
			for method, err := range map[string]error{
				"Hold":       second(l.Hold(ctx, b.ask(alice))),
				"Post":       second(l.Post(ctx, next)),
				"Release":    second(l.Release(ctx, h.ID)),
				"Grant":      second(l.Grant(ctx, billing.Grant{ID: "g", Payer: alice, Amount: 1, Source: "s"})),
				"Balance":    second(l.Balance(ctx, alice)),
				"Statement":  second(l.Statement(ctx, billing.StatementQuery{Payer: alice, Limit: 1})),
				"Payers":     second(l.Payers(ctx, "", 1)),
				"Marks":      second(l.Marks(ctx, []billing.MarkKey{p.Key()})),
				"Holds":      second(l.Holds(ctx, h.Resource)),
				"Unexported": second(l.Unexported(ctx, 1)),
				"Exported":   l.Exported(ctx, []string{events[0].ID}),
				"Expire":     second(l.Expire(ctx, 0, 10)),
			} {
				if err == nil {
					b.Errorf("%s succeeds", method)
				}
			}
			b.same("what is seen", b.picture(alice, p.Key()), want)
			b.same("unexported", b.unexported(10), events)
		}},
	}
}
