package session

import (
	"sync"
	"time"
)

// doubts are the works of this process that are closed, and of which
// something may run all the same: the handle on their machine could not be
// closed. Nobody gives their leases back until it is proven that nothing does,
// as of works whose process has died.
type doubts struct {
	mu   sync.Mutex
	open map[string]doubt // by work
}

type doubt struct {
	until time.Time // when the lease of the work runs out, on the local clock
	then  func()    // what waits for the end of the doubt; nil: nothing
}

// forgetDoubt is how long after a lease has run out it is certain that it would
// be among those that have expired, if nobody had given it back.
const forgetDoubt = 24 * time.Hour

func (d *doubts) add(work string, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		d.open = map[string]doubt{}
	}
	d.open[work] = doubt{until, d.open[work].then}
}

// after has then called, on its own, once the doubt about a work is settled.
// It reports whether there is one.
func (d *doubts) after(work string, then func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, has := d.open[work]
	if has {
		d.open[work] = doubt{was.until, then}
	}
	return has
}

func (d *doubts) has(work string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, has := d.open[work]
	return has
}

// settle ends a doubt: the lease was given back.
func (d *doubts) settle(work string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end(work)
}

// end is for who holds mu.
func (d *doubts) end(work string) {
	if then := d.open[work].then; then != nil {
		go then()
	}
	delete(d.open, work)
}

// prune drops what another process has settled: works whose leases ran out
// long ago and do not count any more.
func (d *doubts) prune(now time.Time, counts func(work string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for work, was := range d.open {
		if now.Sub(was.until) > forgetDoubt && !counts(work) {
			d.end(work)
		}
	}
}
