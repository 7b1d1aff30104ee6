package sim

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// toldLedger is the ledger of a server that is told the time before each call.
type toldLedger struct {
	inner billing.Ledger
	tell  func(context.Context)
}

var _ billing.Ledger = toldLedger{}

func (l toldLedger) Hold(ctx context.Context, q billing.HoldRequest) (billing.Hold, error) {
	l.tell(ctx)
	return l.inner.Hold(ctx, q)
}

func (l toldLedger) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	l.tell(ctx)
	return l.inner.Post(ctx, posts...)
}

func (l toldLedger) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	l.tell(ctx)
	return l.inner.Release(ctx, id)
}

func (l toldLedger) Grant(ctx context.Context, g billing.Grant) (billing.Grant, error) {
	l.tell(ctx)
	return l.inner.Grant(ctx, g)
}

func (l toldLedger) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	l.tell(ctx)
	return l.inner.Balance(ctx, payer)
}

func (l toldLedger) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	return l.inner.Statement(ctx, q)
}

func (l toldLedger) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	return l.inner.Payers(ctx, after, limit)
}

func (l toldLedger) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return l.inner.Marks(ctx, keys)
}

func (l toldLedger) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return l.inner.Holds(ctx, resource)
}

func (l toldLedger) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	return l.inner.Unexported(ctx, limit)
}

func (l toldLedger) Exported(ctx context.Context, ids []string) error {
	l.tell(ctx)
	return l.inner.Exported(ctx, ids)
}

func (l toldLedger) Expire(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
	l.tell(ctx)
	return l.inner.Expire(ctx, lateness, limit)
}
