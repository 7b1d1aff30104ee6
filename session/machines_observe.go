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
	sb, err := guardedElse(call, func(ctx context.Context) (sandbox.Sandbox, error) { return p.Attach(ctx, s.Sandbox.Ref()) },
		func(late sandbox.Sandbox) { late.Close() })
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
		return nil, m.elsewhere(ctx, s)
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, s.subject(), err)
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
	if out.Report != nil && (!out.committed || m.terms(out.Sandbox.Provider).Caps.Lag() > 0) {
		return reported(s, out.Report)
	}
	return nil
}

// reported is what the caller is told of the machine of s: where that can't be reached, neither can the session.
func reported(s Snapshot, err error) error {
	if errors.Is(err, sandbox.ErrUnavailable) {
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, s.subject(), err)
	}
	return fmt.Errorf("%s: %w", s.subject(), err)
}

// observe asks and commits, and performs nothing.
func (m *machines) observe(ctx context.Context, s Snapshot) (decided, error) {
	seen, err := m.sees(ctx, s)
	if err != nil {
		return decided{}, err
	}
	return m.learn(ctx, s, seen)
}

// sees asks the provider which machines of s it sees, and writes nothing.
func (m *machines) sees(ctx context.Context, s Snapshot) (sandbox.Observed, error) {
	p, err := m.provider(s.Sandbox)
	if err != nil {
		return sandbox.Observed{}, err
	}
	found, err := m.inspect(ctx, p, s.Sandbox.Ref())
	if errors.Is(err, sandbox.ErrWrongHost) {
		return sandbox.Observed{}, m.elsewhere(ctx, s)
	}
	if err != nil {
		return sandbox.Observed{}, fmt.Errorf("%w: %s: %w", ErrUnavailable, s.subject(), err)
	}
	return sandbox.Observed{
		Generation: s.Sandbox.Generation, Incarnation: s.Sandbox.Incarnation, Host: p.Info().Host, Found: found,
	}, nil
}

// learn commits what follows from what was seen of s, and performs nothing.
func (m *machines) learn(ctx context.Context, s Snapshot, seen sandbox.Observed) (decided, error) {
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

// destroy asks the provider to destroy machines, until one call is not answered
// in time. A failure is logged, and need not be acted upon: what counts is what
// Inspect sees afterwards.
func (m *machines) destroy(ctx context.Context, row sandbox.Row, doomed []sandbox.Incarnation) (fault error) {
	p, unknown := m.provider(row)
	for _, i := range doomed {
		err := unknown
		if err == nil {
			ref := row.Ref()
			ref.Incarnation = i
			err = m.kill(ctx, p, ref)
		}
		if err != nil {
			m.log.WarnContext(ctx, "destroy failed", "sandbox", row.ID, "incarnation", i, "error", err)
			fault = errors.Join(fault, err)
		}
		if timedOut(err) {
			break
		}
	}
	return fault
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
	caps := m.terms(s.Sandbox.Provider).Caps
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
		if s, err = m.rows.store.Load(ctx, s.owner()); err != nil {
			return false, true, err
		}
		if s.Sandbox.State != sandbox.Destroying || s.Sandbox.Generation != generation {
			// Proven by somebody else, or in the outbox by now.
			return false, s.Sandbox.Generation != generation, nil
		}
	}
	return false, true, nil
}

// elsewhere is the error of a machine that lives on another host: with the
// replica that serves it, where one has said so lately.
func (m *machines) elsewhere(ctx context.Context, s Snapshot) error {
	there := &ElsewhereError{Session: s.Session.ID, Host: s.Sandbox.Host}
	if l, err := m.leases.Held(ctx, LeaseHost, s.Sandbox.Host); err == nil {
		there.Replica = l.Holder
	} else if !errors.Is(err, ErrNotFound) {
		m.log.WarnContext(ctx, "who serves a host could not be found out", "host", s.Sandbox.Host, "error", err)
	}
	return there
}
