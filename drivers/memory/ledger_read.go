package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

func (s ledgerStore) Balance(ctx context.Context, payer access.UserID) (billing.Balance, error) {
	if err := ctx.Err(); err != nil {
		return billing.Balance{}, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	b := billing.NewBook(s.db.clock())
	b.Add(s.db.books.of(payer))
	return b.Balance(payer), nil
}

func (s ledgerStore) Statement(ctx context.Context, q billing.StatementQuery) (page billing.StatementPage, err error) {
	if err := ctx.Err(); err != nil {
		return page, err
	}
	if err := paged("Limit", q.Limit); err != nil {
		return page, err
	}
	if q.After < 0 {
		return page, &access.FieldError{Field: "After", Rule: "must not be negative"}
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	all := s.db.books.entries[q.Payer]
	rest := all[min(q.After, int64(len(all))):]
	if len(rest) > q.Limit {
		rest = rest[:q.Limit]
		page.Next = rest[q.Limit-1].N
	}
	for _, e := range rest {
		page.Items = append(page.Items, entered(e))
	}
	return page, nil
}

func (s ledgerStore) Payers(ctx context.Context, after access.UserID, limit int) ([]access.UserID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	var found []access.UserID
	for payer := range s.db.books.accounts {
		if payer > after {
			found = append(found, payer)
		}
	}
	slices.Sort(found)
	return found[:min(limit, len(found))], nil
}

func (s ledgerStore) Marks(ctx context.Context, keys []billing.MarkKey) ([]billing.Mark, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := atMost("keys", len(keys)); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	found := make([]billing.Mark, len(keys))
	for i, key := range keys {
		m, there := s.db.books.marks[key]
		if !there {
			m.MarkKey = key
		}
		found[i] = m
	}
	return found, nil
}

func (s ledgerStore) Holds(ctx context.Context, resource string) ([]billing.Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	var found []billing.Hold
	for _, id := range s.db.books.on[resource] {
		found = append(found, s.db.books.holds[id])
	}
	return found, nil
}

func (s ledgerStore) Unexported(ctx context.Context, limit int) ([]billing.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := paged("limit", limit); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	k := &s.db.books
	var found []billing.Entry
	for _, id := range k.queue {
		if len(found) == limit {
			break
		}
		if k.unexported[id] {
			found = k.entry(found, id)
		}
	}
	for i := range found {
		found[i] = entered(found[i])
	}
	return found, nil
}

func (s ledgerStore) Exported(ctx context.Context, ids []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := atMost("ids", len(ids)); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	k := &s.db.books
	for _, id := range ids {
		delete(k.unexported, id)
	}
	// What has been exported is cleared away now and then, so that it is cheap to look for what has not.
	if len(k.queue) > 2*len(k.unexported)+16 {
		k.queue = slices.DeleteFunc(k.queue, func(id string) bool { return !k.unexported[id] })
	}
	return nil
}

// entered is a copy that shares no memory with what is stored.
func entered(e billing.Entry) billing.Entry {
	e.Postings = slices.Clone(e.Postings)
	return e
}

// sorted are the ids of a set, in a fixed order.
func sorted[K ~string](set map[K]bool) []K { return slices.Sorted(maps.Keys(set)) }
