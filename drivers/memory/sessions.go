package memory

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// owner is what a sandbox belongs to; one of the two is set.
type owner struct {
	session     session.ID
	environment access.EnvironmentID
}

// A row and a tombstone remember which write was their latest, so that a
// reconciler meets first what nobody has looked at for longest.
type (
	storedRow struct {
		sandbox.Row
		since   int64
		written time.Time
		charged int64 // of StoredUsed
	}
	storedTombstone struct {
		sandbox.Tombstone
		since int64
	}
)

// row is a copy that shares no memory with what is stored.
func (r storedRow) row() sandbox.Row { return copied(r.Row) }

func copied(r sandbox.Row) sandbox.Row {
	r.Spec.Env = slices.Clone(r.Spec.Env)
	return r
}

type sessionStore struct{ db *DB }

var _ session.Store = sessionStore{}

func (s sessionStore) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return session.Snapshot{}, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	snap := session.Snapshot{Now: s.db.clock()}
	if a.Environment != "" {
		e, there := s.db.environments[a.Environment]
		if !there {
			return session.Snapshot{}, fmt.Errorf("%w: environment %s", session.ErrNotFound, a.Environment)
		}
		snap.Environment, snap.Sandbox = e, s.db.sandboxes[s.db.owned[owner{environment: e.ID}]].row()
		return snap, nil
	}
	if a.Conversation != "" {
		snap.Conversation = s.db.conversations[a.Conversation]
	}
	switch id := cmp.Or(a.Session, snap.Conversation.Session); {
	case id != "":
		snap.Session = s.db.sessions[id]
		snap.Environment = s.db.environments[snap.Session.Environment]
		snap.Sandbox = s.db.sandboxOf(snap.Session).row()
		if snap.Session.ID == "" {
			return session.Snapshot{}, fmt.Errorf("%w: session %s", session.ErrNotFound, id)
		}
	case snap.Conversation.ID == "":
		return session.Snapshot{}, fmt.Errorf("%w: conversation %s", session.ErrNotFound, a.Conversation)
	}
	return snap, nil
}

func (s sessionStore) Touch(ctx context.Context, a session.Address) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	if v, there := db.conversations[a.Conversation]; there {
		if now.After(v.LastActiveAt) {
			v.LastActiveAt = now
			db.conversations[v.ID] = v
		}
		a.Session = cmp.Or(a.Session, v.Session)
	}
	if v, there := db.sessions[a.Session]; there && now.After(v.LastActiveAt) {
		v.LastActiveAt = now
		db.sessions[v.ID] = v
	}
	return nil
}

func (s sessionStore) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	if err := ctx.Err(); err != nil {
		return session.Page{}, err
	}
	after, err := checkList(q)
	if err != nil {
		return session.Page{}, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	var found []session.Session
	for _, v := range s.db.candidates(q) {
		if v.Project == q.Project && (q.Owner == "" || v.Owner == q.Owner) && (q.Ended || !v.Ended()) &&
			(q.After == "" || newest(after, place{v.LastActiveAt, string(v.ID)}) < 0) {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b session.Session) int {
		return newest(place{a.LastActiveAt, string(a.ID)}, place{b.LastActiveAt, string(b.ID)})
	})
	var page session.Page
	if len(found) > q.Limit {
		found = found[:q.Limit]
		last := found[q.Limit-1]
		page.Next = place{last.LastActiveAt, string(last.ID)}.token()
	}
	for _, v := range found {
		page.Items = append(page.Items, session.Summary{
			Session:       v,
			Machine:       s.db.sandboxOf(v).State,
			Conversations: s.db.open(v.ID),
		})
	}
	return page, nil
}

func checkList(q session.ListQuery) (after place, err error) {
	field := func(name, rule string) (place, error) {
		return place{}, &access.FieldError{Field: name, Rule: rule}
	}
	switch {
	case q.Limit < 1 || q.Limit > session.MaxListed:
		return field("Limit", fmt.Sprintf("must be 1 to %d", session.MaxListed))
	case q.Project == "" && q.Owner == "":
		return field("Owner", "must be set where Project is not")
	case q.After == "":
		return place{}, nil
	}
	after, ok := parsePlace(q.After)
	if !ok {
		return field("After", "must be Next of an earlier page")
	}
	return after, nil
}

// candidates are the sessions that q may be about.
func (db *DB) candidates(q session.ListQuery) map[session.ID]session.Session {
	if q.Session == "" {
		return db.sessions
	}
	if v, there := db.sessions[q.Session]; there {
		return map[session.ID]session.Session{v.ID: v}
	}
	return nil
}

// open are the newest of a session's open conversations, newest first.
func (db *DB) open(id session.ID) []session.Conversation {
	var found []session.Conversation
	for c := range db.bound[id] {
		if v := db.conversations[c]; v.ClosedAt.IsZero() {
			found = append(found, v)
		}
	}
	slices.SortFunc(found, func(a, b session.Conversation) int {
		return newest(place{a.LastActiveAt, string(a.ID)}, place{b.LastActiveAt, string(b.ID)})
	})
	return found[:min(session.MaxListed, len(found))]
}

// Due reads the page of one kind after the other, each when its turn comes.
func (s sessionStore) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return func(yield func(session.Due, error) bool) {
		if q.Limit < 1 {
			yield(session.Due{}, &access.FieldError{Field: "Limit", Rule: "must be at least 1"})
			return
		}
		if err := ctx.Err(); err != nil {
			yield(session.Due{}, err)
			return
		}
		for _, kind := range []session.DueKind{session.DueCreating, session.DueDestroying, session.DueTombstones, session.DueLive, session.DueIdle} {
			if q.Kinds&kind == 0 {
				continue
			}
			for page := range slices.Chunk(s.dueKeys(kind, q), duePage) {
				if err := ctx.Err(); err != nil {
					yield(session.Due{Kind: kind}, err)
					return
				}
				for _, d := range s.due(kind, q, page) { // no lock is held: the caller may commit
					if !yield(d, nil) {
						return
					}
				}
			}
		}
	}
}

// duePage is how many are held at a time: each takes a kilobyte.
const duePage = 500

// dueKey is what is due: a tombstone, or a sandbox by its ID alone.
type dueKey struct {
	sandbox.TombstoneKey
	since int64
}

// dueKeys are the keys of what is of one kind, of those that wait longest.
func (s sessionStore) dueKeys(kind session.DueKind, q session.DueQuery) (keys []dueKey) {
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	if kind == session.DueTombstones {
		for key, t := range db.outbox {
			if isFor(q, t.Host) {
				keys = append(keys, dueKey{key, t.since})
			}
		}
	} else {
		for id, r := range db.sandboxes {
			if isFor(q, r.Host) && db.isDue(kind, q, r, now) {
				keys = append(keys, dueKey{sandbox.TombstoneKey{Sandbox: id}, r.since})
			}
		}
	}
	slices.SortFunc(keys, func(a, b dueKey) int { return cmp.Compare(a.since, b.since) })
	return keys[:min(len(keys), q.Limit)]
}

// due is what of keys still is due.
func (s sessionStore) due(kind session.DueKind, q session.DueQuery, keys []dueKey) []session.Due {
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.clock()
	found := make([]session.Due, 0, len(keys))
	for _, k := range keys {
		r, there := db.sandboxes[k.Sandbox]
		if kind == session.DueTombstones {
			if t, there := db.outbox[k.TombstoneKey]; there {
				found = append(found, session.Due{Kind: kind, Tombstone: t.Tombstone, Snapshot: session.Snapshot{Now: now, Sandbox: r.row()}})
			}
		} else if there && isFor(q, r.Host) && db.isDue(kind, q, r, now) {
			found = append(found, session.Due{Kind: kind, Snapshot: session.Snapshot{
				Now: now, Session: db.sessions[r.Session], Environment: db.environments[r.Environment], Sandbox: r.row(),
			}})
		}
	}
	return found
}

// isFor reports whether q asks for what is bound to host; empty is none.
func isFor(q session.DueQuery, host string) bool {
	if host == "" {
		return !q.OnlyHosts
	}
	return slices.Contains(q.Hosts, host)
}

func (db *DB) isDue(kind session.DueKind, q session.DueQuery, r storedRow, now time.Time) bool {
	switch kind {
	case session.DueCreating:
		return r.State == sandbox.Creating && (q.OnlyHosts || !now.Before(r.Deadline))
	case session.DueDestroying:
		return r.State == sandbox.Destroying
	case session.DueLive:
		return r.State == sandbox.Live && !now.Before(r.written.Add(q.Unseen))
	case session.DueIdle:
		s := db.sessions[r.Session]
		return r.State == sandbox.Live && s.ID != "" && !s.Ended() && !now.Before(s.LastActiveAt.Add(q.Idle))
	}
	return false
}
