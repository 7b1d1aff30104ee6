package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func (s sessionStore) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	if err := checkChange(c); err != nil {
		return time.Time{}, err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	tx := &commit{DB: s.db, clock: s.db.clock()}
	if err := tx.write(c); err != nil {
		for i := len(tx.undo) - 1; i >= 0; i-- {
			tx.undo[i]()
		}
		return time.Time{}, err
	}
	return tx.clock, nil
}

// checkChange refuses what no decision should ever have made.
func checkChange(c session.Change) error {
	field := func(name, rule string) error { return &access.FieldError{Field: name, Rule: rule} }
	if s := c.Session; s != nil && s.ID == "" {
		return field("Session", "must have an id")
	}
	if v := c.Conversation; v != nil && v.ID == "" {
		return field("Conversation", "must have an id")
	}
	if c.Amend != nil && c.Amend.Was.ID == "" {
		return field("Amend", "must name a conversation")
	}
	if r := c.Sandbox; r != nil && (r.ID == "" || (r.Session == "") == (r.Environment == "")) {
		return field("Sandbox", "must have an id and belong to either a session or an environment")
	}
	if e := c.Environment; e != nil && (e.ID == "" || e.Project == "") {
		return field("Environment", "must have an id and a project")
	}
	if s := c.Session; s != nil && s.Environment != "" && s.Project == "" {
		return field("Session", "must have a project where it has an environment")
	}
	for _, g := range c.Expect {
		if one(g.Session, g.Environment, g.Sandbox) != nil {
			return field("Expect", "must name one session, environment or sandbox")
		}
	}
	for _, a := range c.Delete {
		if one(a.Session, a.Environment, a.Conversation) != nil {
			return field("Delete", "must name one session, environment or conversation")
		}
	}
	for _, l := range c.Limits {
		switch l.Kind {
		case session.SessionsPerOwner, session.MachinesPerPayer, session.ConversationsPerSession:
		default:
			return field("Limits", fmt.Sprintf("must be of a kind that a commit counts, not %v", l.Kind))
		}
	}
	return nil
}

// commit is one Commit under way: it can take back all that it has written so far.
type commit struct {
	*DB
	clock time.Time
	undo  []func()
}

// put and drop write to one of the database's maps, remembering what was there.
func put[K comparable, V any](tx *commit, m map[K]V, k K, v V) {
	tx.remember(restore(m, k))
	m[k] = v
}

func drop[K comparable, V any](tx *commit, m map[K]V, k K) {
	tx.remember(restore(m, k))
	delete(m, k)
}

func restore[K comparable, V any](m map[K]V, k K) func() {
	if old, there := m[k]; there {
		return func() { m[k] = old }
	}
	return func() { delete(m, k) }
}

func (tx *commit) remember(undo func()) { tx.undo = append(tx.undo, undo) }

func (tx *commit) write(c session.Change) error {
	for _, g := range c.Expect {
		if err := tx.expect(g); err != nil {
			return err
		}
	}
	c = c.Stamped(tx.clock)
	if c.Unclaimed != "" && c.Sandbox != nil {
		for key := range tx.outbox {
			if key.Sandbox == c.Sandbox.ID && key.Incarnation == c.Unclaimed {
				return fmt.Errorf("%w: sandbox %s: %s", session.ErrClaimed, key.Sandbox, key.Incarnation)
			}
		}
	}
	if c.Environment != nil {
		if err := tx.environment(*c.Environment); err != nil {
			return err
		}
	}
	if c.Session != nil {
		if err := tx.session(*c.Session); err != nil {
			return err
		}
	}
	if c.Sandbox != nil {
		if err := tx.sandbox(*c.Sandbox); err != nil {
			return err
		}
	}
	if c.Idle != "" && tx.working(c.Idle) {
		return fmt.Errorf("%w: sandbox %s", sandbox.ErrWorking, c.Idle)
	}
	if c.Conversation != nil {
		if err := tx.conversation(*c.Conversation); err != nil {
			return err
		}
	}
	if c.Amend != nil {
		if err := tx.amend(*c.Amend); err != nil {
			return err
		}
	}
	for _, t := range c.Bury {
		tx.bury(t)
	}
	for _, t := range c.Mark {
		if err := tx.attempts(t.TombstoneKey, t.Attempts-1); err != nil {
			return err
		}
		t.Origin = tx.outbox[t.TombstoneKey].Origin
		tx.entomb(t)
	}
	for _, t := range c.Prove {
		if err := tx.attempts(t.TombstoneKey, t.Attempts); err != nil {
			return err
		}
		drop(tx, tx.outbox, t.TombstoneKey)
	}
	for _, id := range c.Waited {
		if r, there := tx.sandboxes[id]; there {
			put(tx, tx.sandboxes, id, storedRow{r.Row, tx.next(), tx.clock, r.charged})
		}
	}
	for _, a := range c.Delete {
		if err := tx.delete(a); err != nil {
			return err
		}
	}
	for _, l := range c.Limits {
		if n := tx.count(l); n > max(l.Max, 0) {
			return &session.LimitError{Kind: l.Kind, Scope: l.Scope, Max: l.Max}
		}
	}
	return nil
}

func (tx *commit) expect(g session.Guard) error {
	switch {
	case g.Session != "":
		return version("session", g.Session, tx.sessions[g.Session].Version, g.Version)
	case g.Environment != "":
		return version("environment", g.Environment, tx.environments[g.Environment].Version, g.Version)
	}
	return version("sandbox", g.Sandbox, tx.sandboxes[g.Sandbox].Version, g.Version)
}

// version compares the stored version of a row, 0 where it is not there, with the expected one.
func version[T ~string](what string, id T, stored, expected int64) error {
	if stored != expected {
		return fmt.Errorf("%w: %s %s has version %d, not %d", session.ErrStale, what, id, stored, expected)
	}
	return nil
}

func (tx *commit) session(s session.Session) error {
	stored, there := tx.sessions[s.ID]
	if s.Version == 1 {
		if there {
			return fmt.Errorf("%w: session %s", session.ErrExists, s.ID)
		}
		if e := tx.environments[s.Environment]; s.Environment != "" && e.Project != s.Project {
			return fmt.Errorf("%w: session %s: environment %s is not there, or another project's", session.ErrStale, s.ID, s.Environment)
		}
		stored = s
	} else if err := version("session", s.ID, stored.Version, s.Version-1); err != nil {
		return err
	}
	stored.Version, stored.Name, stored.EndedAt = s.Version, s.Name, moment(s.EndedAt)
	put(tx, tx.sessions, s.ID, stored)
	return nil
}

func (tx *commit) environment(e session.Environment) error {
	stored, there := tx.environments[e.ID]
	if e.Version == 1 {
		if there {
			return fmt.Errorf("%w: environment %s", session.ErrExists, e.ID)
		}
		stored = e
	} else if err := version("environment", e.ID, stored.Version, e.Version-1); err != nil {
		return err
	}
	stored.Version, stored.Name, stored.DeletedAt = e.Version, e.Name, moment(e.DeletedAt)
	put(tx, tx.environments, e.ID, stored)
	return nil
}

func (tx *commit) sandbox(r sandbox.Row) error {
	stored, there := tx.sandboxes[r.ID]
	if r.Version == 1 {
		of := owner{r.Session, r.Environment}
		_, owned := tx.owned[of]
		_, exists := tx.sessions[r.Session]
		_, stands := tx.environments[r.Environment]
		switch {
		case !exists && !stands:
			return fmt.Errorf("%w: sandbox %s: %s%s is not there", session.ErrStale, r.ID, r.Session, r.Environment)
		case owned:
			return fmt.Errorf("%w: sandbox %s: %s%s has one already", session.ErrStale, r.ID, r.Session, r.Environment)
		case there:
			return fmt.Errorf("%w: sandbox %s", session.ErrExists, r.ID)
		}
		put(tx, tx.owned, of, r.ID)
	} else {
		if err := version("sandbox", r.ID, stored.Version, r.Version-1); err != nil {
			return err
		}
		r.Session, r.Environment = stored.Session, stored.Environment
	}
	r = copied(r)
	for _, t := range []*time.Time{&r.Deadline, &r.MaxDeadline, &r.NotBefore, &r.AbsentSince, &r.LiveAt, &r.DestroyedAt, &r.MeasuredAt, &r.StoredAt} {
		*t = moment(*t)
	}
	put(tx, tx.sandboxes, r.ID, storedRow{r, tx.next(), tx.clock, stored.charged})
	return nil
}

func (tx *commit) conversation(v session.Conversation) error {
	if _, there := tx.conversations[v.ID]; there {
		return fmt.Errorf("%w: conversation %s", session.ErrExists, v.ID)
	}
	if v.Session != "" {
		switch s, there := tx.sessions[v.Session]; {
		case !there:
			return fmt.Errorf("%w: conversation %s: session %s is not there", session.ErrStale, v.ID, v.Session)
		case s.Project != v.Project:
			return &access.FieldError{Field: "Conversation", Rule: "must have the project of its session"}
		}
		if tx.bound[v.Session] == nil {
			tx.bound[v.Session] = map[session.ConversationID]bool{}
		}
		put(tx, tx.bound[v.Session], v.ID, true)
	}
	v.ClosedAt = moment(v.ClosedAt)
	put(tx, tx.conversations, v.ID, v)
	return nil
}

func (tx *commit) amend(a session.Amendment) error {
	stored, there := tx.conversations[a.Was.ID]
	if !there || stored.Shared != a.Was.Shared || stored.ClosedAt.IsZero() != a.Was.ClosedAt.IsZero() {
		return fmt.Errorf("%w: conversation %s is not there, or was changed", session.ErrStale, a.Was.ID)
	}
	now := a.Becomes()
	stored.Shared, stored.ClosedAt = now.Shared, moment(now.ClosedAt)
	put(tx, tx.conversations, stored.ID, stored)
	return nil
}

// bury inserts a tombstone; what the outbox has already stays as it is.
func (tx *commit) bury(t sandbox.Tombstone) {
	if _, there := tx.outbox[t.TombstoneKey]; !there {
		tx.entomb(t)
	}
}

func (tx *commit) entomb(t sandbox.Tombstone) {
	t.NotBefore, t.AbsentSince = moment(t.NotBefore), moment(t.AbsentSince)
	put(tx, tx.outbox, t.TombstoneKey, storedTombstone{t, tx.next()})
}

// attempts expects a tombstone to be there with so many attempts.
func (tx *commit) attempts(key sandbox.TombstoneKey, n int64) error {
	switch t, there := tx.outbox[key]; {
	case !there:
		return fmt.Errorf("%w: tombstone of sandbox %s, generation %d, %q is not there", session.ErrStale, key.Sandbox, key.Generation, key.Incarnation)
	case t.Attempts != n:
		return fmt.Errorf("%w: tombstone of sandbox %s, generation %d, %q has %d attempts, not %d",
			session.ErrStale, key.Sandbox, key.Generation, key.Incarnation, t.Attempts, n)
	}
	return nil
}

// count is how much there is of what l limits.
func (tx *commit) count(l session.Limit) (n int) {
	switch l.Kind {
	case session.SessionsPerOwner:
		for _, s := range tx.sessions {
			if string(s.Owner) == l.Scope && !s.Ended() {
				n++
			}
		}
	case session.MachinesPerPayer:
		for _, r := range tx.sandboxes {
			if string(r.Payer) == l.Scope && (r.State == sandbox.Creating || r.State == sandbox.Live || r.State == sandbox.Destroying) {
				n++
			}
		}
		for _, t := range tx.outbox {
			if string(t.Payer) == l.Scope {
				n++
			}
		}
	case session.ConversationsPerSession:
		for c := range tx.bound[session.ID(l.Scope)] {
			if tx.conversations[c].ClosedAt.IsZero() {
				n++
			}
		}
	}
	return n
}
