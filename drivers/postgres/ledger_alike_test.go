package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// What is the same in every row of a write is sent once. It is read back as
// posted all the same, whatever is alike in a batch and whatever is in one row only.
func TestLedgerRowsAlike(t *testing.T) {
	const rows = 9 // more than are sent one by one
	from := time.Unix(1_700_000_000, 0).UTC()
	differ := map[string]func(p *billing.Post){
		"nothing but the resource": func(*billing.Post) {},
		"class":                    func(p *billing.Post) { p.Class = "large" },
		"no class":                 func(p *billing.Post) { p.Class = "" },
		"meter":                    func(p *billing.Post) { p.Meter = billing.MeterStorage },
		"payer":                    func(p *billing.Post) { p.Payer = "bob" },
		"session":                  func(p *billing.Post) { p.Session = "" },
		"project":                  func(p *billing.Post) { p.Project = "other" },
		"from":                     func(p *billing.Post) { p.From = from.Add(-time.Second) },
		"to":                       func(p *billing.Post) { p.To = p.To.Add(time.Second) },
		"quantity":                 func(p *billing.Post) { p.Quantity++ },
		"nothing used":             func(p *billing.Post) { p.Quantity = 0 },
		"price":                    func(p *billing.Post) { p.Rate.Price++ },
		"free":                     func(p *billing.Post) { p.Rate.Price = 0 },
		"per":                      func(p *billing.Post) { p.Rate.Per = 7 },
		"the last":                 func(p *billing.Post) { p.Last = true },
	}
	l := migrated(t).Ledger()
	credited(t, l, "bob")
	for what, do := range differ {
		for _, at := range []int{0, 4, rows - 1} {
			t.Run(fmt.Sprintf("%s, in row %d", what, at), func(t *testing.T) {
				name := fmt.Sprint(what, at)
				payer, other := access.UserID("alice of "+name), access.UserID("bob")
				credited(t, l, payer)
				posts := make([]billing.Post, rows)
				keys := make([]billing.MarkKey, rows)
				for i := range posts {
					posts[i] = billing.Post{
						Use:  billing.Use{Meter: billing.MeterRuntime, Class: "small", Resource: fmt.Sprint("sandbox ", name, i), Payer: payer, Session: "session", Project: "project"},
						From: from, To: from.Add(10 * time.Second), Quantity: 10_000_000, Rate: second,
					}
					if i == at {
						do(&posts[i])
					}
					keys[i] = posts[i].Key()
				}
				out, err := l.Post(t.Context(), posts...)
				if err != nil {
					t.Fatal(err)
				}
				marks, err := l.Marks(t.Context(), keys)
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]billing.Entry{}
				entries, err := l.Unexported(t.Context(), billing.MaxPosts)
				if err != nil || len(entries) < rows {
					t.Fatalf("%d entries, %v", len(entries), err)
				}
				for _, e := range entries {
					got[e.ID] = e
				}
				for i, p := range posts {
					if out[i].Err != nil {
						t.Fatal(out[i].Err)
					}
					e := got[billing.UsageID(p.Key(), p.From)]
					if e.Use != p.Use || !e.From.Equal(p.From) || !e.To.Equal(p.To) || e.Quantity != p.Quantity || e.Rate != p.Rate || e.Amount != out[i].Charged {
						t.Errorf("row %d is %+v, want what was posted: %+v", i, e, p)
					}
					if charged, _, _ := p.Rate.Charge(p.Quantity, billing.Remainder{}); charged != out[i].Charged {
						t.Errorf("row %d: charged %v, want %v", i, out[i].Charged, charged)
					}
					_, left, _ := p.Rate.Charge(p.Quantity, billing.Remainder{})
					want := billing.Mark{MarkKey: p.Key(), Through: p.To, Total: p.Quantity, Left: left, Closed: p.Last, Of: p.Use}
					if diff := cmp.Diff(want, marks[i]); diff != "" {
						t.Errorf("watermark %d (-want +got):\n%s", i, diff)
					}
				}
				for _, payer := range []access.UserID{payer, other} {
					if v, err := billing.Verify(t.Context(), l, payer); err != nil || v.Faults != nil {
						t.Errorf("the book of %s: %+v, %v", payer, v, err)
					}
				}
			})
		}
	}
}

// A column that may be NULL is sent whole: of works in one batch only those
// that are over have a time at which they were closed, the first of them too.
func TestLedgerRowsAlikeButForNulls(t *testing.T) {
	l := migrated(t).Ledger()
	credited(t, l, "alice")
	for _, over := range []int{0, 3, 6} {
		posts := make([]billing.Post, 7)
		for i := range posts {
			h := hold(t, l, "alice")
			posts[i] = spent(h)
			if i != over {
				posts[i].Last, posts[i].Renew, posts[i].Terms = false, time.Hour, benchTerms
			}
		}
		out, err := l.Post(t.Context(), posts...)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range posts {
			if out[i].Err != nil || out[i].Refused != nil {
				t.Fatal(out[i].Err, out[i].Refused)
			}
			is, err := l.Holds(t.Context(), p.Resource)
			if err != nil || len(is) != 1 {
				t.Fatal(is, err)
			}
			if diff := cmp.Diff(out[i].Hold, is[0]); diff != "" || is[0].ClosedAt.IsZero() == (i == over) {
				t.Errorf("%d is over, hold %d (-answered +kept):\n%s", over, i, diff)
			}
		}
	}
}
