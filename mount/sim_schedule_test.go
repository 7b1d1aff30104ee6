//go:build linux

package mount_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// simVerdict is what befalls a call. The zero value is nothing.
type simVerdict struct {
	fail error         // answered, and nothing is done
	lose bool          // done, and its reply is lost
	deaf bool          // it looks at no context
	late time.Duration // of what is served: it is mounted so much later
}

func (v simVerdict) String() string {
	text := ""
	if v.fail != nil {
		return fmt.Sprintf(" FAILS (%v)", v.fail)
	}
	if v.lose {
		text += " reply LOST"
	}
	if v.deaf {
		text += " DEAF"
	}
	if v.late > 0 {
		text += fmt.Sprintf(" mounted %v LATER", v.late)
	}
	return text
}

type simCall struct {
	p                *simProcess
	op, method, what string
	seq              int
	turn             chan simVerdict
}

// park lets a call wait for its turn. Where its caller gives up first it is not made.
func (p *simProcess) park(ctx context.Context, method, what string) (simVerdict, error) {
	op, _ := ctx.Value(simOp{}).(string)
	switch method {
	case "serve", "serving late", "stop":
		op = "" // for whom of several a folder is served is up to Go
	}
	c := &simCall{p: p, op: op, method: method, what: what, turn: make(chan simVerdict, 1)}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return simVerdict{}, errSimDead
	}
	p.calls++
	c.seq = p.calls
	p.parked = append(p.parked, c)
	p.mu.Unlock()
	select {
	case v := <-c.turn:
		return v, nil
	case <-ctx.Done():
		p.mu.Lock()
		dead := p.dead
		p.parked = slices.DeleteFunc(p.parked, func(other *simCall) bool { return other == c })
		p.mu.Unlock()
		if dead { // nobody hears of it
			<-p.over
			return simVerdict{}, errSimDead
		}
		return simVerdict{}, context.Cause(ctx)
	case <-p.over:
		return simVerdict{}, errSimDead
	}
}

type simOp struct{}

// alive waits for ever where the process is dead.
func (p *simProcess) alive() error {
	p.mu.Lock()
	dead, ended := p.dead, p.ended
	p.mu.Unlock()
	if dead && !ended {
		<-p.over
	}
	return nil
}

// eligible are the calls that may go on, in a fixed order.
func (s *sim) eligible() []*simCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.parked), func(c *simCall) bool { return c.p.dead })
	slices.SortFunc(all, func(a, b *simCall) int {
		return cmp.Or(cmp.Compare(a.p.n, b.p.n), cmp.Compare(len(a.op), len(b.op)), cmp.Compare(a.op, b.op),
			cmp.Compare(a.method, b.method), cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
	})
	return all
}

// release lets a call go on, with what befalls it.
func (s *sim) release(c *simCall, v simVerdict) {
	s.mu.Lock()
	s.parked = slices.DeleteFunc(s.parked, func(p *simCall) bool { return p == c })
	s.add("%v %s: %s %s%v", c.p, c.op, c.method, c.what, v)
	s.mu.Unlock()
	c.turn <- v
	s.wait()
}

// begin starts something that a process does.
func (s *sim) begin(p *simProcess, what string, do func(context.Context) error) {
	s.started++
	name := fmt.Sprintf("%s%d", what, s.started)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), simOp{}, name))
	s.mu.Lock()
	s.ops[name] = p
	s.add("%v begins %s", p, name)
	s.mu.Unlock()
	go func() {
		defer cancel()
		err := do(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ops, name)
		s.note("%v %s ends: %s", p, name, simClass(err))
	}()
	s.wait()
}

// wait lets everything come to rest, and looks whether the rules hold.
func (s *sim) wait() {
	synctest.Wait()
	s.mu.Lock()
	slices.Sort(s.ends)
	for _, line := range s.ends {
		s.add("%s", line)
	}
	s.ends = nil
	s.mu.Unlock()
	s.check()
}

// later has something happen after a while, between two steps.
func (s *sim) later(d time.Duration, do func()) {
	s.due = append(s.due, simDue{time.Now().Add(d), do})
	slices.SortStableFunc(s.due, func(a, b simDue) int { return a.at.Compare(b.at) })
}

// advance lets time pass, and what is due happen in it.
func (s *sim) advance(d time.Duration) {
	for until := time.Now().Add(d); ; {
		s.mu.Lock()
		next, do := until, func() {}
		last := len(s.due) == 0 || s.due[0].at.After(until)
		if !last {
			next, do = s.due[0].at, s.due[0].do
			s.due = s.due[1:]
		}
		s.mu.Unlock()
		time.Sleep(time.Until(next))
		synctest.Wait()
		do()
		if last {
			break
		}
	}
	s.wait()
}

// finish lets everything under way go on without accidents until it is done.
func (s *sim) finish(patience time.Duration) {
	for deadline := time.Now().Add(patience); !s.failed(); {
		s.wait()
		time.Sleep(simBlink)
		if all := s.eligible(); len(all) > 0 {
			s.release(all[0], simVerdict{})
			continue
		}
		var left []string
		s.mu.Lock()
		for name, p := range s.ops {
			if !p.dead {
				left = append(left, name)
			}
		}
		s.mu.Unlock()
		if len(left) == 0 {
			return
		}
		if !time.Now().Before(deadline) {
			s.violated("progress", "%s is not done after %v", slices.Min(left), patience)
			return
		}
		s.advance(500 * time.Millisecond)
	}
}

// simBlink sets the steps apart, so that no two timers fire at the same moment.
const simBlink = 3 * time.Microsecond

// simClass is what of an error is the same in every run: it may name directories, which are not.
func simClass(err error) string {
	if err == nil {
		return "ok"
	}
	for _, known := range []struct {
		err  error
		word string
	}{
		{errSimDead, "dead"}, {errSimLost, "lost"}, {errSimOutage, "outage"}, {mount.ErrNotFound, "not found"}, {mount.ErrUnavailable, "unavailable"},
		{context.Canceled, "cancelled"}, {context.DeadlineExceeded, "too late"},
	} {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return fmt.Sprintf("%T", err)
}
