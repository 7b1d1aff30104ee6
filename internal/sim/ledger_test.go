package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// wiredLedger is the ledger as one replica reaches it. After every call that has
// an effect the bank compares.
type wiredLedger struct{ wire }

var _ billing.Ledger = wiredLedger{}

// asked is through for a ledger: where the reply is lost the outcome is not known.
func asked[A any](ctx context.Context, w wiredLedger, method, what string, do func(context.Context) (A, error)) (A, error) {
	answer, err := through(ctx, w.wire, method, what, do)
	if errors.Is(err, errLost) {
		err = fmt.Errorf("%w: %w", billing.ErrUnknown, err)
	}
	return answer, err
}

func (w wiredLedger) Hold(ctx context.Context, q billing.HoldRequest) (billing.Hold, error) {
	return asked(ctx, w, "Hold", string(q.ID), func(ctx context.Context) (billing.Hold, error) {
		h, err := w.r.ledger.Hold(ctx, q)
		w.r.holdPlaced(opOf(ctx), q, h, err)
		return h, err
	})
}

func (w wiredLedger) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	for _, p := range posts {
		w.r.tries(p.Resource)
	}
	what := fmt.Sprint(len(posts))
	if len(posts) == 1 {
		p := posts[0]
		what = fmt.Sprintf("%s %s %v last %v", p.Meter, tip(p.Resource), p.To.Sub(p.From), p.Last)
	}
	return asked(ctx, w, "Post", what, func(ctx context.Context) ([]billing.Posted, error) {
		out, err := w.r.ledger.Post(ctx, posts...)
		if err == nil {
			w.r.usagesPosted(w.r, opOf(ctx), posts, out)
		}
		return out, err
	})
}

func (w wiredLedger) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	return asked(ctx, w, "GiveBack", string(id), func(ctx context.Context) (billing.Hold, error) {
		h, err := w.r.ledger.Release(ctx, id)
		w.r.holdReleased(id, h, err)
		return h, err
	})
}

func (w wiredLedger) Grant(ctx context.Context, g billing.Grant) (billing.Grant, error) {
	return asked(ctx, w, "Grant", string(g.ID), func(ctx context.Context) (billing.Grant, error) {
		is, err := w.r.ledger.Grant(ctx, g)
		w.r.bank.given[g.ID] = w.r.bank.given[g.ID] || err == nil
		w.r.log("  granted: %s", class(err))
		w.r.fold()
		return is, err
	})
}

func (w wiredLedger) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	return asked(ctx, w, "Balance", string(payer), func(ctx context.Context) (billing.Balance, error) { return w.r.ledger.Balance(ctx, payer) })
}

func (w wiredLedger) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	return asked(ctx, w, "Statement", string(q.Payer), func(ctx context.Context) (billing.StatementPage, error) { return w.r.ledger.Statement(ctx, q) })
}

func (w wiredLedger) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	return asked(ctx, w, "Payers", "", func(ctx context.Context) ([]access.UserID, error) { return w.r.ledger.Payers(ctx, after, limit) })
}

func (w wiredLedger) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return asked(ctx, w, "Marks", fmt.Sprint(len(keys)), func(ctx context.Context) ([]billing.Mark, error) { return w.r.ledger.Marks(ctx, keys) })
}

func (w wiredLedger) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return asked(ctx, w, "Holds", tip(resource), func(ctx context.Context) ([]billing.Hold, error) { return w.r.ledger.Holds(ctx, resource) })
}

func (w wiredLedger) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	return asked(ctx, w, "Unexported", "", func(ctx context.Context) ([]billing.Entry, error) { return w.r.ledger.Unexported(ctx, limit) })
}

func (w wiredLedger) Exported(ctx context.Context, ids []string) error {
	_, err := asked(ctx, w, "Exported", fmt.Sprint(len(ids)), func(ctx context.Context) (struct{}, error) {
		for _, id := range ids {
			if w.r.bank.exported[id] == "" {
				w.r.violated("money", "event %s is marked as exported, and was not", id)
			}
		}
		return struct{}{}, w.r.ledger.Exported(ctx, ids)
	})
	return err
}

func (w wiredLedger) Expire(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
	return asked(ctx, w, "Expire", "", func(ctx context.Context) (billing.ExpireReport, error) {
		rep, err := w.r.ledger.Expire(ctx, lateness, limit)
		if err == nil {
			w.r.expired(rep, lateness, limit)
		}
		return rep, err
	})
}
