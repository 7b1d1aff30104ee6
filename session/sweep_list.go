package session

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

var errStalled = access.NewSentinel("session: provider's list has stalled", 503, "unavailable", "The sandboxes can't be listed right now. Try again shortly.")

// listed yields what lister lists, [MaxKnown] machines at a time, while the
// next chunk is read already. A chunk is the caller's. With an error comes
// what was read before it, and the sequence ends.
//
// A chunk may take as long as a call. A driver that panics, or takes no notice
// of its context, spoils its own list and nothing else.
func (m *machines) listed(ctx context.Context, lister sandbox.Lister) iter.Seq2[[]sandbox.Listed, error] {
	return func(yield func([]sandbox.Listed, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		chunks := make(chan listedChunk)
		go readList(ctx, lister, m.deployment, chunks)
		for {
			wait := time.NewTimer(m.timeout)
			select {
			case c := <-chunks:
				wait.Stop()
				if !yield(c.machines, c.err) || c.err != nil || c.last {
					return
				}
			case <-wait.C:
				yield(nil, fmt.Errorf("%w: nothing for %v", errStalled, m.timeout))
				return
			case <-ctx.Done():
				wait.Stop()
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

type listedChunk struct {
	machines []sandbox.Listed
	err      error
	last     bool
}

func readList(ctx context.Context, lister sandbox.Lister, deployment string, chunks chan<- listedChunk) {
	var machines []sandbox.Listed
	send := func(last bool, err error) bool {
		select {
		case chunks <- listedChunk{machines, err, last}:
			machines = nil
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if p := recover(); p != nil {
			send(true, fmt.Errorf("session: driver panicked: %v", p))
		}
	}()
	for l, err := range lister.List(ctx, deployment) {
		if err != nil {
			send(true, err)
			return
		}
		if machines == nil {
			machines = make([]sandbox.Listed, 0, MaxKnown)
		}
		if machines = append(machines, l); len(machines) == MaxKnown && !send(false, nil) {
			return
		}
	}
	send(true, nil)
}
