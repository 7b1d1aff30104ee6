package billingtest

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

func postManyChecks() []check {
	return []check{
		{"many", "Posts are written in one call in their order: two spans of a meter, several meters, several payers, with holds and without.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			at := b.now().Add(-time.Hour)
			u, v := b.use(bob), b.use(alice)
			got := b.posts(
				span(u, at, time.Minute, 1),
				on(h, span(h.Use, at, time.Minute, 2)),
				span(u, at.Add(time.Minute), time.Minute, 3),
				span(v, at, time.Minute, 4),
				last(on(h, span(h.Use, at.Add(time.Minute), time.Minute, 5))),
				last(span(u, at.Add(2*time.Minute), 0, 0)),
			)
			settled := got[4].Hold
			if settled.State != billing.HoldSettled {
				b.Errorf("hold %+v, want it settled", settled)
			}
			b.same("posted", got, []billing.Posted{
				{Charged: 1}, {Charged: 2, Hold: h}, {Charged: 3}, {Charged: 4}, {Charged: 5, Hold: settled}, {},
			})
			b.stands(alice, billing.Standing{Available: 989, Spent: 11})
			b.stands(bob, billing.Standing{Debt: 4, Spent: 4})
			var order []billing.Micros
			for _, e := range b.statement(alice) {
				order = append(order, e.Amount)
			}
			b.same("amounts in the book of alice", order, []billing.Micros{1000, 2, 4, 5})
			b.verify(alice, bob)
		}},
		{"many-bad", "A bad post among good ones has an error of its own: nothing of it is written, and all of the others.", func(b *bench) {
			b.give(alice, 1000, nil)
			h := b.hold(b.ask(alice))
			at := b.now().Add(-time.Hour)
			u, v, closed := b.use(alice), b.use(bob), b.use(alice)
			b.post(last(span(closed, at, time.Minute, 1)))
			b.post(span(u, at, time.Minute, 10))
			through := at.Add(time.Minute)
			nameless := span(u, through, time.Minute, 1)
			nameless.Payer = ""
			missing := span(u, through, time.Minute, 1)
			missing.Hold = "no-such-hold"
			huge := span(b.use(alice), at, time.Minute, 1<<62)
			huge.Rate.Price = 4
			got := b.posts(
				nameless,
				span(u, through, time.Minute, 20),
				missing,
				span(u, through, 2*time.Minute, 20), // overtaken by the second
				span(closed, through, time.Minute, 1),
				huge,
				span(u, at, time.Minute, 11), // another quantity
				span(v, at, time.Minute, 40),
				last(on(h, span(h.Use, at, time.Minute, 80))),
			)
			for i, want := range []string{
				"field Payer", "", "not found", fmt.Sprintf("runtime of %s is through %v, not %v", u.Resource, through.Add(time.Minute), through),
				"closed", "overflow", "conflict", "", "",
			} {
				b.ends(fmt.Sprintf("post %d", i), got[i].Err, want)
				if want != "" {
					b.same(fmt.Sprintf("post %d", i), got[i], billing.Posted{Err: got[i].Err})
				}
			}
			b.stands(alice, billing.Standing{Available: 1000 - 1 - 10 - 20 - 80, Spent: 111})
			b.stands(bob, billing.Standing{Debt: 40, Spent: 40})
			b.same("mark", b.mark(keyOf(u)), billing.Mark{MarkKey: keyOf(u), Through: through.Add(time.Minute), Total: 30, Of: u})
			b.verify(alice, bob)
		}},
		{"many-all-bad", "Where every post is bad nothing is written, and the call succeeds.", func(b *bench) {
			u := b.use(alice)
			got := b.posts(span(u, b.now(), -time.Minute, 0), span(u, b.now(), 0, 7))
			b.ends("one", got[0].Err, "field To")
			b.ends("other", got[1].Err, "field Quantity")
			b.same("payers", len(b.payers("", 10)), 0)
		}},
		{"many-twice", "The same span twice in one call is charged once.", func(b *bench) {
			p := span(b.use(alice), b.now().Add(-time.Hour), time.Minute, 10)
			b.same("posted", b.posts(p, p), []billing.Posted{{Charged: 10}, {Charged: 10, Repeated: true}})
			b.stands(alice, billing.Standing{Debt: 10, Spent: 10})
		}},
		{"many-none", "No posts are posted, and no marks are asked for.", func(b *bench) {
			b.posts()
			if got, err := b.ledger.Marks(b.Context(), nil); err != nil || len(got) != 0 {
				b.Errorf("Marks: %v, %v", got, err)
			}
			b.ends("Exported", b.ledger.Exported(b.Context(), nil), "")
		}},
		{"many-most", "As much as may be posted, asked for and exported at once can be, with names as long as may be.", func(b *bench) {
			at := b.now().Add(-time.Hour)
			u := b.use(alice)
			posts, keys := make([]billing.Post, billing.MaxPosts), make([]billing.MarkKey, billing.MaxPosts)
			for i := range posts {
				u.Resource = fmt.Sprintf("%0256d", i)
				posts[i] = span(u, at, time.Minute, 1)
				keys[i] = posts[i].Key()
			}
			for i, got := range b.posts(posts...) {
				if got.Err != nil || got.Charged != 1 {
					b.Fatalf("post %d: %+v", i, got)
				}
			}
			marks, err := b.ledger.Marks(b.Context(), keys)
			if err != nil || len(marks) != len(keys) || marks[len(keys)-1].Total != 1 {
				b.Errorf("%d marks, %v", len(marks), err)
			}
			all := b.unexported(billing.MaxPosts)
			if len(all) != billing.MaxPosts {
				b.Errorf("%d unexported, want all", len(all))
			}
			b.exported(all...)
			b.same("unexported", len(b.unexported(10)), 0)
			b.stands(alice, billing.Standing{Debt: billing.MaxPosts, Spent: billing.MaxPosts})
			b.verify(alice)
		}},
	}
}
