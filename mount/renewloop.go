package mount

import (
	"context"
	"fmt"
	"time"
)

// lookAgain is how often the clock is looked at while nothing is to be done: a
// machine that slept, or whose clock was set, has not waited as long as it seems.
const lookAgain = time.Minute

// keep renews until ctx ends.
func (r *Renewer) keep(ctx context.Context) {
	told := r.State()
	next := told.Lease.Renew
	for {
		s := r.State()
		if s.Degraded != told.Degraded || s.Expired != told.Expired {
			r.tell(ctx, s)
			told = s
		}
		now := r.now()
		if !now.Before(next) {
			_, err := r.attempt(ctx, s.Lease.Try)
			if ctx.Err() != nil {
				return
			}
			told = r.State()
			next = told.Lease.Renew
			if err != nil {
				next = r.now().Add(told.Lease.Backoff(told.Failed))
			}
			r.tell(ctx, told)
			continue
		}
		wake := next
		for _, change := range []time.Time{s.Lease.Degraded, s.Lease.Expires} {
			if change.After(now) && change.Before(wake) {
				wake = change
			}
		}
		timer := time.NewTimer(min(wake.Sub(now), lookAgain))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell says what has changed.
func (r *Renewer) tell(ctx context.Context, s Renewal) {
	log := r.log.With("generation", s.Generation, "expires", s.Lease.Expires, "failed", s.Failed, "cause", s.Err)
	switch {
	case s.Expired:
		log.ErrorContext(ctx, "credentials of a folder have expired")
	case s.Degraded:
		log.WarnContext(ctx, "credentials of a folder are about to expire")
	case s.Err != nil:
		log.InfoContext(ctx, "credentials of a folder not renewed yet")
	}
	r.observe(s)
}

// attempt mints credentials and installs them, within limit for each of the two.
func (r *Renewer) attempt(ctx context.Context, limit time.Duration) (Credentials, error) {
	r.mu.Lock()
	r.minted++
	generation := r.minted
	r.mu.Unlock()

	issued := r.now()
	c, err := r.mint(ctx, limit)
	if err == nil {
		err = r.put(ctx, limit, generation, issued, c)
	}
	if err != nil {
		r.mu.Lock()
		r.state.Failed++
		r.state.Err = err
		r.mu.Unlock()
		return Credentials{}, err
	}
	return c, nil
}

// mint asks the signer and keeps to limit even where the signer does not. What
// comes late is dropped: it is of a generation that nobody waits for.
func (r *Renewer) mint(ctx context.Context, limit time.Duration) (Credentials, error) {
	type answer struct {
		c        Credentials
		err      error
		panicked any
	}
	bounded, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%w: no credentials after %v: %w", ErrUnavailable, limit, context.DeadlineExceeded))
	defer cancel()
	answers := make(chan answer, 1)
	r.running.Go(func() {
		var a answer
		defer func() {
			a.panicked = recover()
			answers <- a
		}()
		a.c, a.err = r.signer.Sign(bounded, r.grant)
	})
	select {
	case a := <-answers:
		if a.panicked != nil {
			return Credentials{}, fmt.Errorf("mount: signer panicked: %v", a.panicked)
		}
		switch {
		case a.err == nil:
			return a.c, r.usable(a.c)
		case bounded.Err() != nil: // the signer says that its time was up, and not whose doing that was
			return Credentials{}, context.Cause(bounded)
		}
		return Credentials{}, a.err
	case <-bounded.Done():
		return Credentials{}, context.Cause(bounded)
	}
}

// usable refuses what no signer may answer.
func (r *Renewer) usable(c Credentials) error {
	refused := func(what string) error {
		return fmt.Errorf("%w: credentials for %s %s", ErrUnavailable, r.grant.Prefix, what)
	}
	switch {
	case c.Prefix != r.grant.Prefix:
		return refused("are for " + string(c.Prefix))
	case c.Bucket == "" || c.AccessKey == "" || c.SecretKey == "":
		return refused("have no bucket or no keys")
	case c.Expires.IsZero():
		return refused("don't say when they expire")
	}
	return nil
}

// put installs credentials, and books them once they are installed.
func (r *Renewer) put(ctx context.Context, limit time.Duration, generation int64, issued time.Time, c Credentials) error {
	lease, ok := LeaseOf(issued, c.Expires, r.now())
	if !ok {
		return fmt.Errorf("%w: credentials for %s expired at %v", ErrUnavailable, r.grant.Prefix, c.Expires)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := r.install(bounded, c, lease.Reported); err != nil {
		return fmt.Errorf("mount: credentials for %s not installed: %w", r.grant.Prefix, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = Renewal{Generation: generation, Lease: lease}
	return nil
}
