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
	mu    sync.Mutex
	until map[string]time.Time // by work: when its lease runs out, on the local clock
}

// forgetDoubt is how long after a lease has run out it is certain that it would
// be among those that have expired, if nobody had given it back.
const forgetDoubt = 24 * time.Hour

func (d *doubts) add(work string, until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[string]time.Time{}
	}
	d.until[work] = until
}

func (d *doubts) has(work string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, has := d.until[work]
	return has
}

// settle ends a doubt: the lease was given back.
func (d *doubts) settle(work string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.until, work)
}

// prune drops what another process has settled: works whose leases ran out
// long ago and do not count any more.
func (d *doubts) prune(now time.Time, counts func(work string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for work, until := range d.until {
		if now.Sub(until) > forgetDoubt && !counts(work) {
			delete(d.until, work)
		}
	}
}
