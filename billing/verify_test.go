package billing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

// tampered is a ledger of which one thing is not as it was written.
type tampered struct {
	billing.Ledger
	entry   func(*billing.Entry)
	entries func([]billing.Entry) []billing.Entry
	balance func(*billing.Balance)
	mark    func(*billing.Mark)
	fail    string // the call that fails
}

func (l tampered) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	if l.fail == "statement" {
		return billing.StatementPage{}, errAway
	}
	q.Limit = 2 // so that there are several pages
	page, err := l.Ledger.Statement(ctx, q)
	page.Items = slices.Clone(page.Items)
	for i := range page.Items {
		page.Items[i].Postings = slices.Clone(page.Items[i].Postings)
		if l.entry != nil {
			l.entry(&page.Items[i])
		}
	}
	if l.entries != nil {
		page.Items = l.entries(page.Items)
	}
	return page, err
}

func (l tampered) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	if l.fail == "balance" {
		return billing.Balance{}, errAway
	}
	b, err := l.Ledger.Balance(ctx, payer)
	b.Grants = slices.Clone(b.Grants)
	if l.balance != nil {
		l.balance(&b)
	}
	return b, err
}

func (l tampered) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	if l.fail == "marks" {
		return nil, errAway
	}
	marks, err := l.Ledger.Marks(ctx, keys)
	for i := range marks {
		if l.mark != nil {
			l.mark(&marks[i])
		}
	}
	return marks, err
}

// aBook is a ledger with a book of all kinds of entries: ann owes 40, has a grant of 7 left, and one of hers has expired.
func aBook(t testing.TB) billing.Ledger {
	t.Helper()
	now := noon
	l := memory.New(&memory.Options{Now: func() time.Time { return now }}).Ledger()
	ctx := t.Context()
	give := func(g billing.Grant) {
		t.Helper()
		if _, err := l.Grant(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	post := func(posts ...billing.Post) {
		t.Helper()
		out, err := l.Post(ctx, posts...)
		for _, o := range out {
			err = errors.Join(err, o.Err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	expiring := grantOf("monthly", 50)
	expiring.ExpiresAt = second(100)
	give(expiring)
	post(span("work-1", 0, 30), span("work-2", 0, 5))
	now = second(200)
	if _, err := l.Expire(ctx, 0, 10); err != nil {
		t.Fatal(err)
	}
	post(span("work-1", 30, 130))
	repay := grantOf("top-up", 60)
	repay.Repay = true
	give(repay)
	now = second(300)
	give(grantOf("later", 7))
	return l
}

func TestVerify(t *testing.T) {
	l := aBook(t)
	for payer, want := range map[access.UserID]billing.Verification{
		"ann":    {Payer: "ann", Entries: 7, Charged: 135},
		"nobody": {Payer: "nobody"},
	} {
		got, err := billing.Verify(t.Context(), tampered{Ledger: l}, payer)
		if err != nil || got.Payer != want.Payer || got.Entries != want.Entries || got.Charged != want.Charged || len(got.Faults) != 0 {
			t.Errorf("%s: %+v, %v", payer, got, err)
		}
	}
}

// Whatever one thing is changed, Verify says so.
func TestVerifyFindsTampering(t *testing.T) {
	// On the entry of that id.
	of := func(id string, change func(*billing.Entry)) func(*billing.Entry) {
		return func(e *billing.Entry) {
			if strings.HasPrefix(e.ID, id) {
				change(e)
			}
		}
	}
	without := func(id string) func([]billing.Entry) []billing.Entry {
		return func(all []billing.Entry) []billing.Entry {
			return slices.DeleteFunc(all, func(e billing.Entry) bool { return strings.HasPrefix(e.ID, id) })
		}
	}
	last := billing.UsageID(workMark, second(30))
	for _, c := range []struct {
		what string
		l    tampered
		says string
	}{
		{"a posting", tampered{entry: of("grant/later", func(e *billing.Entry) { e.Postings[0].Amount-- })}, "sum to -0.000001"},
		{"both postings of a grant", tampered{entry: of("grant/later", func(e *billing.Entry) { e.Postings[0].Amount--; e.Postings[1].Amount++ })}, "about 0.000007, and its postings about -0.000008"},
		{"both postings of a charge", tampered{entry: of(last, func(e *billing.Entry) { e.Postings[0].Amount++; e.Postings[1].Amount-- })}, "and its postings about 0.000099"},
		{"all of a charge", tampered{entry: of(last, func(e *billing.Entry) { e.Amount--; e.Postings[0].Amount++; e.Postings[1].Amount-- })}, "charges 0.000099 for what costs 0.0001"},
		{"what expired", tampered{entry: of("expiry/", func(e *billing.Entry) { e.Amount-- })}, "entry expiry/monthly is about"},
		{"the amount of a charge", tampered{entry: of(last, func(e *billing.Entry) { e.Amount++ })}, "for what costs 0.0001"},
		{"the quantity", tampered{entry: of(last, func(e *billing.Entry) { e.Quantity += 1_000_000 })}, "for what costs 0.000101"},
		{"the price", tampered{entry: of(last, func(e *billing.Entry) { e.Rate.Price = 2 })}, "for what costs 0.0002"},
		{"a price that is none", tampered{entry: of(last, func(e *billing.Entry) { e.Rate.Per = 0 })}, "for what costs 0"},
		{"what was carried", tampered{entry: of(last, func(e *billing.Entry) { e.Carried = billing.Remainder{N: 7, Per: 3} })}, "for what costs 0"},
		{"the beginning of a span", tampered{entry: of(last, func(e *billing.Entry) { e.From = e.From.Add(-1) })}, "before the one before it ended"},
		{"the end of a span", tampered{entry: of(last, func(e *billing.Entry) { e.To = e.To.Add(1) })}, "by the book through"},
		{"a span turned about", tampered{entry: of(last, func(e *billing.Entry) { e.To = e.From })}, "has no length"},
		{"what was used", tampered{entry: of(last, func(e *billing.Entry) { e.Use.Resource = "work-2" })}, "by the book through"},
		{"a grant drawn on", tampered{entry: of("usage/runtime/work-2", func(e *billing.Entry) { e.Postings[0].Account = "grant:later" })}, "grant:later has 0.000007 left, by the book 0.000002"},
		{"who owes", tampered{entry: of(last, func(e *billing.Entry) { e.Postings[0].Account = "debt:bob" })}, "by its book -0.00006"},
		{"a place", tampered{entry: of(last, func(e *billing.Entry) { e.N = 9 })}, "the account has 7 entries"},
		{"two places", tampered{entries: func(all []billing.Entry) []billing.Entry { slices.Reverse(all); return all }}, "is at place 2, not 1"},
		{"a charge that is gone", tampered{entries: without(last)}, "not 5"},
		{"the last entry that is gone", tampered{entries: without("grant/later")}, "the account has 7 entries, the book 6"},
		{"an entry that is there twice", tampered{entries: func(all []billing.Entry) []billing.Entry { return append(all[:1:1], all...) }}, "is at place 1, not 2"},
		{"what is owed", tampered{balance: func(b *billing.Balance) { b.Account.Debt++ }}, "owes 0.000041, by its book 0.00004"},
		{"what is left of a grant", tampered{balance: func(b *billing.Balance) { b.Grants[0].Remaining++ }}, "grant:later has 0.000008 left"},
		{"a grant that has something left and is gone", tampered{balance: func(b *billing.Balance) { b.Grants = nil }}, "grant:later has 0 left"},
		{"a grant out of nowhere", tampered{balance: func(b *billing.Balance) {
			b.Grants = append(b.Grants, billing.Grant{ID: "forged", Remaining: 5})
		}}, "the book does not know it"},
		{"how many entries there are", tampered{balance: func(b *billing.Balance) { b.Account.Entries++ }}, "the account has 8 entries, the book 7"},
		{"a watermark that went back", tampered{mark: func(m *billing.Mark) { m.Through = m.Through.Add(-1) }}, "runtime of work-1 is posted through"},
		{"a watermark's total", tampered{mark: func(m *billing.Mark) { m.Total-- }}, "runtime of work-1 is posted through"},
		{"a watermark that is gone", tampered{mark: func(m *billing.Mark) { *m = billing.Mark{MarkKey: m.MarkKey} }}, "runtime of work-2 is posted through"},
	} {
		c.l.Ledger = aBook(t)
		v, err := billing.Verify(t.Context(), c.l, "ann")
		if err != nil || !slices.ContainsFunc(v.Faults, func(f string) bool { return strings.Contains(f, c.says) }) {
			t.Errorf("%s: %v\n%s\nwant %q", c.what, err, strings.Join(v.Faults, "\n"), c.says)
		}
	}
}

// What is written while it reads is left out.
func TestVerifyWhileItGoesOn(t *testing.T) {
	l := aBook(t)
	first := true
	v, err := billing.Verify(t.Context(), tampered{Ledger: l, balance: func(*billing.Balance) {
		if out, err := l.Post(t.Context(), span("work-1", 130, 140)); first && (err != nil || out[0].Err != nil) {
			t.Error(err, out)
		}
		first = false
	}}, "ann")
	if err != nil || len(v.Faults) != 0 || v.Entries != 7 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A project that has changed hands has its spans in two books; each is verified.
func TestVerifyAfterAChangeOfHands(t *testing.T) {
	l := aBook(t)
	theirs := span("work-1", 130, 140)
	theirs.Payer = "bob"
	out, err := l.Post(t.Context(), theirs, span("work-1", 140, 150))
	if err != nil || out[0].Err != nil || out[1].Err != nil {
		t.Fatal(err, out)
	}
	for payer, charged := range map[access.UserID]billing.Micros{"ann": 145, "bob": 10} {
		if v, err := billing.Verify(t.Context(), l, payer); err != nil || len(v.Faults) != 0 || v.Charged != charged {
			t.Errorf("%s: %+v, %v", payer, v, err)
		}
	}
}

func TestVerifyCannotAsk(t *testing.T) {
	for _, call := range []string{"balance", "statement", "marks"} {
		if _, err := billing.Verify(t.Context(), tampered{Ledger: aBook(t), fail: call}, "ann"); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Entries reads the whole book, from any place, and stops when asked to.
func TestEntries(t *testing.T) {
	l := tampered{Ledger: aBook(t)}
	for after := range int64(8) {
		n := after
		for e, err := range billing.Entries(t.Context(), l, "ann", after) {
			if n++; err != nil || e.N != n {
				t.Fatalf("after %d: %+v, %v; want place %d", after, e, err, n)
			}
		}
		if n != 7 {
			t.Errorf("after %d it ended at %d", after, n)
		}
	}
	for range billing.Entries(t.Context(), l, "ann", 0) {
		break
	}
}
