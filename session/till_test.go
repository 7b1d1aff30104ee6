package session_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// dark is a ledger that can't be asked while it is down, and does not answer while it hangs.
type dark struct {
	billing.Ledger
	down, hangs atomic.Bool
}

func (l *dark) out(ctx context.Context) error {
	switch {
	case l.hangs.Load():
		<-ctx.Done()
		return ctx.Err()
	case l.down.Load():
		return errOutage
	}
	return nil
}

func (l *dark) Hold(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
	if err := l.out(ctx); err != nil {
		return billing.Hold{}, err
	}
	return l.Ledger.Hold(ctx, r)
}

func (l *dark) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	if err := l.out(ctx); err != nil {
		return nil, err
	}
	return l.Ledger.Post(ctx, posts...)
}

func (l *dark) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	if err := l.out(ctx); err != nil {
		return billing.Hold{}, err
	}
	return l.Ledger.Release(ctx, id)
}

func (l *dark) Holds(ctx context.Context, work string) ([]billing.Hold, error) {
	if err := l.out(ctx); err != nil {
		return nil, err
	}
	return l.Ledger.Holds(ctx, work)
}

func (l *dark) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	if err := l.out(ctx); err != nil {
		return nil, err
	}
	return l.Ledger.Marks(ctx, keys)
}

// perMicrosecond is the price of a microsecond of work in a machine of a class.
func perMicrosecond(class billing.Class, price billing.Micros) billing.Priced {
	return billing.Priced{Meter: billing.MeterRuntime, Class: class, Rate: billing.Rate{Price: price, Per: 1}}
}

// tilled gives a replica a till to l, with a price list. onFault may be nil.
func (w *world) tilled(l billing.Ledger, onFault func(billing.Operation) billing.FaultPolicy, prices ...billing.Priced) func(*session.Config) {
	return func(c *session.Config) {
		tariffs, err := billing.NewTariffs(prices...)
		if err != nil {
			w.Fatal(err)
		}
		terms := billing.Terms{InFlight: 10, Floor: -1, MaxDebt: 1 << 40}
		till, err := billing.NewTill(billing.TillConfig{
			Ledger: l, Tariffs: tariffs, Terms: func(access.Plan) billing.Terms { return terms }, OnFault: onFault,
		})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := w.db.Ledger().Grant(w.Context(), billing.Grant{ID: "credit of ann", Payer: "ann", Amount: 1 << 50, Source: "test"}); err != nil {
			w.Fatal(err)
		}
		c.Gate, c.Sandboxes = wiredTill{till, c.Gate.(wiredGate).line}, []sandbox.Provider{w.boxes}
	}
}

// wiredTill is a till whose calls are on the wire of a replica, but for those about storage.
type wiredTill struct {
	*billing.Till
	line *wire
}

func (s wiredTill) Settle(ctx context.Context, t billing.Ticket, u billing.Usage) (billing.Ticket, error) {
	out := t
	err := s.line.call(ctx, "settle", func() (err error) { out, err = s.Till.Settle(ctx, t, u); return })
	return out, err
}

func (s wiredTill) Abandon(ctx context.Context, a billing.Abandoned) error {
	return s.line.call(ctx, "abandon", func() error { return s.Till.Abandon(ctx, a) })
}

// open and closed are what a host may want to become of work while the ledger can't be asked.
func open(billing.Operation) billing.FaultPolicy   { return billing.FailOpen }
func closed(billing.Operation) billing.FaultPolicy { return billing.FailClosed }

// ran is the time that payer was charged for.
func (w *world) ran(payer access.UserID) (sum time.Duration) {
	w.Helper()
	for e, err := range billing.Entries(w.Context(), w.db.Ledger(), payer, 0) {
		if err != nil {
			w.Fatal(err)
		}
		if e.Use.Meter == billing.MeterRuntime {
			sum += time.Duration(e.Quantity) * time.Microsecond
		}
	}
	return sum
}

// wantRan fails the test unless ann was charged for that time, within a microsecond, and as a report says.
func (w *world) wantRan(what string, rep session.Report, want time.Duration) {
	w.Helper()
	if got := w.ran("ann"); (got-want).Abs() > time.Microsecond || (rep.Used-want).Abs() > time.Microsecond {
		w.Errorf("%s: charged %v, reported %v, want %v", what, got, rep.Used, want)
	}
}

// held is how many holds ann has open.
func (w *world) held() int {
	w.Helper()
	s, err := w.db.Ledger().Balance(w.Context(), "ann")
	if err != nil {
		w.Fatal(err)
	}
	return s.Holds
}
