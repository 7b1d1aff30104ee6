package billingtest

import (
	"sync"
	"time"
)

// Clock is a clock that a test sets. It may be used concurrently.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	onStep []func(time.Duration)
}

// NewClock returns a clock that stands at some moment of the year 2026. The
// moment is as awkward as a real one: it has a zone, in which it is another
// day than in UTC for a part of each day, and nanoseconds.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 4, 5, 6, 7, 123_456_789, time.FixedZone("IST", 19_800))}
}

// Now is the moment the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Step moves the clock by d, which may be negative: real clocks are set back, too.
func (c *Clock) Step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, f := range c.onStep {
		f(d)
	}
}

// OnStep has f called with every step. A ledger that dates by a clock of its
// own shifts that by d in f; what has been written stays as it is.
func (c *Clock) OnStep(f func(d time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onStep = append(c.onStep, f)
}
