package session_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// gate keeps the payers' accounts as an honest ledger does: a span is
// accounted for by compare-and-set on how far the hold is billed, and the
// very same span again is the same span. Anything else fails the test.
type gate struct {
	t  testing.TB
	mu sync.Mutex

	refuse error // Admit's answer
	broke  bool  // every Settle says that nothing is left
	free   bool
	holds  map[string]*hold
}

type hold struct {
	intent  billing.Intent
	until   time.Time
	spans   []billing.Usage
	settled int // Settle with Last
	given   int // Release
	// abandoned: somebody else has closed it; whoever comes back accounts for nothing more.
	abandoned bool
}

// used is the time accounted for.
func (h *hold) used() (sum time.Duration) {
	for _, s := range h.spans {
		sum += s.To.Sub(s.From)
	}
	return sum
}

// began is the moment from which time is charged.
func (h *hold) began() time.Time {
	if len(h.spans) == 0 {
		return time.Now()
	}
	return h.spans[0].From
}

var _ billing.Gate = (*gate)(nil)

func (g *gate) Admit(_ context.Context, in billing.Intent) (billing.Ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refuse != nil {
		return billing.Ticket{}, g.refuse
	}
	h := g.holds[string(in.ID)]
	if h == nil {
		h = &hold{intent: in, until: time.Now().Add(in.TTL)}
		g.holds[string(in.ID)] = h
	}
	return billing.Ticket{Intent: in, Until: h.until, Free: g.free}, nil
}

func (g *gate) Settle(_ context.Context, t billing.Ticket, u billing.Usage) (billing.Ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holds[string(t.Intent.ID)]
	if h == nil {
		g.t.Errorf("settled a hold %s that was never admitted", t.Intent.ID)
		return t, nil
	}
	again := u.To.Equal(u.From) || slices.ContainsFunc(h.spans, same(u))
	switch {
	case h.settled > 0 && !h.abandoned && again: // the reply was lost
		return t, nil
	case h.settled > 0:
		return t, &billing.RefusedError{Payer: h.intent.Payer, Decision: billing.AdmitDecision{Reason: billing.RefusedClosed}}
	}
	switch last := len(h.spans) - 1; {
	case u.To.Before(u.From):
		g.t.Errorf("hold %s: span %v to %v runs backwards", t.Intent.ID, u.From, u.To)
	case last >= 0 && (u.To.Equal(u.From) && u.To.Before(h.spans[last].To) || slices.ContainsFunc(h.spans, same(u))):
		// the same again, however late: accounted for once
	case last >= 0 && !h.spans[last].To.Equal(u.From):
		g.t.Errorf("hold %s: span %v to %v does not begin where it is billed to, %v", t.Intent.ID, u.From, u.To, h.spans[last].To)
	default:
		h.spans = append(h.spans, u)
	}
	if u.Last {
		h.settled++
		h.until = time.Time{}
	} else {
		h.until = time.Now().Add(u.TTL)
	}
	t.Until = h.until
	if g.broke {
		return t, &billing.RefusedError{Payer: h.intent.Payer, Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
	}
	return t, nil
}

// same reports whether a span is u.
func same(u billing.Usage) func(billing.Usage) bool {
	return func(v billing.Usage) bool { return v.From.Equal(u.From) && v.To.Equal(u.To) && v.To.After(v.From) }
}

func (g *gate) Release(_ context.Context, t billing.Ticket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.holds[string(t.Intent.ID)]; h != nil {
		h.given++
		h.until = time.Time{}
	}
	return nil
}

// Abandon accounts for what is left of a work whose process has died.
func (g *gate) Abandon(_ context.Context, a billing.Abandoned) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		if h.intent.Work != a.Work || h.settled+h.given > 0 {
			continue
		}
		h.until, h.abandoned = time.Time{}, true
		if len(h.spans) == 0 {
			h.given++
			continue
		}
		h.settled++
		if through := h.spans[len(h.spans)-1].To; a.Through.After(through) {
			h.spans = append(h.spans, billing.Usage{From: through, To: a.Through, Last: true})
		}
	}
	return nil
}

// all are the holds there ever were, by id of the hold, which is that of the work.
func (g *gate) all() map[string]hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]hold{}
	for id, h := range g.holds {
		c := *h
		c.spans = slices.Clone(h.spans)
		out[id] = c
	}
	return out
}

// live are the holds that neither ended nor expired.
func (g *gate) live() (ids []string) {
	for id, h := range g.all() {
		if time.Now().Before(h.until) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// wantEndedOnce fails the test unless every hold was either settled for good
// or given back, once.
func (g *gate) wantEndedOnce(t testing.TB) { t.Helper(); g.wantEndedOnceBut(t, 0) }

// wantEndedOnceBut is wantEndedOnce where so many works are open.
func (g *gate) wantEndedOnceBut(t testing.TB, open int) {
	t.Helper()
	holds := g.all()
	for _, id := range slices.Sorted(maps.Keys(holds)) {
		switch h := holds[id]; {
		case h.settled+h.given == 0 && open > 0:
			open--
		case h.settled+h.given != 1:
			t.Errorf("T-61: hold %s was settled %d times and released %d times, want exactly one of the two", id, h.settled, h.given)
		}
	}
}

func has(i sandbox.Incarnation) func(memory.Machine) bool {
	return func(m memory.Machine) bool { return m.Incarnation == i }
}

// refused is what a gate says that lets nothing start.
func refused(payer access.UserID) error {
	return &billing.RefusedError{Payer: payer, Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
}
