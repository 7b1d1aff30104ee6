package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// create asks the provider for the machine that the row intends and commits
// the answer. It goes on when ctx ends: a machine that is being made must not
// be left to chance. The channel yields nil once the row says how it went, or
// the error where surely nothing was asked for.
func (m *machines) create(ctx context.Context, s Snapshot, begun time.Time) <-chan error {
	done := make(chan error, 1)
	m.creating.Add(1)
	go func() {
		defer m.creating.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.window())
		defer cancel()
		event, fault := m.ask(ctx, s, begun)
		if err := m.tell(ctx, s, event); err != nil {
			m.log.ErrorContext(ctx, "outcome of a create could not be committed; the reconciler finds it",
				"sandbox", s.Sandbox.ID, "generation", s.Sandbox.Generation, "event", fmt.Sprintf("%T", event), "error", err)
		}
		done <- fault
	}()
	return done
}

// ask calls Create, unless so much of the window has passed that its answer
// could come too late, and says what came of it.
func (m *machines) ask(ctx context.Context, s Snapshot, begun time.Time) (MachineEvent, error) {
	row := s.Sandbox
	notSent := func(err error) (MachineEvent, error) {
		return sandbox.NotSent{Nonce: row.Nonce}, fmt.Errorf("%w: %s: %w", ErrUnavailable, s.subject(), err)
	}
	p, err := m.provider(row)
	if err != nil {
		return notSent(err)
	}
	if time.Since(begun) > m.window()-m.timeout {
		return notSent(fmt.Errorf("%w: too late", sandbox.ErrNotSent))
	}
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	want := sandbox.CreateRequest{Name: row.Name, Spec: row.Spec, Labels: map[string]string{
		sandbox.LabelDeployment: row.Deployment,
		sandbox.LabelSandbox:    string(row.ID),
		sandbox.LabelGeneration: strconv.FormatInt(row.Generation, 10),
	}}
	machine, err := guarded(ctx, func(ctx context.Context) (sandbox.Machine, error) { return p.Create(ctx, want) })
	switch {
	case errors.Is(err, sandbox.ErrNotSent):
		return notSent(err)
	case err != nil: // it may exist, or come to exist: the row stays as it is until the deadline
		m.log.WarnContext(ctx, "outcome of a create is unknown", "sandbox", row.ID, "generation", row.Generation, "error", err)
		return sandbox.Unanswered{}, nil
	}
	born, _ := row.Buried()
	born.Incarnation, born.Host, born.NotBefore = machine.Ref.Incarnation, machine.Ref.Host, time.Time{}
	return sandbox.Created{As: born}, nil
}

// tell commits what was heard of the machine of s, also where its row is gone
// by now. It tries again while the store fails, until ctx ends.
func (m *machines) tell(ctx context.Context, s Snapshot, event MachineEvent) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := m.happened(ctx, s, event)
		switch {
		case err == nil, errors.Is(err, sandbox.ErrNotAllowed), errors.Is(err, ErrClaimed):
			return err
		case !sleep(ctx, pause):
			return err
		}
	}
}

// happened decides what follows from an event and commits it. s is the
// snapshot from before the event.
//
// An observation that somebody else's commit has overtaken is worth nothing:
// what was not seen before a sighting, or before a teardown began, is no part
// of a proof. It is ErrStale, and whoever made it looks again.
func (m *machines) happened(ctx context.Context, s Snapshot, event MachineEvent) (decided, error) {
	decide := func(now Snapshot) (Decision, error) {
		return Decide(now, CommandHappened{Event: event, Terms: m.terms(now.Sandbox.Provider)})
	}
	if _, observed := event.(sandbox.Observed); observed {
		return m.rows.commit(ctx, s, decide)
	}
	return m.rows.try(ctx, func(n int) (Snapshot, error) {
		if n == 0 {
			return s, nil
		}
		now, err := m.rows.store.Load(ctx, s.owner())
		if errors.Is(err, ErrNotFound) { // a deleted session or environment leaves the zero snapshot: there is no row any more
			return Snapshot{}, nil
		}
		return now, err
	}, decide)
}
