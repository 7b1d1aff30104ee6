package main

import (
	"context"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// ledger counts the calls it passes on, and tells what is posted of works that
// began here: whoever looks at the books later must know it from elsewhere.
type ledger struct {
	billing.Ledger
	*places
	beats chan struct{} // one for each span that was posted of a work that goes on

	mu  sync.Mutex
	own map[string]bool // the works that were admitted here
}

func newLedger(l billing.Ledger, p *places) *ledger {
	return &ledger{Ledger: l, places: p, beats: make(chan struct{}, 100), own: map[string]bool{}}
}

// told is what a process knows of a work, as soon as it knows it.
type told struct {
	Work  string    `json:"work"`
	Open  bool      `json:"open,omitempty"`  // whoever asked for it has it
	Asks  bool      `json:"asks,omitempty"`  // is about to renew its lease
	Heard time.Time `json:"heard,omitzero"`  // its lease was renewed then, on the store's clock
	Posts *span     `json:"posts,omitempty"` // is about to be posted
	Done  *span     `json:"done,omitempty"`  // is posted
}

type span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Last bool      `json:"last,omitempty"`
}

func (l *ledger) Hold(ctx context.Context, r billing.HoldRequest) (billing.Hold, error) {
	l.mu.Lock()
	l.own[r.Resource] = true
	l.mu.Unlock()
	say(message{Told: &told{Work: r.Resource}})
	return write(ctx, l.places, "hold", func(ctx context.Context) (billing.Hold, error) { return l.Ledger.Hold(ctx, r) })
}

func (l *ledger) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	return write(ctx, l.places, "post", func(ctx context.Context) ([]billing.Posted, error) {
		l.tell(posts, func(t *told, s *span) { t.Posts = s })
		out, err := l.Ledger.Post(ctx, posts...)
		if err != nil || out[0].Err != nil { // the runner posts one at a time
			return out, err
		}
		l.tell(posts, func(t *told, s *span) { t.Done = s })
		if p := posts[0]; p.To.After(p.From) && !p.Last {
			select {
			case l.beats <- struct{}{}:
			default: // nobody counts so many
			}
		}
		return out, nil
	})
}

// tell says something of what is posted, if it is of a work that was admitted here.
func (l *ledger) tell(posts []billing.Post, what func(*told, *span)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range posts {
		if l.own[p.Resource] {
			t := told{Work: p.Resource}
			what(&t, &span{p.From, p.To, p.Last})
			say(message{Told: &t})
		}
	}
}

func (l *ledger) Release(ctx context.Context, id billing.HoldID) (billing.Hold, error) {
	return write(ctx, l.places, "unhold", func(ctx context.Context) (billing.Hold, error) { return l.Ledger.Release(ctx, id) })
}

func (l *ledger) Grant(ctx context.Context, g billing.Grant) (billing.Grant, error) {
	return write(ctx, l.places, "grant", func(ctx context.Context) (billing.Grant, error) { return l.Ledger.Grant(ctx, g) })
}

func (l *ledger) Expire(ctx context.Context, lateness time.Duration, limit int) (billing.ExpireReport, error) {
	return write(ctx, l.places, "expire", func(ctx context.Context) (billing.ExpireReport, error) {
		return l.Ledger.Expire(ctx, lateness, limit)
	})
}

func (l *ledger) Exported(ctx context.Context, ids []string) error {
	_, err := write(ctx, l.places, "exported", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.Ledger.Exported(ctx, ids)
	})
	return err
}

func (l *ledger) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	return get(l.places, "balance", func() (billing.Balance, error) { return l.Ledger.Balance(ctx, payer) })
}

func (l *ledger) Statement(ctx context.Context, q billing.StatementQuery) (billing.StatementPage, error) {
	return get(l.places, "statement", func() (billing.StatementPage, error) { return l.Ledger.Statement(ctx, q) })
}

func (l *ledger) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	return get(l.places, "payers", func() ([]access.UserID, error) { return l.Ledger.Payers(ctx, after, limit) })
}

func (l *ledger) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	return get(l.places, "marks", func() ([]billing.Mark, error) { return l.Ledger.Marks(ctx, keys) })
}

func (l *ledger) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	return get(l.places, "holds", func() ([]billing.Hold, error) { return l.Ledger.Holds(ctx, resource) })
}

func (l *ledger) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	return get(l.places, "unexported", func() ([]billing.Entry, error) { return l.Ledger.Unexported(ctx, limit) })
}

// opened tells that whoever asked for a work has it.
func opened(wk *session.Work) { say(message{Told: &told{Work: wk.ID(), Open: true}}) }

// heard tells that the lease of a work is renewed, from the store's own reckoning.
func heard(l session.Lease, err error) {
	if err == nil && l.Kind == session.LeaseWork {
		say(message{Told: &told{Work: l.Holder, Heard: l.Until.Add(-l.For)}})
	}
}

// asks tells that the lease of a work is about to be renewed.
func asks(l session.Lease) {
	if l.Kind == session.LeaseWork {
		say(message{Told: &told{Work: l.Holder, Asks: true}})
	}
}
