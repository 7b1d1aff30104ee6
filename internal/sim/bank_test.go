package sim

import (
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// account is one hold, as an honest ledger keeps it: a span is accounted for
// by compare-and-set on how far the hold is billed, and the very same span
// again is the same span.
type account struct {
	op      string // of whoever was admitted
	intent  billing.Intent
	until   time.Time // on the store's clock; zero = it has ended
	spans   []billing.Usage
	settled int
	given   int
}

func (s *sim) admit(op string, in billing.Intent) billing.Ticket {
	h := s.holds[in.ID]
	if h == nil {
		h = &account{op: op, intent: in, until: s.clock().Add(in.TTL)}
		s.holds[in.ID] = h
	}
	return billing.Ticket{Hold: in.ID, Until: h.until}
}

func (s *sim) settle(t billing.Ticket, u billing.Usage) billing.Ticket {
	h := s.holds[t.Hold]
	if h == nil {
		s.violated("money", "a hold %s was settled that was never admitted", t.Hold)
		return t
	}
	switch last := len(h.spans) - 1; {
	case u.To.Before(u.From):
		s.violated("money", "hold %s: span %v to %v runs backwards", t.Hold, u.From, u.To)
	case last >= 0 && h.spans[last].From.Equal(u.From) && h.spans[last].To.Equal(u.To) && !u.To.Equal(u.From):
		// the same span again
	case last >= 0 && !h.spans[last].To.Equal(u.From):
		s.violated("money", "hold %s: span from %v does not begin where it is billed to, %v", t.Hold, u.From, h.spans[last].To)
	default:
		h.spans = append(h.spans, u)
	}
	if u.To.After(s.clock()) {
		s.violated("money", "hold %s: %v was charged that had not passed", t.Hold, u.To.Sub(s.clock()))
	}
	if u.Last {
		h.settled++
		h.until = time.Time{}
	} else if h.settled+h.given == 0 {
		h.until = s.clock().Add(h.intent.TTL)
	}
	t.Until = h.until
	return t
}

func (s *sim) giveBack(t billing.Ticket) {
	if h := s.holds[t.Hold]; h != nil {
		h.given++
		h.until = time.Time{}
	}
}

// paid reports whether what is part of op has a hold that lasts.
func (s *sim) paid(op string) bool {
	for _, h := range s.holds {
		if h.op == op && s.clock().Before(h.until) {
			return true
		}
	}
	return false
}
