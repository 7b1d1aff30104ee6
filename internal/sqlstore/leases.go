package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

type leases struct{ view }

var _ session.Leases = leases{}

const (
	heldByHolder = `SELECT ` + leaseColumns + ` FROM bunkroom_leases AS l WHERE l.kind = ? AND l.name = ? AND l.holder = ? FOR UPDATE`
	heldByAny    = `SELECT ` + leaseColumns + ` FROM bunkroom_leases AS l WHERE l.kind = ? AND l.name = ? FOR UPDATE`
	hasSlot      = `SELECT 1 FROM bunkroom_leases WHERE kind = 1 AND payer = ? AND name = ? LIMIT 1`
	// A slot counts while any work lease stands, expired or not.
	countSlots = `SELECT count(*) FROM
		(SELECT DISTINCT name FROM bunkroom_leases WHERE kind = 1 AND payer = ? LIMIT ?) AS n`
	// What has no fence begins above all that were forgotten, of which there may be its own.
	nextFence = `INSERT INTO bunkroom_fences (kind, name, fence, used_on)
		VALUES (?, ?, 1 + COALESCE((SELECT f.fence FROM bunkroom_forgotten AS f WHERE f.kind = ?), 0), ?)
		ON CONFLICT (kind, name) DO UPDATE SET used_on = excluded.used_on, fence =
			CASE WHEN bunkroom_fences.fence < excluded.fence THEN excluded.fence ELSE bunkroom_fences.fence + 1 END
		RETURNING fence`
	insertLease = `INSERT INTO bunkroom_leases (kind, name, holder, replica, payer, sandbox_id, conversation, turn, fence, until_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	renewLease  = `UPDATE bunkroom_leases SET until_at = ? WHERE kind = ? AND name = ? AND holder = ? AND fence = ? AND until_at > ?`
	// What was had anew since has another fence, and stays.
	releaseLease  = `DELETE FROM bunkroom_leases WHERE kind = ? AND name = ? AND holder = ? AND fence = ?`
	expiredLeases = `SELECT ` + leaseColumns + ` FROM bunkroom_leases AS l
		WHERE l.kind = 1 AND l.until_at <= ? ORDER BY l.until_at, l.name, l.holder LIMIT ?`
	// (By the sign SQLite keeps to the name, of which there are few, and leaves the index of all that expires.)
	heldLease = `SELECT ` + leaseColumns + ` FROM bunkroom_leases AS l
		WHERE l.kind = ? AND l.name = ? AND +l.until_at > COALESCE(NOW(), ?) ORDER BY +l.until_at DESC, l.fence DESC LIMIT 1`
	heldTurn = `SELECT 1 FROM bunkroom_leases AS l WHERE l.kind = 3 AND l.name = ? AND l.fence = ? AND +l.until_at > ?`
	// The works for turns of a conversation.
	turnLeases = `SELECT ` + leaseColumns + ` FROM bunkroom_leases AS l
		WHERE l.kind = 1 AND l.turn > 0 AND l.conversation = ? AND l.turn <= ? AND (l.turn, l.name, l.holder) > (?, ?, ?)
		ORDER BY l.turn, l.name, l.holder LIMIT ?`
)

func (s leases) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	if err := checkLease(l, true); err != nil {
		return session.Lease{}, err
	}
	keys := keys{leaseKey(l.Kind, l.Name)}
	if l.Kind == session.LeaseWork {
		keys = append(keys, limitKey(session.SlotsPerPayer, string(l.Payer)))
		if l.Sandbox != "" { // whether anybody works in it may just be looked at
			keys = append(keys, worksKey(l.Sandbox))
		}
		if l.Turn > 0 { // a later turn is acquired before, and seen, or afterwards, and then sees this
			keys = append(keys, leaseKey(session.LeaseTurn, string(l.Conversation)))
		}
	}
	err := s.write(ctx, keys, func(ctx context.Context, on place, clock time.Time) (err error) {
		l, err = on.acquire(ctx, l, clock)
		return err
	})
	if err != nil {
		return session.Lease{}, err
	}
	return l, nil
}

func (p place) acquire(ctx context.Context, l session.Lease, clock time.Time) (session.Lease, error) {
	if l.Turn > 0 {
		if err := p.inTurn(ctx, l, clock); err != nil {
			return session.Lease{}, err
		}
	}
	text, args := heldByHolder, []any{int64(l.Kind), l.Name, l.Holder}
	if l.Kind != session.LeaseWork {
		text, args = heldByAny, args[:2]
	}
	held := session.Lease{For: l.For, Slots: l.Slots}
	switch err := p.row(ctx, text, args...).Scan(leaseInto(&held)...); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return session.Lease{}, err
	case held.Until.After(clock) && held.Holder == l.Holder:
		return p.renew(ctx, held, clock)
	case held.Until.After(clock):
		return session.Lease{}, &session.HeldError{Kind: l.Kind, Name: l.Name, Holder: held.Holder, Until: held.Until}
	}
	if l.Kind == session.LeaseWork {
		if err := p.slot(ctx, l); err != nil {
			return session.Lease{}, err
		}
	}
	if held.Fence != 0 { // expired: what is had anew is another lease
		if _, err := p.exec(ctx, releaseLease, int64(held.Kind), held.Name, held.Holder, held.Fence); err != nil {
			return session.Lease{}, err
		}
	}
	l.Until = lasting(clock, l.For)
	if err := p.row(ctx, nextFence, int64(l.Kind), l.Name, int64(l.Kind), dayOf(clock)).Scan(num(&l.Fence)); err != nil {
		return session.Lease{}, err
	}
	_, err := p.exec(ctx, insertLease, int64(l.Kind), l.Name, l.Holder, l.Replica, string(l.Payer), string(l.Sandbox),
		string(l.Conversation), l.Turn, l.Fence, micros(l.Until))
	return l, err
}

// inTurn refuses a work lease for a turn that nobody has.
func (p place) inTurn(ctx context.Context, l session.Lease, clock time.Time) error {
	var n int64
	err := p.row(ctx, heldTurn, string(l.Conversation), l.Turn, micros(clock)).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: turn %d of %s", session.ErrFenced, l.Turn, l.Conversation)
	}
	return err
}

// lasting is when a lease of length d ends.
func lasting(clock time.Time, d time.Duration) time.Time {
	return clock.Add(d).Truncate(time.Microsecond)
}

// slot refuses a work lease on a session that would be one too many for its payer.
func (p place) slot(ctx context.Context, l session.Lease) error {
	var n int64
	switch err := p.row(ctx, hasSlot, string(l.Payer), l.Name).Scan(&n); {
	case err == nil:
		return nil // it has a slot already
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	if err := p.row(ctx, countSlots, string(l.Payer), max(l.Slots, 0)).Scan(&n); err != nil {
		return err
	}
	if n >= int64(l.Slots) {
		return &session.LimitError{Kind: session.SlotsPerPayer, Scope: string(l.Payer), Max: l.Slots}
	}
	return nil
}

func (s leases) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	if err := checkLease(l, true); err != nil {
		return session.Lease{}, err
	}
	err := s.write(ctx, nil, func(ctx context.Context, on place, clock time.Time) (err error) {
		l, err = on.renew(ctx, l, clock)
		return err
	})
	if err != nil {
		return session.Lease{}, err
	}
	return l, nil
}

func (p place) renew(ctx context.Context, l session.Lease, clock time.Time) (session.Lease, error) {
	l.Until = lasting(clock, l.For)
	n, err := p.exec(ctx, renewLease, micros(l.Until), int64(l.Kind), l.Name, l.Holder, l.Fence, micros(clock))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s, held by %s with fence %d", session.ErrFenced, l.Name, l.Holder, l.Fence)
	}
	return l, err
}

func (s leases) Release(ctx context.Context, l session.Lease) error {
	if err := checkLease(l, false); err != nil {
		return err
	}
	return s.write(ctx, nil, func(ctx context.Context, on place, _ time.Time) error {
		_, err := on.exec(ctx, releaseLease, int64(l.Kind), l.Name, l.Holder, l.Fence)
		return err
	})
}

func (s leases) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	if limit < 1 {
		return nil, field("limit", "must be at least 1")
	}
	var found []session.Lease
	err := s.read(ctx, func(ctx context.Context, on place) error {
		now, err := on.clock(ctx)
		if err != nil {
			return err
		}
		found, err = on.leases(ctx, expiredLeases, micros(now), limit)
		return err
	})
	return found, err
}

func (s leases) Works(ctx context.Context, conversation session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	switch {
	case conversation == "":
		return nil, field("conversation", "must not be empty")
	case limit < 1:
		return nil, field("limit", "must be at least 1")
	}
	var found []session.Lease
	err := s.read(ctx, func(ctx context.Context, on place) (err error) {
		found, err = on.leases(ctx, turnLeases, string(conversation), through, after.Turn, after.Name, after.Holder, limit)
		return err
	})
	return found, err
}

// leases are those that a statement finds.
func (p place) leases(ctx context.Context, text string, args ...any) (found []session.Lease, err error) {
	rows, err := p.rows(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l session.Lease
		if err := rows.Scan(leaseInto(&l)...); err != nil {
			return nil, err
		}
		found = append(found, l)
	}
	return found, rows.Err()
}

func (s leases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	if err := checkNamed(kind, name); err != nil {
		return session.Lease{}, err
	}
	var l session.Lease
	err := s.read(ctx, func(ctx context.Context, on place) error {
		return on.row(ctx, heldLease, int64(kind), name, s.store.own()).Scan(leaseInto(&l)...)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return session.Lease{}, fmt.Errorf("%w: lease %d on %s", session.ErrNotFound, kind, name)
	case err != nil:
		return session.Lease{}, err
	}
	return l, nil
}

func checkNamed(kind session.LeaseKind, name string) error {
	switch {
	case !slices.Contains(session.Kinds(), kind):
		return field("Kind", "must be one of the kinds of leases")
	case name == "":
		return field("Name", "must not be empty")
	}
	return nil
}

func checkLease(l session.Lease, timed bool) error {
	if err := checkNamed(l.Kind, l.Name); err != nil {
		return err
	}
	switch {
	case l.Holder == "":
		return field("Holder", "must not be empty")
	case timed && l.For <= 0:
		return field("For", "must be over 0")
	case l.Turn < 0 || l.Turn > 0 && l.Kind != session.LeaseWork:
		return field("Turn", "must not be negative, and is of work leases only")
	case l.Turn > 0 && l.Conversation == "":
		return field("Conversation", "must be set where Turn is")
	}
	return nil
}
