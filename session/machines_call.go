package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// guarded calls a driver for as long as ctx lasts. A panic is an error, and a
// call that takes no notice of its context is left to itself: a broken driver
// spoils one call and nothing else.
func guarded[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	return guardedElse(ctx, call, nil)
}

// guardedElse is guarded for an answer that must be given back where nobody
// waits for it any more: late is called with it, if it is none in error.
func guardedElse[T any](ctx context.Context, call func(context.Context) (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		a := answer{err: errNoReturn}
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("session: driver panicked: %v", p)}
			}
			answered <- a
		}()
		a.value, a.err = call(ctx)
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered: // it has taken notice
		return a.value, a.err
	default:
	}
	if late != nil {
		go func() {
			if a := <-answered; a.err == nil {
				late(a.value)
			}
		}()
	}
	return answer{}.value, context.Cause(ctx)
}

// errNoReturn is what came of a call that has not returned and did not panic.
var errNoReturn = errors.New("session: driver ended its goroutine")

// patience bounds calls that follow each other. Those that begin within a
// hundredth of what a call may take have one deadline, for to have its own
// costs a call as much as all else about it.
type patience struct {
	ctx    context.Context
	cancel context.CancelFunc
	since  time.Time
}

// of is the context of a call that begins now and may take so long, or up to a hundredth less.
func (p *patience) of(ctx context.Context, timeout time.Duration) context.Context {
	if now := time.Now(); p.ctx == nil || p.ctx.Err() != nil || now.Sub(p.since) > timeout/100 {
		p.end()
		p.since = now
		p.ctx, p.cancel = context.WithTimeout(ctx, timeout)
	}
	return p.ctx
}

func (p *patience) end() {
	if p.cancel != nil {
		p.cancel()
	}
}

// inspect asks p which machines ref names, within the time that a call may take.
func (m *machines) inspect(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) ([]sandbox.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	return inspected(ctx, p, ref)
}

func inspected(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) ([]sandbox.Found, error) {
	return guarded(ctx, func(ctx context.Context) ([]sandbox.Found, error) { return p.Inspect(ctx, ref) })
}

// kill asks p to destroy the machine ref names, within the time that a call may take.
func (m *machines) kill(ctx context.Context, p sandbox.Provider, ref sandbox.Ref) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, p.Destroy(ctx, ref) })
	return err
}

// reap asks r to end what was started with tag, within the time that a call may take.
func (m *machines) reap(ctx context.Context, r sandbox.Reaper, ref sandbox.Ref, tag string) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	_, err := guarded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, r.Reap(ctx, ref, tag) })
	return err
}
