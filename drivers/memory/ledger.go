package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

type ledgerStore struct{ db *DB }

var _ billing.Ledger = ledgerStore{}

// Ledger returns the ledger of accounts.
func (db *DB) Ledger() billing.Ledger { return ledgerStore{db} }

// book lets a verb decide on the rows that load finds, and writes what it has
// changed. A verb that returns an error has changed nothing.
func (s ledgerStore) book(ctx context.Context, load func(*books, time.Time) billing.Facts, verb func(*billing.Book) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	now := s.db.clock()
	b := billing.NewBook(now)
	b.Add(load(&s.db.books, now))
	if err := verb(b); err != nil {
		return err
	}
	s.db.books.write(b.Changes())
	return nil
}

func (s ledgerStore) Hold(ctx context.Context, r billing.HoldRequest) (h billing.Hold, err error) {
	err = s.book(ctx, func(k *books, _ time.Time) billing.Facts {
		f := k.of(r.Payer)
		f.Holds = k.hold(f.Holds, r.ID)
		return f
	}, func(b *billing.Book) (err error) {
		h, err = b.Hold(r)
		return err
	})
	return h, err
}

func (s ledgerStore) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	if err := atMost("posts", len(posts)); err != nil {
		return nil, err
	}
	out := make([]billing.Posted, len(posts))
	err := s.book(ctx, func(k *books, _ time.Time) (f billing.Facts) {
		payers := map[access.UserID]bool{}
		for _, p := range posts {
			if !payers[p.Payer] {
				payers[p.Payer] = true
				own := k.of(p.Payer)
				f.Accounts, f.Grants, f.Holds = append(f.Accounts, own.Accounts...), append(f.Grants, own.Grants...), append(f.Holds, own.Holds...)
			}
			f.Holds = k.hold(f.Holds, p.Hold)
			f.Entries = k.entry(f.Entries, billing.UsageID(p.Key(), moment(p.From)))
			if m, there := k.marks[p.Key()]; there {
				f.Marks = append(f.Marks, m)
			}
		}
		return f
	}, func(b *billing.Book) error {
		for i, p := range posts {
			out[i] = b.Post(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s ledgerStore) Release(ctx context.Context, id billing.HoldID) (h billing.Hold, err error) {
	err = s.book(ctx, func(k *books, _ time.Time) billing.Facts {
		return billing.Facts{Holds: k.hold(nil, id)}
	}, func(b *billing.Book) (err error) {
		h, err = b.Release(id)
		return err
	})
	return h, err
}

func (s ledgerStore) Grant(ctx context.Context, g billing.Grant) (is billing.Grant, err error) {
	err = s.book(ctx, func(k *books, _ time.Time) billing.Facts {
		f := k.of(g.Payer)
		if was, there := k.grants[g.ID]; there {
			f.Grants = append(f.Grants, was)
		}
		f.Entries = k.entry(f.Entries, billing.GrantEntryID(g.ID))
		return f
	}, func(b *billing.Book) (err error) {
		is, err = b.Grant(g)
		return err
	})
	return is, err
}

func (s ledgerStore) Expire(ctx context.Context, lateness time.Duration, limit int) (rep billing.ExpireReport, err error) {
	switch {
	case lateness < 0:
		return rep, &access.FieldError{Field: "lateness", Rule: "must not be negative"}
	case limit < 1:
		return rep, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	}
	more := false
	err = s.book(ctx, func(k *books, now time.Time) (f billing.Facts) {
		f, more = k.due(now, lateness, limit)
		return f
	}, func(b *billing.Book) error {
		rep = b.Expire(lateness)
		return nil
	})
	rep.Capped = more
	return rep, err
}

// atMost refuses what is asked for too much of at once.
func atMost(field string, n int) error {
	if n > billing.MaxPosts {
		return &access.FieldError{Field: field, Rule: fmt.Sprintf("must be at most %d", billing.MaxPosts)}
	}
	return nil
}

// paged is atMost of the size of a page.
func paged(field string, limit int) error {
	if limit < 1 {
		return &access.FieldError{Field: field, Rule: fmt.Sprintf("must be 1 to %d", billing.MaxPosts)}
	}
	return atMost(field, limit)
}
