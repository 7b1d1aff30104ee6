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
	done  chan struct{}
	mount string // what was listed; good once done
	err   error  // good once done
}

// ask returns what came of a listing that began after the call, and errNoAnswer where ctx ended first.
func (p *prober) ask(ctx context.Context, list func() (string, error)) (mount string, err error) {
	mine := p.join(list)
	select {
	case <-mine.done:
		return mine.mount, mine.err
	case <-ctx.Done():
		return "", errNoAnswer
	}
}

func (p *prober) join(list func() (string, error)) *probe {
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

func (p *prober) run(mine *probe, list func() (string, error)) {
	for mine != nil {
		mine.mount, mine.err = list()
		close(mine.done)
		p.mu.Lock()
		p.now, p.next = p.next, nil
		mine = p.now
		p.mu.Unlock()
	}
}

// look is what is known of the folder at dir: something is mounted there, by
// the kernel's list, and that same mount lists. Else the error says why it is not alive. Nothing but
// the mount counts: between two mounts the directory below lists too, and is empty.
func (p *prober) look(ctx context.Context, k kernel, dir string, timeout time.Duration) (Liveness, error) {
	if mounted, err := mountedAt(k, dir); mounted == "" {
		return unmountedOr(err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	listed, err := p.ask(ctx, func() (string, error) { return k.list(dir) })
	if errors.Is(err, errNoAnswer) {
		return Unresponsive, err
	}
	if err != nil {
		return Dead, err
	}
	if mounted, err := mountedAt(k, dir); mounted != listed {
		return unmountedOr(err)
	}
	return Alive, nil
}

// mountedAt is the id of what is mounted at dir; empty where nothing is, or where the error says that it can't be known.
func mountedAt(k kernel, dir string) (string, error) {
	t, err := table(k)
	return t.at(dir), err
}

// unmountedOr says that nothing is mounted, unless that could not be found
// out: then nothing is known, and nothing may rest on it.
func unmountedOr(err error) (Liveness, error) {
	if err != nil {
		return Unresponsive, err
	}
	return Dead, errNotMounted
}

// hopeless reports whether a dead folder stays dead, though its Serving has
// not ended: nothing is mounted any more, or nobody serves it. What lists with
// another error, as when the storage is away for a while, may come back, and may
// hold what was not written out yet.
func hopeless(why error) bool {
	return errors.Is(why, errNotMounted) || errors.Is(why, syscall.ENOTCONN)
}
