package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
)

// machines performs the effects that decisions ask for, and feeds what comes
// of them back as the next event. Nothing is asked of a provider before the
// intent is committed, and nothing here decides.
type machines struct {
	rows       rows
	leases     Leases
	providers  map[string]sandbox.Provider
	first      string // the name of the provider that is meant where none is named
	place      func(Placing) (Placement, error)
	secret     []byte
	deployment string
	timeout    time.Duration
	newID      func() string
	log        *slog.Logger

	creating  sync.WaitGroup // creates under way; they outlive the request that caused them
	measuring sync.WaitGroup // as do looks at how much a disk holds
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
func (m *machines) terms(provider string) Terms {
	t := Terms{Window: m.window(), MaxWindow: 10 * m.window()}
	if p, ok := m.providers[provider]; ok {
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
	return nil, fmt.Errorf("%w: sandbox %s: provider %q: %w", ErrUnavailable, row.ID, row.Provider, errUnconfigured)
}

var errUnconfigured = access.NewSentinel("not configured", 503, "unavailable", "The session can't be reached right now. Try again shortly.")

// open returns a handle on the machine of the session that s shows, and the
// snapshot that names it. Where somebody else is having it made, open waits
// for that until ctx ends. The caller has the work's lease.
func (m *machines) open(ctx context.Context, s Snapshot, w wanted) (_ sandbox.Sandbox, _ Snapshot, err error) {
	var none Snapshot
	in, pause, stale, looks := intent{nonce: m.newID()}, firstPause, 0, 0
	var wait *sandbox.ProvisioningError
	if s.Sandbox.State == sandbox.Live {
		// From before the lease: an idle stop may have come between, and the
		// machine be dying. From the lease on there is none any more.
		if s, err = m.rows.store.Load(ctx, Address{Session: s.Session.ID}); err != nil {
			return nil, none, err
		}
	}
	for {
		if !w.make && s.Sandbox.State != sandbox.Live {
			return nil, none, fmt.Errorf("%w: session %s", ErrNoMachine, s.Session.ID)
		}
		sb, as, err := m.advance(ctx, s, w, &in)
		switch {
		case err == nil && sb != nil:
			return sb, as, nil
		case err == nil && looks < maxLooks: // one step further
			looks++
		case err == nil:
			return nil, none, fmt.Errorf("%w: session %s: its machine comes and goes", ErrUnavailable, s.Session.ID)
		case errors.As(err, &wait):
			if !sleep(ctx, min(pause, wait.RetryAfter+firstPause)) {
				return nil, none, fmt.Errorf("session %s: %w: %w", s.Session.ID, wait, context.Cause(ctx))
			}
			pause = min(2*pause, lastPause)
		case retry(err) && stale < maxTries:
			stale++
		default:
			return nil, none, err
		}
		id := s.Session.ID
		if s, err = m.rows.store.Load(ctx, Address{Session: id}); err != nil {
			if wait != nil && ctx.Err() != nil {
				err = fmt.Errorf("session %s: %w: %w", id, wait, err)
			}
			return nil, none, err
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

// advance decides once, commits, and performs the effect. It returns a handle,
// and the snapshot it is of, where that was the effect; a nil handle without an error means: look again.
func (m *machines) advance(ctx context.Context, s Snapshot, w wanted, in *intent) (sandbox.Sandbox, Snapshot, error) {
	want, err := m.want(s, w, in.nonce)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if in.begun.IsZero() {
		in.begun = time.Now()
	}
	out, err := m.rows.commit(ctx, s, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandEnsure{Want: want, Terms: m.terms(s.Sandbox.Provider), AcceptLoss: w.acceptLoss, MaxMachines: w.limits.Machines})
	})
	begun := in.begun
	if !errors.Is(err, ErrUnknown) {
		in.begun = time.Time{} // surely not written, or about to be performed
	}
	if err != nil {
		return nil, Snapshot{}, err
	}
	switch out.Then {
	case sandbox.EffectCreate:
		in.nonce = m.newID() // one intent, one call
		select {
		case err := <-m.create(ctx, out.Snapshot, begun):
			return nil, Snapshot{}, err
		case <-ctx.Done(): // the create goes on, and its outcome is committed
			return nil, Snapshot{}, fmt.Errorf("session %s: machine is being made: %w", s.Session.ID, context.Cause(ctx))
		}
	case sandbox.EffectAttach:
		sb, err := m.attach(ctx, out.Snapshot)
		return sb, out.Snapshot, err
	}
	return nil, Snapshot{}, m.look(ctx, out.Snapshot)
}

// placed is where the host wants a machine that is made now.
func (m *machines) placed(s Snapshot, w wanted) (Placement, error) {
	if m.place == nil {
		return Placement{}, fmt.Errorf("%w: session %s: no provider is configured", ErrUnavailable, s.Session.ID)
	}
	at, err := m.place(Placing{Session: s.Session, Environment: s.Environment, Payer: w.payer, Plan: w.plan})
	if err != nil {
		return Placement{}, fmt.Errorf("%w: session %s: placing its machine: %w", ErrUnavailable, s.Session.ID, err)
	}
	return at, nil
}

// class is the size of the machine that a work is about to get: that of the
// one there is, or of the one that would be placed now. What the work costs
// goes by it, before anything wakes. ErrNoMachine: there is none, and none is to be made.
func (m *machines) class(s Snapshot, w wanted) (billing.Class, error) {
	switch state := s.Sandbox.State; {
	case state == sandbox.Live, state == sandbox.Creating && w.make:
		return billing.Class(s.Sandbox.Spec.Class), nil
	case !w.make:
		return "", fmt.Errorf("%w: session %s", ErrNoMachine, s.Session.ID)
	}
	at, err := m.placed(s, w)
	return billing.Class(at.Spec.Class), err
}

// want is the intent to have a machine: where, and under which key.
func (m *machines) want(s Snapshot, w wanted, nonce string) (sandbox.Ensure, error) {
	want := sandbox.Ensure{Nonce: nonce, Payer: w.payer, Deployment: m.deployment}
	if s.Sandbox.State == sandbox.Live {
		return want, nil // it will be attached to; nothing is placed
	}
	at, err := m.placed(s, w)
	if err != nil {
		return want, err
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
