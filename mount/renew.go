package mount

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// RenewerConfig is the configuration of a [Renewer].
type RenewerConfig struct {
	Signer Signer // required
	Grant  Grant  // its Prefix is required
	// Install puts credentials where what serves the folder finds them, in
	// place of those before: a file, a variable, a file in a sandbox. It is
	// never called twice at once, nor after Stop has returned nil. report is
	// the expiry to tell whoever uses them; c.Expires, which is later, is when
	// the storage refuses them. After an error those before are taken to be
	// there still. Required.
	Install func(ctx context.Context, c Credentials, report time.Time) error
	// Observe is told each time [Renewer.State] changes, one call at a time; nil = nobody is.
	Observe func(Renewal)
	Log     *slog.Logger     // credentials that could not be renewed; nil = none
	Now     func() time.Time // nil = time.Now
}

// Renewal is how it stands with the credentials of one folder. It holds no secret.
type Renewal struct {
	// Generation counts the credentials that have been minted; that of the
	// installed ones. 0: none have been installed.
	Generation int64
	// Lease is the installed ones'.
	Lease Lease
	// Failed is how many attempts in a row have failed since they were
	// installed, and Err why the last one did.
	Failed int
	Err    error
	// Degraded: they should have been replaced by now, and soon expire.
	// Expired: they have.
	Degraded, Expired bool
}

// Renewer keeps credentials for one folder installed, and replaces them before
// they expire. It goes by what has been installed, never by what was only
// minted. Methods may be called concurrently.
type Renewer struct {
	signer  Signer
	grant   Grant
	install func(context.Context, Credentials, time.Time) error
	observe func(Renewal)
	log     *slog.Logger
	now     func() time.Time

	running sync.WaitGroup
	stop    context.CancelFunc // not nil once started
	quiet   chan struct{}      // closed once running is over; made by the first Stop

	mu      sync.Mutex
	started bool
	stopped bool
	minted  int64 // the generations given out so far
	state   Renewal
}

// NewRenewer returns a renewer that has not begun. The error is a
// [*access.FieldError]; whether the grant itself can be had, the signer says.
func NewRenewer(c RenewerConfig) (*Renewer, error) {
	switch {
	case c.Signer == nil:
		return nil, &access.FieldError{Field: "Signer", Rule: "must be set"}
	case c.Grant.Prefix == "":
		return nil, &access.FieldError{Field: "Grant.Prefix", Rule: "must not be empty"}
	case c.Install == nil:
		return nil, &access.FieldError{Field: "Install", Rule: "must be set"}
	}
	if c.Observe == nil {
		c.Observe = func(Renewal) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Renewer{
		signer: c.Signer, grant: c.Grant, install: c.Install, observe: c.Observe,
		log: c.Log.With("prefix", string(c.Grant.Prefix), "run", c.Grant.Run), now: c.Now,
	}, nil
}

// Start mints and installs the first credentials, within 10 s for each of the
// two, and goes on renewing them until Stop, whether or not ctx ends. It is
// called once. The credentials say where the storage is. After an error, which
// is the signer's, Install's or ctx's, nothing runs.
func (r *Renewer) Start(ctx context.Context) (Credentials, error) {
	r.mu.Lock()
	if r.started || r.stopped {
		r.mu.Unlock()
		return Credentials{}, errors.New("mount: renewer started twice")
	}
	r.started = true
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	r.running.Add(1) // before anybody can wait for it
	r.mu.Unlock()

	first, unlink := context.WithCancel(ctx)
	defer unlink()
	defer context.AfterFunc(run, unlink)()
	c, err := r.attempt(first, maxTry)
	if err != nil {
		stop()
		r.running.Done()
		return Credentials{}, err
	}
	r.tell(ctx, r.State())
	go func() {
		defer r.running.Done()
		r.keep(run)
	}()
	return c, nil
}

// Stop ends the renewing and waits, until ctx ends, for what is under way. nil:
// nothing of it runs any more, and nothing will be installed. An error: a
// signer or Install ignores its context; call it again. Stopping twice succeeds.
func (r *Renewer) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopped = true
	if r.stop != nil {
		r.stop()
	}
	if r.quiet == nil {
		r.quiet = make(chan struct{})
		go func(quiet chan struct{}) {
			defer close(quiet)
			r.running.Wait()
		}(r.quiet)
	}
	quiet := r.quiet
	r.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("mount: credentials of %s are still being renewed: %w", r.grant.Prefix, ctx.Err())
	}
}

// Expires is when the storage refuses the installed credentials; zero where none are.
func (r *Renewer) Expires() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Lease.Expires
}

// State says how it stands now.
func (r *Renewer) State() Renewal {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.state
	if s.Generation > 0 {
		s.Degraded = !now.Before(s.Lease.Degraded)
		s.Expired = !now.Before(s.Lease.Expires)
	}
	return s
}
