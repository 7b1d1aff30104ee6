package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// machines performs the effects that decisions ask for, and feeds what comes
// of them back as the next event. Nothing is asked of a provider before the
// intent is committed, and nothing here decides.
type machines struct {
	rows       rows
	providers  map[string]sandbox.Provider
	first      string // the name of the provider that is meant where none is named
	place      func(Placing) (Placement, error)
	secret     []byte
	deployment string
	timeout    time.Duration
	newID      func() string
	log        *slog.Logger

	creating sync.WaitGroup // creates under way; they outlive the request that caused them
}

// wanted is what a request wants of a session's machine.
type wanted struct {
	make       bool  // have one made where there is none
	acceptLoss int64 // the generation whose loss is accepted
	payer      access.UserID
	plan       access.Plan
	limits     Limits
}

// terms are those of the provider a row's machine is or was had from.
func (m *machines) terms(row sandbox.Row) Terms {
	t := Terms{Window: m.window(), MaxWindow: 10 * m.window()}
	if p, ok := m.providers[row.Provider]; ok {
		t.Caps = p.Info().Caps
	}
	return t
}

// window is how long a create may take: the call's timeout and a margin for
// the commits before and after.
func (m *machines) window() time.Duration { return m.timeout + max(m.timeout/4, time.Second) }

func (m *machines) provider(row sandbox.Row) (sandbox.Provider, error) {
	if p, ok := m.providers[row.Provider]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%w: sandbox %s: provider %q is not configured", ErrUnavailable, row.ID, row.Provider)
}

// open returns a handle on the machine of the session that s shows. Where
// somebody else is having it made, open waits for that until ctx ends.
func (m *machines) open(ctx context.Context, s Snapshot, w wanted) (sandbox.Sandbox, error) {
	in, pause, stale, looks := intent{nonce: m.newID()}, firstPause, 0, 0
	var wait *sandbox.ProvisioningError
	for {
		if !w.make && s.Sandbox.State != sandbox.Live {
			return nil, fmt.Errorf("%w: session %s", ErrNoMachine, s.Session.ID)
		}
		sb, err := m.advance(ctx, s, w, &in)
		switch {
		case err == nil && sb != nil:
			return sb, nil
		case err == nil && looks < maxLooks: // one step further
			looks++
		case err == nil:
			return nil, fmt.Errorf("%w: session %s: its machine comes and goes", ErrUnavailable, s.Session.ID)
		case errors.As(err, &wait):
			if !sleep(ctx, min(pause, wait.RetryAfter+firstPause)) {
				return nil, fmt.Errorf("session %s: %w: %w", s.Session.ID, wait, context.Cause(ctx))
			}
			pause = min(2*pause, lastPause)
		case retry(err) && stale < maxTries:
			stale++
		default:
			return nil, err
		}
		id := s.Session.ID
		if s, err = m.rows.store.Load(ctx, Address{Session: id}); err != nil {
			if wait != nil && ctx.Err() != nil {
				err = fmt.Errorf("session %s: %w: %w", id, wait, err)
			}
			return nil, err
		}
	}
}

// intent is what this request would like to have made.
type intent struct {
	nonce string
	// begun is when, on the local monotonic clock, the first commit began that
	// may have written the intent: its deadline can't be earlier than that plus the window.
	begun time.Time
}

// maxLooks is how many steps one request takes a machine through at most:
// more than any path through the table has.
const maxLooks = 12

// How long to wait between two looks at a row that somebody else is working on.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// sleep waits, and reports whether it was not interrupted.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// advance decides once, commits, and performs the effect. It returns a handle
// where that was the effect; a nil handle without an error means: look again.
func (m *machines) advance(ctx context.Context, s Snapshot, w wanted, in *intent) (sandbox.Sandbox, error) {
	want, err := m.want(s, w, in.nonce)
	if err != nil {
		return nil, err
	}
	if in.begun.IsZero() {
		in.begun = time.Now()
	}
	out, err := m.rows.commit(ctx, s, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandEnsure{Want: want, Terms: m.terms(s.Sandbox), AcceptLoss: w.acceptLoss, MaxMachines: w.limits.Machines})
	})
	begun := in.begun
	if !errors.Is(err, ErrUnknown) {
		in.begun = time.Time{} // surely not written, or about to be performed
	}
	if err != nil {
		return nil, err
	}
	switch out.Then {
	case sandbox.EffectCreate:
		in.nonce = m.newID() // one intent, one call
		select {
		case err := <-m.create(ctx, out.Snapshot, begun):
			return nil, err
		case <-ctx.Done(): // the create goes on, and its outcome is committed
			return nil, fmt.Errorf("session %s: machine is being made: %w", s.Session.ID, context.Cause(ctx))
		}
	case sandbox.EffectAttach:
		return m.attach(ctx, out.Snapshot)
	}
	return nil, m.look(ctx, out.Snapshot)
}

// want is the intent to have a machine: where, and under which key.
func (m *machines) want(s Snapshot, w wanted, nonce string) (sandbox.Ensure, error) {
	want := sandbox.Ensure{Nonce: nonce, Payer: w.payer, Deployment: m.deployment}
	if s.Sandbox.State == sandbox.Live {
		return want, nil // it will be attached to; nothing is placed
	}
	if m.place == nil {
		return want, fmt.Errorf("%w: session %s: no provider is configured", ErrUnavailable, s.Session.ID)
	}
	at, err := m.place(Placing{Session: s.Session, Payer: w.payer, Plan: w.plan})
	if err != nil {
		return want, fmt.Errorf("%w: session %s: placing its machine: %w", ErrUnavailable, s.Session.ID, err)
	}
	p, ok := m.providers[cmp.Or(at.Provider, m.first)]
	if !ok {
		return want, &access.FieldError{Field: "Placement.Provider", Rule: "must be the name of a configured provider"}
	}
	info := p.Info()
	want.Provider, want.Host, want.Caps, want.Spec = info.Provider, info.Host, info.Caps, at.Spec
	if s.Sandbox.Key == "" {
		if want.Key, err = sandbox.DeriveKey(m.secret, w.payer, s.Sandbox.ID); err != nil {
			return want, err
		}
	}
	return want, nil
}

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
		event, fault := m.ask(ctx, s.Sandbox, begun)
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
func (m *machines) ask(ctx context.Context, row sandbox.Row, begun time.Time) (MachineEvent, error) {
	notSent := func(err error) (MachineEvent, error) {
		return sandbox.NotSent{Nonce: row.Nonce}, fmt.Errorf("%w: session %s: %w", ErrUnavailable, row.Session, err)
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
	machine, err := p.Create(ctx, sandbox.CreateRequest{Name: row.Name, Spec: row.Spec, Labels: map[string]string{
		sandbox.LabelDeployment: row.Deployment,
		sandbox.LabelSandbox:    string(row.ID),
		sandbox.LabelGeneration: strconv.FormatInt(row.Generation, 10),
	}})
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
		return Decide(now, CommandHappened{Event: event, Terms: m.terms(now.Sandbox)})
	}
	if _, observed := event.(sandbox.Observed); observed {
		return m.rows.commit(ctx, s, decide)
	}
	return m.rows.try(ctx, func(n int) (Snapshot, error) {
		if n == 0 {
			return s, nil
		}
		now, err := m.rows.store.Load(ctx, Address{Session: s.Session.ID})
		if errors.Is(err, ErrNotFound) { // a deleted session leaves the zero snapshot: there is no row any more
			return Snapshot{}, nil
		}
		return now, err
	}, decide)
}

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
