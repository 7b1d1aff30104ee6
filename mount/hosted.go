package mount

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hosted is one folder that a host has. Its keeper, a goroutine, starts it,
// serves it again when it has died, and takes it down; nothing else does.
type hosted struct {
	host *Host
	key  folderKey
	spec Spec // of the first reference
	dir  string
	look prober

	// Guarded by host.mu.
	state    hostedState
	changed  chan struct{} // closed at each change of state
	refs     int
	err      error     // the latest failure
	serving  Serving   // what serves, or may do so still; nil = nothing
	stopping *stop     // what has been asked of the keeper; nil = nothing
	since    time.Time // when it last came up
	died     []time.Time
	restarts int // ever
	wake     chan struct{}

	// The keeper's own.
	serves chan served // a call of Serve that has not returned; nil = none
	stops  chan error  // a call of Stop that has not returned; nil = none
	minor  string      // of its FUSE connection; empty = it has none
}

// hostedState is how far a folder is.
type hostedState uint8

const (
	starting hostedState = iota
	up
	down     // it has died, and will be served again
	stopping // no new references
	stuck    // its start or its stop has failed and left something: the next caller goes on with that, or it is tried again
	gone
)

func (s hostedState) String() string {
	return [...]string{"starting", "up", "down", "stopping", "stuck", "gone"}[s]
}

// stop is a wish that a folder be taken down. Whoever wishes it meanwhile shares it.
type stop struct {
	asked chan struct{} // closed when it is asked for
	done  chan struct{}
	err   error // good once done
}

func newStop() *stop { return &stop{asked: make(chan struct{}), done: make(chan struct{})} }

func (s *stop) wait(ctx context.Context) error {
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newHosted(h *Host, s Spec) *hosted {
	k := folderKey{s.Row.Scope, s.Row.ID}
	return &hosted{
		host: h, key: k, spec: s, dir: h.work.path(k.digits()),
		changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
}

// set changes the state; the caller holds host.mu.
func (f *hosted) set(s hostedState, err error) {
	f.state, f.err = s, err
	close(f.changed)
	f.changed = make(chan struct{})
}

// note is set for who does not hold host.mu.
func (f *hosted) note(s hostedState, err error) {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	if f.state == stopping { // and stays so until the keeper has seen to it
		s = stopping
	}
	if s == up && f.state != up {
		f.since = time.Now()
	}
	f.set(s, err)
}

// begin starts the keeper. The caller holds host.mu.
func (f *hosted) begin(ctx context.Context) {
	f.stopping = newStop()
	f.set(starting, nil)
	go f.keep(context.WithoutCancel(ctx), f.stopping)
}

// askStop asks the keeper to take the folder down. The caller holds host.mu.
func (f *hosted) askStop(ctx context.Context) *stop {
	if f.state == stuck {
		f.begin(ctx)
	}
	if f.state != stopping && f.state != gone {
		f.set(stopping, f.err)
		close(f.stopping.asked)
	}
	return f.stopping
}

// keep has the folder served until it is to be taken down.
func (f *hosted) keep(ctx context.Context, s *stop) {
	for first := true; s != nil; first = false {
		err := f.run(ctx, s.asked, first)
		s = f.settle(ctx, s, err, f.takeDown(ctx))
	}
}

// settle says what came of taking the folder down. It returns what may be
// asked next, nil where the keeper is done.
func (f *hosted) settle(ctx context.Context, s *stop, started, kept error) *stop {
	h := f.host
	h.mu.Lock()
	defer h.mu.Unlock()
	defer close(s.done)
	if kept == nil {
		delete(h.folders, f.key)
		f.set(gone, started)
		return nil
	}
	s.err = fmt.Errorf("mount %s: %s stays as it is: %w", f.key.id, f.dir, kept)
	h.log.ErrorContext(ctx, "mount not taken down", "mount", f.key.id, "dir", f.dir, "cause", kept)
	if started != nil || f.refs == 0 || h.closed {
		f.set(stuck, errors.Join(started, s.err))
		if !h.closed {
			time.AfterFunc(h.limits.maxDelay, func() { f.tryAgain(ctx) })
		}
		return nil
	}
	f.stopping = newStop()
	f.set(down, s.err)
	return f.stopping
}

// tryAgain takes down what could not be, where nobody has come for it since:
// no reference is left that anybody could release.
func (f *hosted) tryAgain(ctx context.Context) {
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	if f.state == stuck && !f.host.closed {
		f.askStop(ctx)
	}
}

// run serves the folder until asked is closed, whatever happens. The error
// says why it could not be started at first.
func (f *hosted) run(ctx context.Context, asked <-chan struct{}, first bool) error {
	ctx, cancel := until(ctx, asked)
	defer cancel()
	if first {
		if err := f.start(ctx); err != nil {
			return err
		}
		f.note(up, nil)
	} else {
		f.poke() // what could not be stopped may be as good as before
	}
	for fails := 0; ctx.Err() == nil; {
		if !f.settled(ctx) {
			break
		}
		if time.Since(f.since) > f.host.limits.maxDelay {
			fails = 0
		}
		f.again(ctx, &fails)
	}
	return nil
}

// settled waits while the folder is fine. It is false where ctx has ended,
// and true where the folder has died.
func (f *hosted) settled(ctx context.Context) bool {
	for {
		serving := f.current()
		if serving == nil {
			f.note(down, f.failure())
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-serving.Done():
			f.dead(ctx, serving.Err())
			return true
		case <-f.wake:
			live, err := f.probe(ctx)
			if live == Dead && ctx.Err() == nil && (hopeless(err) || expired(serving)) {
				f.dead(ctx, err)
				return true
			}
			f.note(up, nil)
		}
	}
}

// poke has the keeper look whether the folder is dead, though its Serving says nothing.
func (f *hosted) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// expired reports whether the storage refuses the credentials of s by now.
func expired(s Serving) bool {
	at := s.Expires()
	return !at.IsZero() && time.Now().After(at)
}

func (f *hosted) dead(ctx context.Context, why error) {
	if why == nil {
		why = errors.New("mount: it ended by itself")
	}
	f.host.log.WarnContext(ctx, "mount degraded", "kind", "died", "mount", f.key.id, "dir", f.dir, "cause", why)
	f.note(down, fmt.Errorf("%w: %w", ErrUnavailable, why))
}

// again serves a folder that has died, after a pause that grows.
func (f *hosted) again(ctx context.Context, fails *int) {
	for ctx.Err() == nil {
		pause(ctx, f.delay(*fails))
		if ctx.Err() != nil {
			return
		}
		*fails++
		err := f.takeDown(ctx)
		if err == nil {
			err = f.start(ctx)
		}
		if err == nil {
			f.host.log.InfoContext(ctx, "mount is served again", "mount", f.key.id, "dir", f.dir)
			f.note(up, nil)
			return
		}
		f.host.log.WarnContext(ctx, "mount degraded", "kind", "not served again", "mount", f.key.id, "dir", f.dir, "cause", err)
		f.note(down, err)
	}
}

// delay is the pause before the next restart, which it counts.
func (f *hosted) delay(fails int) time.Duration {
	l := f.host.limits
	d := l.maxDelay
	if fails < 16 {
		d = min(l.firstDelay<<fails, l.maxDelay)
	}
	now := time.Now()
	f.host.mu.Lock()
	defer f.host.mu.Unlock()
	for len(f.died) > 0 && now.Sub(f.died[0]) >= time.Hour {
		f.died = f.died[1:]
	}
	if len(f.died) >= f.host.restarts {
		d = max(d, time.Hour-now.Sub(f.died[0]))
	}
	f.died = append(f.died, now.Add(d))
	f.restarts++
	return d
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// until is a context that also ends when c is closed.
func until(ctx context.Context, c <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	select {
	case <-c:
		cancel()
	default:
		go func() {
			select {
			case <-c:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}
