package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// attach returns a handle on the live machine of s, or feeds back what was
// learnt instead; then a nil handle without an error means: look again.
func (m *machines) attach(ctx context.Context, s Snapshot) (sandbox.Sandbox, error) {
	p, err := m.provider(s.Sandbox)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	sb, err := p.Attach(call, s.Sandbox.Ref())
	switch {
	case err == nil:
		if !s.Sandbox.AbsentSince.IsZero() { // a sighting undoes a sign of absence
			if _, err := m.happened(ctx, s, sandbox.Attached{}); err != nil {
				m.log.WarnContext(ctx, "sighting could not be committed", "sandbox", s.Sandbox.ID, "error", err)
			}
		}
		return sb, nil
	case errors.Is(err, sandbox.ErrGone), errors.Is(err, sandbox.ErrStale):
		return nil, m.look(ctx, s)
	case errors.Is(err, sandbox.ErrWrongHost):
		return nil, &ElsewhereError{Session: s.Session.ID, Host: s.Sandbox.Host}
	}
	return nil, fmt.Errorf("%w: session %s: %w", ErrUnavailable, s.Session.ID, err)
}

// look asks the provider which machines of s it sees and commits what follows
// from the answer. A nil error means: something has changed, look again.
func (m *machines) look(ctx context.Context, s Snapshot) error {
	out, err := m.observe(ctx, s)
	if err != nil {
		return err
	}
	if out.Then == sandbox.EffectDestroy {
		m.destroy(ctx, out.Sandbox, out.Kill)
	}
	if out.Report != nil && (!out.committed || m.terms(out.Sandbox).Caps.Lag() > 0) {
		return reported(s, out.Report)
	}
	return nil
}

// reported is what the caller is told of the machine of s: where that can't be reached, neither can the session.
func reported(s Snapshot, err error) error {
	if errors.Is(err, sandbox.ErrUnavailable) {
		return fmt.Errorf("%w: session %s: %w", ErrUnavailable, s.Session.ID, err)
	}
	return fmt.Errorf("session %s: %w", s.Session.ID, err)
}

// observe asks and commits, and performs nothing.
func (m *machines) observe(ctx context.Context, s Snapshot) (decided, error) {
	p, err := m.provider(s.Sandbox)
	if err != nil {
		return decided{}, err
	}
	call, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	found, err := p.Inspect(call, s.Sandbox.Ref())
	if errors.Is(err, sandbox.ErrWrongHost) {
		return decided{}, &ElsewhereError{Session: s.Session.ID, Host: s.Sandbox.Host}
	}
	if err != nil {
		return decided{}, fmt.Errorf("%w: session %s: %w", ErrUnavailable, s.Session.ID, err)
	}
	seen := sandbox.Observed{
		Generation: s.Sandbox.Generation, Incarnation: s.Sandbox.Incarnation, Host: p.Info().Host, Found: found,
	}
	out, err := m.happened(ctx, s, seen)
	if errors.Is(err, ErrClaimed) { // the one found is on its way out: as good as not seen
		seen.Found = nil
		out, err = m.happened(ctx, s, seen)
	}
	if err != nil {
		err = reported(s, err)
	}
	return out, err
}

// destroy asks the provider to destroy machines. A failure is no more than
// logged: what counts is what Inspect sees afterwards.
func (m *machines) destroy(ctx context.Context, row sandbox.Row, doomed []sandbox.Incarnation) {
	p, err := m.provider(row)
	for _, i := range doomed {
		if err == nil {
			ref := row.Ref()
			ref.Incarnation = i
			call, cancel := context.WithTimeout(ctx, m.timeout)
			err = p.Destroy(call, ref)
			cancel()
		}
		if err != nil {
			m.log.WarnContext(ctx, "destroy failed", "sandbox", row.ID, "incarnation", i, "error", err)
		}
	}
}

// provable is the longest that a proof of absence is waited for at once.
const provable = time.Second

// prove carries a teardown on, from its effect to the proof where that can be
// had within [provable]. It reports whether it has proven the machine gone,
// and whether that is still to be done.
func (m *machines) prove(ctx context.Context, s Snapshot, then sandbox.Effect, doomed []sandbox.Incarnation) (proven, pending bool, err error) {
	if then == sandbox.EffectDestroy {
		m.destroy(ctx, s.Sandbox, doomed)
	}
	caps := m.terms(s.Sandbox).Caps
	if caps.Horizon()+caps.Lag() > provable {
		return false, true, nil
	}
	generation := s.Sandbox.Generation
	for range maxTries {
		out, err := m.observe(ctx, s)
		switch {
		case retry(err): // somebody else has changed it meanwhile
		case err != nil:
			return false, true, err
		case out.Sandbox.State == sandbox.None && out.Sandbox.Generation == generation:
			return true, false, nil
		case out.Then == sandbox.EffectDestroy:
			m.destroy(ctx, out.Sandbox, out.Kill)
		}
		if caps.Lag() > 0 && !sleep(ctx, caps.Lag()) {
			return false, true, context.Cause(ctx)
		}
		if s, err = m.rows.store.Load(ctx, Address{Session: s.Session.ID}); err != nil {
			return false, true, err
		}
		if s.Sandbox.State != sandbox.Destroying || s.Sandbox.Generation != generation {
			// Proven by somebody else, or in the outbox by now.
			return false, s.Sandbox.Generation != generation, nil
		}
	}
	return false, true, nil
}
