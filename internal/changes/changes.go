// Package changes holds what drivers tell of a directory that is watched until
// it is read. See [sandbox.Watcher].
package changes

import (
	"context"
	"iter"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Queue is the changes that wait for the one reader. Those for which there is
// no room are dropped, with a ChangeOverflow in their place. It is safe for concurrent use.
type Queue struct {
	most int
	news chan struct{} // holds something where there may be news

	mu      sync.Mutex
	waiting []sandbox.Change
	err     error // how it ends; nil while it does not
}

// NewQueue returns a queue with room for most changes.
func NewQueue(most int) *Queue { return &Queue{most: most, news: make(chan struct{}, 1)} }

// Tell adds a change. A file that is written to again and again counts once while nobody looks.
func (q *Queue) Tell(c sandbox.Change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	n := len(q.waiting)
	switch again := n > 0 && q.waiting[n-1] == c; {
	case again && (c.Kind == sandbox.ChangeModified || c.Kind == sandbox.ChangeOverflow):
		return
	case n < q.most:
		q.waiting = append(q.waiting, c)
	case q.waiting[n-1].Kind == sandbox.ChangeOverflow:
		return
	default:
		q.waiting = append(q.waiting, sandbox.Change{Kind: sandbox.ChangeOverflow})
	}
	q.wake()
}

// End says how it ends, once what waits was read, or at once, without that. The first to say so has its way.
func (q *Queue) End(err error, atOnce bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	q.err = err
	if atOnce {
		q.waiting = nil
	}
	q.wake()
}

func (q *Queue) wake() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// next is a change, or else how it ended, or neither.
func (q *Queue) next() (c sandbox.Change, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return c, false, q.err
	}
	c, q.waiting = q.waiting[0], q.waiting[1:]
	if len(q.waiting) == 0 {
		q.waiting = nil // and with it what was read
	}
	return c, true, nil
}

// All yields the changes as they come, until ctx ends or the queue does. Whenever reading is over, done is called.
func (q *Queue) All(ctx context.Context, done func()) iter.Seq2[sandbox.Change, error] {
	return func(yield func(sandbox.Change, error) bool) {
		defer done()
		for {
			c, ok, err := q.next()
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				yield(sandbox.Change{}, err)
				return
			case ok:
				if !yield(c, nil) {
					return
				}
				continue
			}
			select {
			case <-q.news:
			case <-ctx.Done():
			}
		}
	}
}
