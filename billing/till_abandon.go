package billing

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Abandon charges a work up to a.Through if it had begun, and closes its
// holds. Who pays is known by them; of a work that was let in while the ledger could not be
// asked, and has had no hold since, by what it has posted.
func (g *Till) Abandon(ctx context.Context, a Abandoned) error {
	marks, err := g.ledger.Marks(ctx, []MarkKey{{Resource: a.Work, Meter: a.Meter}})
	if err != nil {
		return err
	}
	holds, err := g.ledger.Holds(ctx, a.Work)
	if err != nil {
		return err
	}
	if mark := marks[0]; !mark.Through.IsZero() && !mark.Closed {
		u := Usage{From: mark.Through, To: later(mark.Through, utc(a.Through)), Last: true}
		if err := g.tail(ctx, mark, holds, u); err != nil {
			return err
		}
	}
	for _, h := range holds {
		if h.State != HoldOpen {
			continue
		}
		if _, err := g.ledger.Release(ctx, h.ID); err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
	}
	return nil
}

// tail charges the end of a work. The newest hold that takes it is settled with
// it; where none does, for all are closed or it is closed meanwhile, it is charged all the same.
func (g *Till) tail(ctx context.Context, mark Mark, holds []Hold, u Usage) error {
	holds = slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return h.Meter != mark.Meter })
	switch {
	case len(holds) > 0:
	case mark.Of.Payer != "":
		holds = append(holds, Hold{Use: mark.Of})
	default:
		return nil
	}
	h, until := holds[len(holds)-1], time.Time{}
	for _, other := range holds {
		if other.State == HoldOpen || other.State == HoldExpired {
			h, until = other, other.Until
		}
	}
	t := Ticket{Intent: Intent{
		ID: h.ID, Work: mark.Resource, Payer: h.Payer, Session: h.Session, Project: h.Project, Meter: h.Meter, Class: h.Class,
	}, Until: until}
	_, err := g.Settle(ctx, t, u)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}
