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
	return billing.Ticket{Hold: in.ID, Until: h.until, Free: g.free}, nil
}

func (g *gate) Settle(_ context.Context, t billing.Ticket, u billing.Usage) (billing.Ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holds[string(t.Hold)]
	if h == nil {
		g.t.Errorf("settled a hold %s that was never admitted", t.Hold)
		return t, nil
	}
	switch last := len(h.spans) - 1; {
	case u.To.Before(u.From):
		g.t.Errorf("hold %s: span %v to %v runs backwards", t.Hold, u.From, u.To)
	case last >= 0 && h.spans[last].From.Equal(u.From) && h.spans[last].To.Equal(u.To) && !u.To.Equal(u.From):
		// the same span again: accounted for once
	case last >= 0 && !h.spans[last].To.Equal(u.From):
		g.t.Errorf("hold %s: span %v to %v does not begin where it is billed to, %v", t.Hold, u.From, u.To, h.spans[last].To)
	default:
		h.spans = append(h.spans, u)
	}
	if u.Last {
		h.settled++
		h.until = time.Time{}
	} else {
		h.until = time.Now().Add(h.intent.TTL)
	}
	t.Until = h.until
	if g.broke {
		return t, &billing.RefusedError{Payer: h.intent.Payer, Reason: "out of credit"}
	}
	return t, nil
}

func (g *gate) Release(_ context.Context, t billing.Ticket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.holds[string(t.Hold)]; h != nil {
		h.given++
		h.until = time.Time{}
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
	return &billing.RefusedError{Payer: payer, Reason: "out of credit"}
}
