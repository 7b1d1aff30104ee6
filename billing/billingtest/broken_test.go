package billingtest

import (
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
)

func sound(clock *Clock) billing.Ledger {
	return memory.New(&memory.Options{Now: clock.Now}).Ledger()
}

// spoilt is a plain ledger with something wrong about what it shows or writes.
func spoilt(spoil func(*plain)) func(*Clock) billing.Ledger {
	return func(clock *Clock) billing.Ledger {
		p := newPlain(clock)
		spoil(p)
		return p
	}
}

// showing spoils what a book is shown.
func showing(load func(now time.Time, f *billing.Facts)) func(*Clock) billing.Ledger {
	return spoilt(func(p *plain) { p.load = load })
}

// writing spoils what is written.
func writing(save func(now time.Time, c *billing.Changes)) func(*Clock) billing.Ledger {
	return spoilt(func(p *plain) { p.save = save })
}

// broken is a ledger that breaks a rule, and the checks that must fail because of it.
type broken struct {
	name  string
	open  func(*Clock) billing.Ledger
	fails []string
}

func judge(t *testing.T, all []broken) {
	for _, x := range all {
		t.Run(x.name, func(t *testing.T) {
			said := failing(t, x.fails, x.open)
			for _, name := range x.fails {
				if _, failed := said[name]; !failed {
					t.Errorf("%s passes", name)
				}
			}
		})
	}
}

func TestSoundLedgersPass(t *testing.T) {
	for name, open := range map[string]func(*Clock) billing.Ledger{
		"memory": sound, "one that shows all its rows": spoilt(func(*plain) {}),
	} {
		t.Run(name, func(t *testing.T) {
			for check, said := range failing(t, nil, open) {
				t.Errorf("%s fails:\n%s", check, said)
			}
		})
	}
}

// Ledgers that read or write their rows wrong. The rules themselves are the book's.
func TestBrokenRowsFail(t *testing.T) {
	judge(t, []broken{
		{"decides without a lock", spoilt(func(p *plain) { p.asleep = true }), []string{"race-hold", "race-in-flight", "race-grant", "race-same-span", "race-spend"}},
		{"forgets which holds are open", showing(func(_ time.Time, f *billing.Facts) {
			f.Holds = slices.DeleteFunc(f.Holds, func(h billing.Hold) bool { return h.State == billing.HoldOpen })
		}), []string{"hold-credit", "hold-in-flight", "hold-again", "release", "race-refill", "random"}},
		{"counts holds that have expired", showing(func(now time.Time, f *billing.Facts) {
			for i, h := range f.Holds {
				if h.State == billing.HoldOpen && !now.Before(h.Until) {
					f.Holds[i].Until = now.Add(time.Hour)
				}
			}
		}), []string{"hold-expired", "renew-ended", "expire-holds"}},
		{"counts holds that were closed", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Holds {
				f.Holds[i].State = billing.HoldOpen
			}
		}), []string{"release", "settle", "settled-final", "released-final", "hold-in-flight"}},
		{"forgets holds that were closed", showing(func(_ time.Time, f *billing.Facts) {
			f.Holds = slices.DeleteFunc(f.Holds, func(h billing.Hold) bool { return h.State != billing.HoldOpen })
		}), []string{"settled-final", "released-final", "expired-final", "hold-again"}},
		{"forgets what is owed", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Accounts {
				f.Accounts[i].Debt = 0
			}
		}), []string{"hold-debt", "hold-debt-counts", "charge-debt", "charge-repay"}},
		{"forgets what a day has cost", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Accounts {
				f.Accounts[i].Spent = 0
			}
		}), []string{"hold-daily-cap", "day", "settle"}},
		{"begins a day where its clock is", writing(func(now time.Time, c *billing.Changes) {
			for i := range c.Accounts {
				c.Accounts[i].Day = now.Add(5*time.Hour+30*time.Minute).Unix() / 86_400
			}
		}), []string{"day"}},
		{"begins a day anew with every step of its clock", showing(func(now time.Time, f *billing.Facts) {
			for i, a := range f.Accounts {
				if today := now.Unix() / 86_400; a.Day != today {
					f.Accounts[i].Day, f.Accounts[i].Spent = today, 0
				}
			}
		}), []string{"day-back"}},
		{"never begins a day anew", showing(func(now time.Time, f *billing.Facts) {
			for i := range f.Accounts {
				f.Accounts[i].Day = now.Unix() / 86_400
			}
		}), []string{"day", "day-posted"}},
		{"moves watermarks without looking where they are", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Marks {
				f.Marks[i].Through = time.Time{}
			}
		}), []string{"post-mark", "post-never-back", "post-begin"}},
		{"moves watermarks and charges nothing", writing(func(_ time.Time, c *billing.Changes) {
			if len(c.Marks) > 0 {
				c.Accounts, c.Grants, c.Entries = nil, nil, nil
			}
		}), []string{"post", "cut-post", "settle", "charge-debt"}},
		{"charges and leaves watermarks where they are", writing(func(_ time.Time, c *billing.Changes) {
			if len(c.Entries) > 0 {
				c.Marks = nil
			}
		}), []string{"post", "cut-post", "post-mark", "charge-parts"}},
		{"leaves watermarks where they are when nothing is charged", writing(func(_ time.Time, c *billing.Changes) {
			if len(c.Entries) == 1 && c.Entries[0].Amount == 0 {
				c.Marks = nil
			}
		}), []string{"post-nothing", "charge-parts"}},
		{"loses what is left of a micro", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Marks {
				c.Marks[i].Left = billing.Remainder{}
			}
		}), []string{"charge-parts", "charge-price", "post-carried", "post"}},
		{"does not note whose watermark it is", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Marks {
				c.Marks[i].Of = billing.Use{}
			}
		}), []string{"mark-of", "post", "marks"}},
		{"goes on noting who paid first", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Marks {
				if c.Marks[i].Of.Payer == bob {
					c.Marks[i].Of.Payer = alice
				}
			}
		}), []string{"mark-of"}},
		{"loses the sum of a meter", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Marks {
				f.Marks[i].Total = 0
			}
		}), []string{"charge-parts", "race-ticks", "post-overflow"}},
		{"never closes a meter", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Marks {
				c.Marks[i].Closed = false
			}
		}), []string{"post-last", "post-again-last", "cut-post"}},
		{"does not know what was posted before", showing(func(_ time.Time, f *billing.Facts) { f.Entries = nil }),
			[]string{"post-again", "post-other", "grant-again", "grant-other", "race-grant", "race-same-span", "random"}},
		{"spends grants the other way round", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Grants {
				f.Grants[i].Priority = -f.Grants[i].Priority
			}
		}), []string{"burn-order", "random"}},
		{"forgets when grants expire", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Grants {
				f.Grants[i].ExpiresAt = time.Time{}
			}
		}), []string{"burn-order", "burn-expired-before", "burn-edges", "expire-grants"}},
		{"forgets from when grants count", showing(func(_ time.Time, f *billing.Facts) {
			for i := range f.Grants {
				f.Grants[i].GrantedAt = time.Time{}
			}
		}), []string{"burn-order", "burn-given-later", "burn-future", "burn-edges"}},
		{"takes no grant for one that has expired, and never late", showing(func(now time.Time, f *billing.Facts) {
			f.Grants = slices.DeleteFunc(f.Grants, func(g billing.Grant) bool { return !g.ExpiresAt.IsZero() && !now.Before(g.ExpiresAt) })
		}), []string{"burn-expired-since", "expire-grants", "balance"}},
		{"does not write what is left of grants", writing(func(_ time.Time, c *billing.Changes) {
			c.Grants = slices.DeleteFunc(c.Grants, func(g billing.Grant) bool { return g.Remaining < g.Amount && !g.Repay })
		}),
			[]string{"settle", "burn-order", "expire-grants", "grant-again"}},
		{"does not write that a hold goes on", writing(func(_ time.Time, c *billing.Changes) {
			c.Holds = slices.DeleteFunc(c.Holds, func(h billing.Hold) bool { return h.State == billing.HoldOpen && len(c.Marks) > 0 })
		}), []string{"renew"}},
		{"does not date what it closes", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Holds {
				c.Holds[i].ClosedAt = time.Time{}
			}
		}), []string{"release", "settle", "expire-holds", "expired-final"}},
		{"forgets a column", writing(func(_ time.Time, c *billing.Changes) {
			for i := range c.Entries {
				c.Entries[i].Carried = billing.Remainder{}
			}
		}), []string{"post-carried", "charge-parts"}},
		{"numbers all books together", spoilt(func(p *plain) {
			var n int64
			p.save = func(_ time.Time, c *billing.Changes) {
				for i := range c.Entries {
					n++
					c.Entries[i].N = n
				}
			}
		}), []string{"statement", "many"}},
		{"loses a posting", writing(func(_ time.Time, c *billing.Changes) {
			for i, e := range c.Entries {
				c.Entries[i].Postings = e.Postings[:max(len(e.Postings), 1)-1]
			}
		}), []string{"charge-debt", "settle", "grant"}},
	})
}
