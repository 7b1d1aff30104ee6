package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// fold reads what is new in everybody's book.
func (s *sim) fold() {
	for _, p := range projects {
		s.foldOne(p.payer)
	}
	for _, payer := range slices.Sorted(maps.Keys(s.bank.purses)) {
		s.balanced(payer)
	}
}

func (s *sim) foldOne(payer access.UserID) {
	p := s.bank.purse(payer)
	for e, err := range billing.Entries(context.Background(), s.ledger, payer, p.entries) {
		if err != nil {
			s.Fatalf("Statement: %v", err)
		}
		if p.entries++; e.N != p.entries {
			s.violated("money", "entry %s is at place %d of the book of %s, not %d", e.ID, e.N, payer, p.entries)
		}
		s.foldEntry(p, e)
	}
}

// foldEntry adds an entry, and compares it with what it is about.
func (s *sim) foldEntry(p *purse, e billing.Entry) {
	if e.Kind == billing.EntryGrant {
		for _, g := range s.bank.grants {
			if g.ID == e.Grant {
				if g.GrantedAt = e.PostedAt; g.Amount != e.Amount || p.grants[g.ID].ID != "" {
					s.violated("money", "grant %s was given as %v, which is not what it is, or once more", g.ID, e.Amount)
				}
				p.grants[g.ID] = g
				s.tell("granted")
			}
		}
	}
	var sum, charged billing.Micros
	for _, post := range e.Postings {
		sum += post.Amount
		p.sums[post.Account] += post.Amount
		if post.Account == "revenue:"+string(e.Use.Meter) {
			charged += post.Amount
		}
	}
	if sum != 0 {
		s.violated("money", "the postings of entry %s sum to %v", e.ID, sum)
	}
	if e.Kind != billing.EntryUsage {
		return
	}
	p.day = max(p.day, dayOf(e.PostedAt)) // a clock that is set back begins no day anew
	p.spent[p.day] += e.Amount
	s.bank.usage[e.ID] = true
	m := s.bank.meters[billing.MarkKey{Resource: e.Use.Resource, Meter: e.Use.Meter}]
	if m == nil || !m.spans[e.From.UnixMicro()].Equal(e.To) {
		s.violated("money", "entry %s charges %v to %v, which nobody has posted", e.ID, e.From, e.To)
		return
	}
	m.charged += e.Amount
	rate := rates[e.Use.Meter]
	// All spans so far cost together what one of them would, to the micro.
	if want := billing.Micros(m.total * int64(rate.Price) / rate.Per); m.charged != want || charged != e.Amount || e.Payer != m.payer {
		s.violated("money", "%s of %s: %d costs %v so far, and %s was charged %v", e.Use.Meter, tip(e.Use.Resource), m.total, want, e.Payer, m.charged)
	}
	s.checkPaid(p, e)
}

// checkPaid: what pays for a span counted when it was used, and nothing is owed while something is left that did.
func (s *sim) checkPaid(p *purse, e billing.Entry) {
	used, owed := e.To.Add(-time.Microsecond), false
	paid := map[string]bool{}
	for _, post := range e.Postings {
		owed = owed || post.Account == "debt:"+string(e.Payer)
		paid[post.Account] = true
	}
	if owed {
		s.tell("debt")
	}
	for id, g := range p.grants {
		account := "grant:" + string(id)
		switch left := p.sums[account]; {
		case left < 0:
			s.violated("money", "grant %s has %v left", id, left)
		case paid[account] && !counts(g, used):
			s.violated("money", "grant %s pays for what was used at %v", id, used)
		case owed && left > 0 && counts(g, used):
			s.violated("money", "entry %s leaves a debt, and grant %s has %v left", e.ID, id, left)
		}
	}
}

// balanced: the balance is the fold of the postings.
func (s *sim) balanced(payer access.UserID) {
	b, err := s.ledger.Balance(context.Background(), payer)
	if err != nil {
		s.Fatalf("Balance: %v", err)
	}
	p := s.bank.purse(payer)
	if want := s.standing(payer, ""); b.Standing != want || b.Account.Entries != p.entries {
		s.violated("money", "%s stands as %+v with %d entries, by the book as %+v with %d", payer, b.Standing, b.Account.Entries, want, p.entries)
	}
	left := map[string]billing.Micros{}
	for _, g := range b.Grants {
		left["grant:"+string(g.ID)] = g.Remaining
	}
	for id := range p.grants {
		if account := "grant:" + string(id); p.sums[account] != left[account] {
			s.violated("money", "%s has %v left, by the book %v", account, left[account], p.sums[account])
		}
	}
}
