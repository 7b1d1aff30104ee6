package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// leaseOn is what a lease is on. Of a work lease there may be one for each holder.
type leaseOn struct {
	kind session.LeaseKind
	name string
}

type leaseStore struct{ db *DB }

var _ session.Leases = leaseStore{}

func (s leaseStore) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	if err := checkLease(ctx, l, true); err != nil {
		return session.Lease{}, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now, on := db.clock(), leaseOn{l.Kind, l.Name}
	if l.Turn > 0 && !db.inTurn(l.Conversation, l.Turn, now) {
		return session.Lease{}, fmt.Errorf("%w: turn %d of %s", session.ErrFenced, l.Turn, l.Conversation)
	}
	switch l.Kind {
	case session.LeaseWork:
		if slots := db.slots(l.Payer); !slots[l.Name] && len(slots)+1 > l.Slots {
			return session.Lease{}, &session.LimitError{Kind: session.SlotsPerPayer, Scope: string(l.Payer), Max: l.Slots}
		}
	default:
		for _, other := range db.leases[on] {
			if other.Holder != l.Holder && live(other, now) {
				return session.Lease{}, &session.HeldError{Kind: l.Kind, Name: l.Name, Holder: other.Holder, Until: other.Until}
			}
		}
	}
	if mine, ok := db.leases[on][l.Holder]; ok && live(mine, now) {
		return db.keep(mine, l, now), nil
	}
	if l.Kind != session.LeaseWork {
		delete(db.leases, on) // what is left of an earlier holder has expired
	}
	db.fence++
	fresh := l
	fresh.Fence = db.fence
	return db.keep(fresh, l, now), nil
}

func (s leaseStore) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	if err := checkLease(ctx, l, true); err != nil {
		return session.Lease{}, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	mine, ok := db.leases[leaseOn{l.Kind, l.Name}][l.Holder]
	if !ok || mine.Fence != l.Fence || !live(mine, now) {
		return session.Lease{}, fmt.Errorf("%w: %s, held by %s with fence %d", session.ErrFenced, l.Name, l.Holder, l.Fence)
	}
	return db.keep(mine, l, now), nil
}

func (s leaseStore) Release(ctx context.Context, l session.Lease) error {
	if err := checkLease(ctx, l, false); err != nil {
		return err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	on := leaseOn{l.Kind, l.Name}
	// A lease that was had anew since has another fence, and stays.
	if mine, ok := db.leases[on][l.Holder]; ok && mine.Fence == l.Fence {
		delete(db.leases[on], l.Holder)
	}
	if len(db.leases[on]) == 0 {
		delete(db.leases, on)
	}
	return nil
}

func (s leaseStore) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	var found []session.Lease
	for l := range db.allLeases() {
		if l.Kind == session.LeaseWork && !live(l, now) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b session.Lease) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Fence, b.Fence))
	})
	return found[:min(limit, len(found))], nil
}

func (s leaseStore) Works(ctx context.Context, conversation session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case conversation == "":
		return nil, &access.FieldError{Field: "conversation", Rule: "must not be empty"}
	case limit < 1:
		return nil, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	}
	order := func(a, b session.Lease) int {
		return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Holder, b.Holder))
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	var found []session.Lease
	for l := range db.allLeases() {
		if l.Kind == session.LeaseWork && l.Conversation == conversation && 0 < l.Turn && l.Turn <= through && order(l, after) > 0 {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, order)
	return found[:min(limit, len(found))], nil
}

// inTurn reports whether somebody has the turn of that fence.
func (db *DB) inTurn(conversation session.ConversationID, fence int64, now time.Time) bool {
	for _, l := range db.leases[leaseOn{session.LeaseTurn, string(conversation)}] {
		if l.Fence == fence && live(l, now) {
			return true
		}
	}
	return false
}

// Forget drops leases that have expired long ago. There is nothing else to
// forget: what was released has left nothing, and all fences come of one counter.
func (s leaseStore) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case unused <= 0:
		return 0, &access.FieldError{Field: "unused", Rule: "must be over 0"}
	case limit < 1:
		return 0, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	var found []session.Lease
	for l := range db.allLeases() {
		if l.Kind != session.LeaseWork && !db.clock().Before(l.Until.Add(unused)) {
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b session.Lease) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Fence, b.Fence))
	})
	found = found[:min(limit, len(found))]
	for _, l := range found {
		delete(db.leases, leaseOn{l.Kind, l.Name}) // it has one holder
	}
	return len(found), nil
}

// keep stores a lease until asked.For from now and returns it as asked. What
// is asked each time is not part of what is stored.
func (db *DB) keep(l, asked session.Lease, now time.Time) session.Lease {
	l.Until = moment(now.Add(asked.For))
	l.For, l.Slots = 0, 0
	on := leaseOn{l.Kind, l.Name}
	if db.leases[on] == nil {
		db.leases[on] = map[string]session.Lease{}
	}
	db.leases[on][l.Holder] = l
	l.For, l.Slots = asked.For, asked.Slots
	return l
}

// slots are the sessions that payer's work leases are on, expired or not.
func (db *DB) slots(payer access.UserID) map[string]bool {
	names := map[string]bool{}
	for l := range db.allLeases() {
		if l.Kind == session.LeaseWork && l.Payer == payer {
			names[l.Name] = true
		}
	}
	return names
}

// allLeases are the leases of all kinds and names, expired or not.
func (db *DB) allLeases() iter.Seq[session.Lease] {
	return func(yield func(session.Lease) bool) {
		for _, held := range db.leases {
			for _, l := range held {
				if !yield(l) {
					return
				}
			}
		}
	}
}

func live(l session.Lease, now time.Time) bool { return now.Before(l.Until) }

func checkLease(ctx context.Context, l session.Lease, lasting bool) error {
	field := func(name, rule string) error { return &access.FieldError{Field: name, Rule: rule} }
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !slices.Contains(session.Kinds(), l.Kind):
		return field("Kind", "must be one of Kinds")
	case l.Name == "":
		return field("Name", "must not be empty")
	case l.Holder == "":
		return field("Holder", "must not be empty")
	case lasting && l.For <= 0:
		return field("For", "must be over 0")
	case l.Turn < 0 || l.Turn > 0 && l.Kind != session.LeaseWork:
		return field("Turn", "must not be negative, and is of work leases only")
	case l.Turn > 0 && l.Conversation == "":
		return field("Conversation", "must be set where Turn is")
	}
	return nil
}
