package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func (s sessionStore) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(keys) > session.MaxKnown {
		return nil, &access.FieldError{Field: "keys", Rule: fmt.Sprintf("must be at most %d", session.MaxKnown)}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now, entries := db.clock(), map[sandbox.ID]int{}
	for key := range db.outbox {
		entries[key.Sandbox]++
	}
	known := make([]session.Known, 0, len(keys))
	for _, key := range keys {
		_, itself := db.outbox[key]
		_, all := db.outbox[sandbox.TombstoneKey{Sandbox: key.Sandbox, Generation: key.Generation}]
		known = append(known, session.Known{
			Now: now, Sandbox: db.sandboxes[key.Sandbox].row(), Buried: itself || all, Outbox: entries[key.Sandbox],
		})
	}
	return known, nil
}

func (s sessionStore) Names(ctx context.Context, after string) (session.NamesPage, error) {
	if err := ctx.Err(); err != nil {
		return session.NamesPage{}, err
	}
	var last sandbox.TombstoneKey
	if after != "" {
		if err := json.Unmarshal([]byte(after), &last); err != nil || last.Sandbox == "" {
			return session.NamesPage{}, &access.FieldError{Field: "after", Rule: "must be Next of an earlier page"}
		}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	names := map[sandbox.TombstoneKey]bool{}
	for _, r := range db.sandboxes {
		if r.State == sandbox.Creating || r.State == sandbox.Live || r.State == sandbox.Destroying {
			names[sandbox.TombstoneKey{Sandbox: r.ID, Generation: r.Generation, Incarnation: r.Incarnation}] = true
		}
	}
	for key := range db.outbox {
		names[key] = true
	}
	var page session.NamesPage
	for _, key := range slices.SortedFunc(maps.Keys(names), byKey) {
		switch {
		case after != "" && byKey(key, last) <= 0:
		case len(page.Items) == session.MaxNames:
			next, err := json.Marshal(page.Items[session.MaxNames-1])
			page.Next = string(next)
			return page, err
		default:
			page.Items = append(page.Items, key)
		}
	}
	return page, nil
}

func (s sessionStore) Missing(ctx context.Context, q session.MissingQuery) (n int, err error) {
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case q.Provider == "":
		return 0, &access.FieldError{Field: "Provider", Rule: "must be set"}
	case q.Limit < 1:
		return 0, &access.FieldError{Field: "Limit", Rule: "must be at least 1"}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	since := db.clock().Add(-q.Lately)
	for _, r := range db.sandboxes {
		absent := r.State == sandbox.Live && !r.AbsentSince.IsZero()
		lost := r.State == sandbox.Lost && r.Incarnation != "" && r.written.After(since)
		if r.Provider == q.Provider && (absent || lost) {
			n++
		}
	}
	return min(n, q.Limit), nil
}

func byKey(a, b sandbox.TombstoneKey) int {
	return cmp.Or(cmp.Compare(a.Sandbox, b.Sandbox), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Incarnation, b.Incarnation))
}

func (s sessionStore) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limit < 1:
		return nil, &access.FieldError{Field: "limit", Rule: "must be at least 1"}
	case one(t.Session, t.Project, t.User) != nil:
		return nil, &access.FieldError{Field: "target", Rule: "must have one of Session, Project and User set"}
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	var sessions, environments, conversations []session.Address
	for _, v := range db.sessions {
		if v.ID == t.Session || t.Project != "" && v.Project == t.Project || t.User != "" && v.Owner == t.User {
			sessions = append(sessions, session.Address{Session: v.ID})
		}
	}
	for _, e := range db.environments {
		if t.Project != "" && e.Project == t.Project {
			environments = append(environments, session.Address{Environment: e.ID})
		}
	}
	for _, v := range db.conversations {
		if t.History && (t.Session != "" && v.Session == t.Session || t.Project != "" && v.Project == t.Project || t.User != "" && v.Owner == t.User) {
			conversations = append(conversations, session.Address{Conversation: v.ID})
		}
	}
	found := slices.Concat(sessions, environments, conversations)
	if t.Session != "" { // without their session nobody would know that they were its own
		found = slices.Concat(conversations, sessions)
	}
	return found[:min(limit, len(found))], nil
}

func (s sessionStore) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	if err := ctx.Err(); err != nil {
		return session.EnvironmentPage{}, err
	}
	after, err := checkEnvironments(q)
	if err != nil {
		return session.EnvironmentPage{}, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	var found []session.Environment
	for _, e := range db.environments {
		if e.Project == q.Project && !e.Deleted() && (q.After == "" || newest(after, placeOf(e)) < 0) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b session.Environment) int { return newest(placeOf(a), placeOf(b)) })
	var page session.EnvironmentPage
	if len(found) > q.Limit {
		found = found[:q.Limit]
		page.Next = placeOf(found[q.Limit-1]).token()
	}
	for _, e := range found {
		page.Items = append(page.Items, session.EnvironmentSummary{
			Environment: e, Machine: db.sandboxes[db.owned[owner{environment: e.ID}]].State,
		})
	}
	return page, nil
}

func placeOf(e session.Environment) place { return place{e.CreatedAt, string(e.ID)} }

func checkEnvironments(q session.EnvironmentQuery) (after place, err error) {
	field := func(name, rule string) (place, error) { return place{}, &access.FieldError{Field: name, Rule: rule} }
	switch {
	case q.Project == "":
		return field("Project", "must be set")
	case q.Limit < 1 || q.Limit > session.MaxListed:
		return field("Limit", fmt.Sprintf("must be 1 to %d", session.MaxListed))
	case q.After == "":
		return place{}, nil
	}
	after, ok := parsePlace(q.After)
	if !ok {
		return field("After", "must be Next of an earlier page")
	}
	return after, nil
}

// sandboxOf is the sandbox that a session works in: its own, or its environment's.
func (db *DB) sandboxOf(s session.Session) storedRow {
	of := owner{session: s.ID}
	if s.Environment != "" {
		of = owner{environment: s.Environment}
	}
	return db.sandboxes[db.owned[of]]
}

func (s leaseStore) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	if err := checkLease(ctx, session.Lease{Kind: kind, Name: name, Holder: "anybody"}, false); err != nil {
		return session.Lease{}, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	var longest session.Lease
	for _, l := range db.leases[leaseOn{kind, name}] {
		if live(l, now) && cmp.Or(l.Until.Compare(longest.Until), cmp.Compare(l.Fence, longest.Fence)) > 0 {
			longest = l
		}
	}
	if longest.Holder == "" {
		return session.Lease{}, fmt.Errorf("%w: lease %d on %s", session.ErrNotFound, kind, name)
	}
	return longest, nil
}
