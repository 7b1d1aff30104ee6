package billingtest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// plain is a ledger that shows a book all its rows. What it shows and what it
// writes can be spoilt, which is how a driver gets its queries wrong; what is not
// in the way of that is memory's.
type plain struct {
	now func() time.Time

	mu       sync.Mutex
	rows     *twin
	exported map[string]bool

	// load spoils what the book is shown, and save what is written. asleep has
	// the lock let go of in between, for another who is at it.
	load   func(now time.Time, f *billing.Facts)
	save   func(now time.Time, c *billing.Changes)
	asleep bool
	meet   chan struct{}
}

func newPlain(clock *Clock) *plain {
	return &plain{
		now: func() time.Time { return clock.Now().UTC().Truncate(time.Microsecond) }, rows: newTwin(), exported: map[string]bool{}, meet: make(chan struct{}),
	}
}

func (p *plain) book(ctx context.Context, verb func(*billing.Book) error) error {
	return p.narrow(ctx, func(time.Time, *billing.Facts) {}, verb)
}

// narrow is book with less to be shown.
func (p *plain) narrow(ctx context.Context, only func(time.Time, *billing.Facts), verb func(*billing.Book) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	f := p.rows.facts()
	if p.load != nil {
		p.load(now, &f)
	}
	only(now, &f)
	b := billing.NewBook(now)
	b.Add(f)
	if err := verb(b); err != nil {
		return err
	}
	if p.asleep {
		p.mu.Unlock()
		select { // two that have decided go on together
		case p.meet <- struct{}{}:
		case <-p.meet:
		case <-time.After(200 * time.Millisecond): // nobody else is at it
		}
		p.mu.Lock()
	}
	c := b.Changes()
	if p.save != nil {
		p.save(now, &c)
	}
	p.rows.write(c)
	return nil
}

func (p *plain) Hold(ctx context.Context, r billing.HoldRequest) (h billing.Hold, err error) {
	err = p.book(ctx, func(b *billing.Book) (err error) { h, err = b.Hold(r); return err })
	return h, err
}

func (p *plain) Post(ctx context.Context, posts ...billing.Post) (out []billing.Posted, err error) {
	err = bounded("posts", len(posts))
	if err != nil {
		return nil, err
	}
	err = p.book(ctx, func(b *billing.Book) error {
		for _, post := range posts {
			out = append(out, b.Post(post))
		}
		return nil
	})
	return out, err
}

func (p *plain) Release(ctx context.Context, id billing.HoldID) (h billing.Hold, err error) {
	err = p.book(ctx, func(b *billing.Book) (err error) { h, err = b.Release(id); return err })
	return h, err
}

func (p *plain) Grant(ctx context.Context, g billing.Grant) (is billing.Grant, err error) {
	err = p.book(ctx, func(b *billing.Book) (err error) { is, err = b.Grant(g); return err })
	return is, err
}

func (p *plain) Balance(ctx context.Context, payer access.UserID) (is billing.Balance, err error) {
	err = p.book(ctx, func(b *billing.Book) error { is = b.Balance(payer); return nil })
	return is, err
}

func (p *plain) Statement(ctx context.Context, q billing.StatementQuery) (page billing.StatementPage, err error) {
	if err := paged("Limit", q.Limit); err != nil {
		return page, err
	}
	if q.After < 0 {
		return page, &access.FieldError{Field: "After"}
	}
	err = p.book(ctx, func(*billing.Book) error {
		for _, e := range p.rows.statement(q.Payer) {
			if e.N > q.After {
				page.Items = append(page.Items, copied(e))
			}
		}
		if len(page.Items) > q.Limit {
			page.Items = page.Items[:q.Limit]
			page.Next = page.Items[q.Limit-1].N
		}
		return nil
	})
	return page, err
}

func (p *plain) Payers(ctx context.Context, after access.UserID, limit int) (all []access.UserID, err error) {
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	err = p.book(ctx, func(*billing.Book) error {
		for _, payer := range slices.Sorted(maps.Keys(p.rows.accounts)) {
			if payer > after && len(all) < limit {
				all = append(all, payer)
			}
		}
		return nil
	})
	return all, err
}

func (p *plain) Marks(ctx context.Context, keys []billing.MarkKey) (all []billing.Mark, err error) {
	if err := bounded("keys", len(keys)); err != nil {
		return nil, err
	}
	err = p.book(ctx, func(*billing.Book) error {
		for _, k := range keys {
			all = append(all, p.rows.mark(k))
		}
		return nil
	})
	return all, err
}

func (p *plain) Holds(ctx context.Context, resource string) (all []billing.Hold, err error) {
	err = p.book(ctx, func(*billing.Book) error {
		all = p.rows.on(resource)
		slices.SortStableFunc(all, func(a, b billing.Hold) int { return a.OpenedAt.Compare(b.OpenedAt) })
		return nil
	})
	return all, err
}

func (p *plain) Unexported(ctx context.Context, limit int) (all []billing.Entry, err error) {
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	err = p.book(ctx, func(*billing.Book) error {
		for _, e := range p.rows.entries {
			if e.Kind == billing.EntryUsage && !p.exported[e.ID] && len(all) < limit {
				all = append(all, copied(e))
			}
		}
		return nil
	})
	return all, err
}

func (p *plain) Exported(ctx context.Context, ids []string) error {
	if err := bounded("ids", len(ids)); err != nil {
		return err
	}
	return p.book(ctx, func(*billing.Book) error {
		for _, id := range ids {
			p.exported[id] = true
		}
		return nil
	})
}

// Expire shows the book no more than the limit, for it takes back whatever it is shown.
func (p *plain) Expire(ctx context.Context, lateness time.Duration, limit int) (rep billing.ExpireReport, err error) {
	switch {
	case lateness < 0:
		return rep, &access.FieldError{Field: "lateness"}
	case limit < 1:
		return rep, &access.FieldError{Field: "limit"}
	}
	capped := false
	err = p.narrow(ctx, func(now time.Time, f *billing.Facts) {
		f.Holds = slices.DeleteFunc(f.Holds, func(h billing.Hold) bool { return h.State != billing.HoldOpen || now.Before(h.Until) })
		f.Grants = slices.DeleteFunc(f.Grants, func(g billing.Grant) bool {
			return g.Remaining == 0 || g.ExpiresAt.IsZero() || now.Before(g.ExpiresAt.Add(lateness))
		})
		capped = len(f.Holds) > limit || len(f.Grants) > limit
		f.Holds, f.Grants = f.Holds[:min(limit, len(f.Holds))], f.Grants[:min(limit, len(f.Grants))]
	}, func(b *billing.Book) error { rep = b.Expire(lateness); return nil })
	rep.Capped = capped
	return rep, err
}

func copied(e billing.Entry) billing.Entry {
	e.Postings = slices.Clone(e.Postings)
	return e
}

func bounded(field string, n int) error {
	if n > billing.MaxPosts {
		return &access.FieldError{Field: field}
	}
	return nil
}

func paged(field string, limit int) error {
	if limit < 1 {
		return &access.FieldError{Field: field}
	}
	return bounded(field, limit)
}
