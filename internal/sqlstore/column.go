package sqlstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// The columns of each row, under the alias its table has wherever it is read,
// and where a scan puts them, in the same order. A row that an outer join did
// not find is NULL in every column and stays zero.
const (
	sessionColumns      = `s.id, s.version, s.project, s.owner, s.name, s.environment_id, s.durable_workdir, s.created_at, s.last_active_at, s.ended_at`
	environmentColumns  = `e.id, e.version, e.project, e.created_by, e.name, e.created_at, e.deleted_at`
	conversationColumns = `c.id, c.session_id, c.project, c.owner, c.agent, c.title, c.shared, c.created_at, c.last_active_at, c.closed_at`
	sandboxColumns      = `b.id, b.version, b.session_id, b.environment_id, b.provider, b.sandbox_key, b.payer, b.deployment, b.spec,
		b.state, b.generation, b.name, b.incarnation, b.host, b.nonce, b.deadline, b.max_deadline, b.not_before, b.absent_since,
		b.attempts, b.live_at, b.destroyed_at, b.measured_bytes, b.measured_at, b.measured_incarnation, b.stored_used, b.stored_at`
	tombstoneColumns = `o.sandbox_id, o.generation, o.incarnation, o.name, o.provider, o.host, o.payer, o.deployment,
		o.origin, o.not_before, o.absent_since, o.attempts, o.last_error`
	leaseColumns = `l.kind, l.name, l.holder, l.replica, l.payer, l.sandbox_id, l.conversation, l.turn, l.fence, l.until_at`
	mountColumns = `id, version, scope, slug, kind, purpose, agent, session_id, name, description, meta,
		created_by, created_at, updated_by, updated_at, archived_by, archived_at`
)

func sessionInto(s *session.Session) []any {
	return []any{str(&s.ID), num(&s.Version), str(&s.Project), str(&s.Owner), str(&s.Name), str(&s.Environment), flag{&s.DurableWorkdir},
		moment{&s.CreatedAt}, moment{&s.LastActiveAt}, moment{&s.EndedAt}}
}

func environmentInto(e *session.Environment) []any {
	return []any{str(&e.ID), num(&e.Version), str(&e.Project), str(&e.CreatedBy), str(&e.Name), moment{&e.CreatedAt}, moment{&e.DeletedAt}}
}

func conversationInto(c *session.Conversation) []any {
	return []any{str(&c.ID), str(&c.Session), str(&c.Project), str(&c.Owner), str(&c.Agent), str(&c.Title), flag{&c.Shared},
		moment{&c.CreatedAt}, moment{&c.LastActiveAt}, moment{&c.ClosedAt}}
}

func sandboxInto(r *sandbox.Row) []any {
	return []any{str(&r.ID), num(&r.Version), str(&r.Session), str(&r.Environment), str(&r.Provider), str(&r.Key), str(&r.Payer), str(&r.Deployment), spec{&r.Spec},
		state{&r.State}, num(&r.Generation), str(&r.Name), str(&r.Incarnation), str(&r.Host), str(&r.Nonce), moment{&r.Deadline}, moment{&r.MaxDeadline}, moment{&r.NotBefore}, moment{&r.AbsentSince},
		num(&r.Attempts), moment{&r.LiveAt}, moment{&r.DestroyedAt}, num(&r.MeasuredBytes), moment{&r.MeasuredAt}, str(&r.MeasuredIncarnation), num(&r.StoredUsed), moment{&r.StoredAt}}
}

func tombstoneInto(t *sandbox.Tombstone) []any {
	return []any{str(&t.Sandbox), num(&t.Generation), str(&t.Incarnation), str(&t.Name), str(&t.Provider), str(&t.Host), str(&t.Payer), str(&t.Deployment),
		str(&t.Origin), moment{&t.NotBefore}, moment{&t.AbsentSince}, num(&t.Attempts), str(&t.LastError)}
}

func leaseInto(l *session.Lease) []any {
	return []any{num(&l.Kind), str(&l.Name), str(&l.Holder), str(&l.Replica), str(&l.Payer), str(&l.Sandbox), str(&l.Conversation), num(&l.Turn), num(&l.Fence), moment{&l.Until}}
}

func mountInto(r *mount.Row) []any {
	return []any{str(&r.ID), num(&r.Version), str(&r.Scope), str(&r.Slug), num(&r.Kind), str(&r.Purpose), str(&r.Agent), str(&r.Session),
		str(&r.Name), str(&r.Description), str(&r.Meta),
		str(&r.CreatedBy), moment{&r.CreatedAt}, str(&r.UpdatedBy), moment{&r.UpdatedAt}, str(&r.ArchivedBy), moment{&r.ArchivedAt}}
}

// micros is t as it is stored: UTC, in microseconds; NULL where it is not set.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// orNull is an id as it is stored where another row's absence is NULL.
func orNull[T ~string](id T) any {
	if id == "" {
		return nil
	}
	return string(id)
}

// specJSON is a spec as it is stored.
func specJSON(s sandbox.Spec) (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

func unexpected(v any, what string) error { return fmt.Errorf("sqlstore: %T is no %s", v, what) }

// text scans a string.
type text[T ~string] struct{ to *T }

func str[T ~string](to *T) text[T] { return text[T]{to} }

func (s text[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = ""
	case string:
		*s.to = T(v)
	case []byte:
		*s.to = T(v)
	default:
		return unexpected(v, "text")
	}
	return nil
}

// number scans an integer.
type number[T ~int64 | ~uint8] struct{ to *T }

func num[T ~int64 | ~uint8](to *T) number[T] { return number[T]{to} }

func (s number[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = 0
	case int64:
		*s.to = T(v)
	default:
		return unexpected(v, "integer")
	}
	return nil
}

// flag scans a truth value.
type flag struct{ to *bool }

func (s flag) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = false
	case bool:
		*s.to = v
	case int64:
		*s.to = v != 0
	default:
		return unexpected(v, "truth value")
	}
	return nil
}

// moment scans what micros stored.
type moment struct{ to *time.Time }

func (s moment) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.to = time.Time{}
	case int64:
		*s.to = time.UnixMicro(v).UTC()
	default:
		return unexpected(v, "moment")
	}
	return nil
}

// state scans a state by its name, which outlives the order of the constants.
type state struct{ to *sandbox.State }

func (s state) Scan(v any) error {
	var name string
	if err := str(&name).Scan(v); err != nil {
		return err
	}
	if name == "" {
		*s.to = sandbox.None
		return nil
	}
	for _, known := range []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying} {
		if known.String() == name {
			*s.to = known
			return nil
		}
	}
	return fmt.Errorf("sqlstore: unknown state %q of a sandbox", name)
}

// spec scans what specJSON stored.
type spec struct{ to *sandbox.Spec }

func (s spec) Scan(v any) error {
	var text string
	if err := str(&text).Scan(v); err != nil {
		return err
	}
	*s.to = sandbox.Spec{}
	if text == "" || text == "{}" {
		return nil
	}
	return json.Unmarshal([]byte(text), s.to)
}
