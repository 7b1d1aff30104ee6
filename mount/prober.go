package mount

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// DefaultProbeTimeout is how long a directory has to list, before its folder is unresponsive.
const DefaultProbeTimeout = 5 * time.Second

// prober finds out whether a directory lists. A listing may hang in the
// kernel for good, where no context reaches it, so one goroutine at most is
// out for a directory. Who asks meanwhile shares the next one: the answer
// is never older than the question.
type prober struct {
	mu   sync.Mutex
	now  *probe // which is out
	next *probe // which begins when now has ended
}

type probe struct {
	done chan struct{}
	err  error // good once done
}

// ask returns the error of a listing that began after the call. ok is false
// where there was none before ctx ended.
func (p *prober) ask(ctx context.Context, list func() error) (err error, ok bool) {
	mine := p.join(list)
	select {
	case <-mine.done:
		return mine.err, true
	case <-ctx.Done():
		return nil, false
	}
}

func (p *prober) join(list func() error) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		p.now = &probe{done: make(chan struct{})}
		go p.run(p.now, list)
		return p.now
	}
	if p.next == nil {
		p.next = &probe{done: make(chan struct{})}
	}
	return p.next
}

// busy reports whether a listing is out.
func (p *prober) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now != nil
}

func (p *prober) run(mine *probe, list func() error) {
	for mine != nil {
		mine.err = list()
		close(mine.done)
		p.mu.Lock()
		p.now, p.next = p.next, nil
		mine = p.now
		p.mu.Unlock()
	}
}

// look is what is known of the folder at dir: it is mounted, by the
// kernel's list, and lists, by listing. Of a dead one the error says why.
func (p *prober) look(ctx context.Context, k kernel, dir string, timeout time.Duration) (Liveness, error) {
	t, err := table(k)
	if err != nil {
		return Unresponsive, err // nothing is known of it, so nothing may rest on it
	}
	if !t.at(dir) {
		return Dead, errNotMounted
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err, ok := p.ask(ctx, func() error { return k.list(dir) })
	switch {
	case !ok:
		return Unresponsive, errNoAnswer
	case err != nil:
		return Dead, err
	}
	return Alive, nil
}

// hopeless reports whether a dead folder stays dead, though its Serving has
// not ended: nothing is mounted any more, or nobody serves it. What lists with
// another error, as when the storage is away for a while, may come back, and may
// hold what was not written out yet.
func hopeless(why error) bool {
	return errors.Is(why, errNotMounted) || errors.Is(why, syscall.ENOTCONN)
}
