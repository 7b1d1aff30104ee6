package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const (
	insertSandbox = `INSERT INTO bunkroom_sandboxes
		(provider, sandbox_key, payer, deployment, spec, state, generation, name, incarnation, host, nonce,
		deadline, max_deadline, not_before, absent_since, attempts, live_at, destroyed_at,
		measured_bytes, measured_at, measured_incarnation, stored_used, stored_at, since, id, version, session_id, environment_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	// What it belongs to is for good.
	updateSandbox = `UPDATE bunkroom_sandboxes SET
		provider = ?, sandbox_key = ?, payer = ?, deployment = ?, spec = ?, state = ?, generation = ?, name = ?, incarnation = ?, host = ?, nonce = ?,
		deadline = ?, max_deadline = ?, not_before = ?, absent_since = ?, attempts = ?, live_at = ?, destroyed_at = ?,
		measured_bytes = ?, measured_at = ?, measured_incarnation = ?, stored_used = ?, stored_at = ?, since = ?, version = ?
		WHERE id = ? AND version = ?`
	sessionSandbox     = `SELECT 1 FROM bunkroom_sandboxes WHERE session_id = ?`
	environmentSandbox = `SELECT 1 FROM bunkroom_sandboxes WHERE environment_id = ?`
)

// sandbox inserts or replaces r. What an inserted one belongs to is there.
func (w *commit) sandbox(ctx context.Context, r sandbox.Row) error {
	args, err := described(r)
	if err != nil {
		return err
	}
	args = append(args,
		micros(r.Deadline), micros(r.MaxDeadline), micros(r.NotBefore), micros(r.AbsentSince), r.Attempts, micros(r.LiveAt), micros(r.DestroyedAt),
		r.MeasuredBytes, micros(r.MeasuredAt), string(r.MeasuredIncarnation), r.StoredUsed, micros(r.StoredAt), micros(w.clock))
	if r.Version > 1 {
		n, err := w.exec(ctx, updateSandbox, append(args, r.Version, string(r.ID), r.Version-1)...)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: sandbox %s has another version than %d, or is not there", session.ErrStale, r.ID, r.Version-1)
		}
		return err
	}
	n, err := w.exec(ctx, insertSandbox, append(args, string(r.ID), r.Version, orNull(r.Session), orNull(r.Environment))...)
	if err != nil || n > 0 {
		return err
	}
	owner, text := string(r.Session), sessionSandbox
	if r.Session == "" {
		owner, text = string(r.Environment), environmentSandbox
	}
	if owned, err := w.found(ctx, text, owner); err != nil || owned {
		return orElse(err, fmt.Errorf("%w: sandbox %s: %s has one already", session.ErrStale, r.ID, owner))
	}
	return fmt.Errorf("%w: sandbox %s", session.ErrExists, r.ID)
}

// described is what a row says of its machine, without any moment.
func described(r sandbox.Row) ([]any, error) {
	spec, err := specJSON(r.Spec)
	return []any{
		r.Provider, string(r.Key), string(r.Payer), r.Deployment, spec, r.State.String(), r.Generation, r.Name, string(r.Incarnation), r.Host, r.Nonce,
	}, err
}

const (
	insertTombstone = `INSERT INTO bunkroom_outbox
		(name, provider, host, payer, deployment, not_before, absent_since, attempts, last_error, since, sandbox_id, generation, incarnation, origin)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	updateTombstone = `UPDATE bunkroom_outbox SET
		name = ?, provider = ?, host = ?, payer = ?, deployment = ?, not_before = ?, absent_since = ?, attempts = ?, last_error = ?, since = ?
		WHERE sandbox_id = ? AND generation = ? AND incarnation = ? AND attempts = ?`
	deleteTombstone = `DELETE FROM bunkroom_outbox WHERE sandbox_id = ? AND generation = ? AND incarnation = ? AND attempts = ?`
)

// outbox writes the tombstones of c.
func (w *commit) outbox(ctx context.Context, c session.Change) error {
	for _, t := range c.Bury {
		if _, err := w.exec(ctx, insertTombstone, append(w.tombstone(t), string(t.Origin))...); err != nil {
			return err
		}
	}
	for _, t := range c.Mark {
		n, err := w.exec(ctx, updateTombstone, append(w.tombstone(t), t.Attempts-1)...)
		if err := asRead(t, n, err); err != nil {
			return err
		}
	}
	for _, t := range c.Prove {
		n, err := w.exec(ctx, deleteTombstone, string(t.Sandbox), t.Generation, string(t.Incarnation), t.Attempts)
		if err := asRead(t, n, err); err != nil {
			return err
		}
	}
	return nil
}

func (w *commit) tombstone(t sandbox.Tombstone) []any {
	return []any{t.Name, t.Provider, t.Host, string(t.Payer), t.Deployment, micros(t.NotBefore), micros(t.AbsentSince), t.Attempts, plain(t.LastError),
		micros(w.clock), string(t.Sandbox), t.Generation, string(t.Incarnation)}
}

// plain is a text that others wrote, such as a provider's error, without what a database may not be able to keep.
func plain(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// asRead answers ErrStale where the statement about t wrote no row.
func asRead(t sandbox.Tombstone, n int64, err error) error {
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: tombstone of sandbox %s, generation %d, %q is not as it was read",
			session.ErrStale, t.Sandbox, t.Generation, t.Incarnation)
	}
	return err
}

// orElse is err, or other where there is none.
func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
