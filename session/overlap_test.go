package session_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// oneByOne is a gate that fails the test where it is told something of a work
// before it has answered what it was told of it earlier.
type oneByOne struct {
	billing.Gate
	w *world

	mu    sync.Mutex
	busy  map[string]bool // by work
	calls int
	hangs time.Duration // every call takes that long, whatever becomes of its context
}

// behind puts g between a replica and its gate.
func (g *oneByOne) behind() func(*session.Config) {
	return func(c *session.Config) { g.Gate, g.busy, c.Gate = c.Gate, map[string]bool{}, g }
}

func (g *oneByOne) hang(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hangs = d
}

func (g *oneByOne) told() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

func (g *oneByOne) alone(work string, call func() error) error {
	g.mu.Lock()
	if g.busy[work] {
		g.w.Errorf("a call of work %s begins while another is under way", work)
	}
	g.busy[work] = true
	g.calls++
	hangs := g.hangs
	g.mu.Unlock()
	time.Sleep(hangs)
	err := call()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.busy, work)
	return err
}

func (g *oneByOne) Settle(ctx context.Context, t billing.Ticket, u billing.Usage) (out billing.Ticket, err error) {
	err = g.alone(t.Intent.Work, func() (err error) { out, err = g.Gate.Settle(ctx, t, u); return err })
	return out, err
}

func (g *oneByOne) Abandon(ctx context.Context, a billing.Abandoned) error {
	return g.alone(a.Work, func() error { return g.Gate.Abandon(ctx, a) })
}

// The calls of one work are made one at a time, also where one is not waited for any more.
func TestTheGateIsToldOneThingAtATime(t *testing.T) {
	const hung = 9 * time.Minute
	inWorld(t, "a Settle that hangs past its time, in the heartbeat or in Close, overlaps neither the next try nor those of later passes", immediate, func(t *testing.T, w *world) {
		g := &oneByOne{w: w}
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)), g.behind())
		s, _ := r.spawn(ann)
		wk, began := r.mustWork(ann, inSession(s.ID)), time.Now()
		time.Sleep(time.Minute)
		g.hang(hung)
		before := g.told()
		<-wk.Context().Done() // for its hold could not be renewed
		ran := time.Since(began)
		if _, err := wk.Close(t.Context()); err == nil {
			t.Error("closed without an error though its last span is not accounted for")
		}
		for range 16 {
			time.Sleep(30 * time.Second)
			r.slots(t)
		}
		if n := g.told() - before; n > 3 {
			t.Errorf("told %d times in %v, of which each call took %v", n, time.Since(began), hung)
		}
		g.hang(0)
		time.Sleep(hung)
		r.slots(t)
		if got := w.ran("ann"); (got-ran).Abs() > time.Microsecond || w.held() > 0 || len(w.expired()) > 0 {
			t.Errorf("charged %v of %v, %d holds, expired %+v", got, ran, w.held(), w.expired())
		}
	})

	inWorld(t, "an Abandon that hangs past its time does not overlap that of the next pass", immediate, func(t *testing.T, w *world) {
		g := &oneByOne{w: w}
		yard := newGraveyard()
		dead := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)), yard.on())
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)), yard.on(), g.behind())
		s, _ := dead.spawn(ann)
		dead.mustWork(ann, inSession(s.ID))
		time.Sleep(time.Minute)
		dead.kill()
		time.Sleep(2 * time.Minute)
		g.hang(hung)
		for range 4 {
			r.slots(t)
			time.Sleep(30 * time.Second)
		}
		if n := g.told(); n != 1 || len(w.expired()) != 1 {
			t.Errorf("told %d times, expired %+v", n, w.expired())
		}
		g.hang(0)
		time.Sleep(hung)
		r.slots(t)
		if n := w.held(); n > 0 || len(w.expired()) > 0 {
			t.Errorf("%d holds, expired %+v", n, w.expired())
		}
	})
}
