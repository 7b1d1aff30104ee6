package mount

import (
	"context"
	"fmt"
	"time"
)

// ready waits until the folder is up and lists.
func (f *hosted) ready(ctx context.Context) error {
	// One that has died is not waited for as long as its pauses may take.
	limit := f.host.limits.start + f.host.limits.probe
	waiting, cancel := context.WithTimeoutCause(ctx, limit, ErrUnavailable)
	defer cancel()
	for {
		f.host.mu.Lock()
		state, err, changed := f.state, f.err, f.changed
		closed := f.host.closed
		f.host.mu.Unlock()
		switch {
		case closed:
			return errHostClosed
		case state == stuck, state == gone:
			return err
		case state == up:
			live, why := f.probe(waiting)
			switch {
			case live == Alive:
				return nil
			case waiting.Err() != nil: // said below
			case live == Unresponsive || !hopeless(why) && !f.expired():
				return fmt.Errorf("%w: %s: %w", ErrUnavailable, live, why)
			}
			err = why
			f.poke()
		case state == down:
			f.poke()
		}
		select {
		case <-changed:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				err = errNoAnswer
			}
			return fmt.Errorf("%w: not there after %v: %w", ErrUnavailable, limit, err)
		}
	}
}

// hostedMount is one reference to a folder.
type hostedMount struct {
	f        *hosted
	released bool // guarded by the host's mu
}

var (
	_ Refresher = (*hostedMount)(nil)
	_ Reporter  = (*hostedMount)(nil)
	_ Fencer    = (*hostedMount)(nil)
)

// HostDir is constant, also where the folder died and is served again.
func (m *hostedMount) HostDir() string { return m.f.dir }

// Release takes the folder down where this was the last reference, and
// returns once nothing of it is left. Where ctx ends first, the taking down
// goes on, and the next Release says what came of it.
func (m *hostedMount) Release(ctx context.Context) error {
	h := m.f.host
	h.mu.Lock()
	if m.released || m.f.state == gone {
		m.released = true
		h.mu.Unlock()
		return nil
	}
	if m.f.refs > 1 {
		m.f.refs--
		m.released = true
		h.mu.Unlock()
		return nil
	}
	s := m.f.askStop(ctx)
	h.mu.Unlock()
	return s.wait(ctx)
}

// Refresh passes the wish on to what serves the folder. What caches nothing is fresh.
func (m *hostedMount) Refresh(ctx context.Context) error {
	if r, ok := m.f.current().(Refresher); ok {
		return r.Refresh(ctx)
	}
	return nil
}

// Fenced passes the question on to what serves the folder.
func (m *hostedMount) Fenced() bool { return fenced(m.f.current()) }

// Health says how the folder is.
func (m *hostedMount) Health(ctx context.Context) Health { return m.f.health(ctx) }

func (f *hosted) health(ctx context.Context) Health {
	live, why := f.probe(ctx)
	f.host.mu.Lock()
	serving := f.serving
	h := Health{Liveness: live, Restarts: f.restarts, Err: f.err}
	f.host.mu.Unlock()
	if live != Alive && h.Err == nil {
		h.Err = why
	}
	if serving != nil {
		h.Expires = serving.Expires()
	}
	return h
}

// Health is how a folder on this host is.
type Health struct {
	Liveness Liveness
	// Expires is when the storage will refuse the credentials in use. Zero:
	// they don't expire, or nothing serves the folder just now.
	Expires time.Time
	// Restarts is how many times it was to be served again since it first appeared.
	Restarts int
	// Err is why it is not Alive, or was not when last something was wrong with it; nil where nothing is.
	Err error
}

// Reporter is a [Mount] that can say how its folder is.
type Reporter interface {
	// Health looks, which takes some seconds at most, and less where ctx ends.
	Health(ctx context.Context) Health
}

func (f *hosted) expired() bool {
	s := f.current()
	return s != nil && expired(s)
}
