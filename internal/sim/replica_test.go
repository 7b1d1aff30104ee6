package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

var (
	errDead   = errors.New("sim: this process is dead")
	errOutage = errors.New("sim: no connection")
	errLost   = errors.New("sim: the reply was lost")
	// errBusy is what a provider says that is asked too much. Nothing is done.
	errBusy = errors.New("sim: too many requests")
)

// replica is one process of the host.
type replica struct {
	*session.Service
	*sim
	n    int
	host int
	ids  int
	skew time.Duration // of its own clock
	gate *billing.Till

	// Guarded by sim.mu.
	dead   bool
	died   time.Time     // on the store's clock
	resume chan struct{} // the process is paused until it is closed; nil = it runs
	wake   chan struct{} // its clients sleep until it is closed, a moment after resume
	until  time.Time     // when the pause ends
	drains bool
}

// replica starts a process on a host.
func (s *sim) replica(host int) *replica {
	s.born++
	r := &replica{sim: s, n: s.born, host: host}
	line := wire{r}
	r.gate = s.till(line)
	c := session.Config{
		Store: wiredStore{line}, Leases: wiredLeases{line}, Directory: wiredDirectory{line}, Gate: r.gate,
		Sandboxes: []sandbox.Provider{wiredProvider{line}}, KeySecret: secret,
		Limits:  func(access.Plan) session.Limits { return s.limits },
		Replica: fmt.Sprintf("r%d", r.n), Deployment: deployment,
		Lease: s.lease, Hold: s.holding, IdleAfter: s.idleAfter, CallTimeout: callTimeout,
		Now:   func() time.Time { return time.Now().Add(r.clockSkew()) },
		NewID: r.newID,
	}
	svc, err := session.New(c)
	if err != nil {
		s.Fatalf("New: %v", err)
	}
	r.Service = svc
	return r
}

func (r *replica) newID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", r.n, r.ids)
}

func (r *replica) clockSkew() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skew
}

func (r *replica) String() string { return fmt.Sprintf("r%d", r.n) }

// verdict is what befalls a call. The zero value is nothing.
type verdict struct {
	fail   error         // answered, and nothing is done
	lose   bool          // done, and its reply is lost
	hold   bool          // done, and its reply waits for a turn of its own
	after  time.Duration // of a create or destroy: done so much later
	again  time.Duration // of a create: done a second time so much later than the first; less than 0 = it is not
	starts time.Duration // of a create: ready so much later than born
	age    time.Duration // of what is looked at: the answer is so old
	blind  bool          // of what is looked at: it is not seen, once
}

func (v verdict) String() string {
	text := ""
	add := func(is bool, what string, args ...any) {
		if is {
			text += " " + fmt.Sprintf(what, args...)
		}
	}
	if v.fail != nil {
		return fmt.Sprintf(" FAILS (%v)", v.fail)
	}
	add(v.lose, "reply LOST")
	add(v.hold, "reply held")
	add(v.after > 0, "done %v LATER", v.after)
	add(v.again >= 0, "TWICE, %v apart", v.again)
	add(v.starts > 0, "ready %v later", v.starts)
	add(v.age > 0, "as of %v ago", v.age)
	add(v.blind, "BLIND")
	return text
}

// call is one call that waits for its turn.
type call struct {
	r      *replica
	op     string // what it is part of
	method string
	what   string
	seq    int
	turn   chan verdict
	late   bool // its caller has given up waiting, and it may be made all the same
}

func byPlace(a, b *call) int {
	return cmp.Or(cmp.Compare(a.r.n, b.r.n), cmp.Compare(len(a.op), len(b.op)), cmp.Compare(a.op, b.op),
		cmp.Compare(a.method, b.method), cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
}

type opKey struct{}

func opOf(ctx context.Context) string {
	op, _ := ctx.Value(opKey{}).(string)
	return op
}

// park lets a call wait for its turn. Where its caller gives up first it is
// not made, but for a create of a process that was paused: its request may be on its way.
func (r *replica) park(ctx context.Context, method, what string) (verdict, error) {
	c := &call{r: r, op: opOf(ctx), method: method, what: what, turn: make(chan verdict, 1)}
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return verdict{}, errDead
	}
	if r.dead {
		r.mu.Unlock()
		<-r.over
		return verdict{}, errDead
	}
	r.calls++
	c.seq = r.calls
	r.parked = append(r.parked, c)
	r.mu.Unlock()
	select {
	case v := <-c.turn:
		return v, nil
	case <-ctx.Done():
	case <-r.over:
		return verdict{}, errDead
	}
	r.mu.Lock()
	if method == "Create" && r.resume != nil {
		c.late = true
		r.mu.Unlock()
		select {
		case v := <-c.turn:
			return v, nil
		case <-r.over:
			return verdict{}, errDead
		}
	}
	r.parked = slices.DeleteFunc(r.parked, func(p *call) bool { return p == c })
	r.mu.Unlock()
	if err := r.runs(); err != nil {
		return verdict{}, err
	}
	return verdict{}, context.Cause(ctx)
}

// runs waits while the process is paused, and for ever where it is dead.
func (r *replica) runs() error {
	for {
		r.mu.Lock()
		dead, resume := r.dead, r.resume
		r.mu.Unlock()
		switch {
		case dead:
			<-r.over
			return errDead
		case resume == nil:
			return nil
		}
		select {
		case <-resume:
		case <-r.over:
			return errDead
		}
	}
}

// nap lets a client of the process do nothing for a while.
func (r *replica) nap(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-r.over:
		return
	}
	for {
		r.mu.Lock()
		dead, wake := r.dead, r.wake
		r.mu.Unlock()
		switch {
		case dead:
			<-r.over
			return
		case wake == nil:
			return
		}
		select {
		case <-wake:
		case <-r.over:
			return
		}
	}
}
