package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// step is one throw of the dice.
func (s *sim) step() {
	s.wait()
	time.Sleep(blink)
	s.resumeDue()
	switch x := s.rnd.IntN(1000); {
	case x < 100:
		s.operate()
	case x < 190:
		s.advance(s.upTo(2 * time.Second))
	case x < 205:
		s.advance(s.upTo(30 * time.Second))
	case x < 213:
		s.crash(s.rnd.IntN(len(s.replicas)))
	case x < 221:
		s.pause()
	case x < 227:
		s.outage = time.Now().Add(s.upTo(25 * time.Second))
		s.log("the provider can't be reached until %v", s.outage.Sub(s.began))
	case x < 230:
		s.bank.outage = time.Now().Add(s.upTo(2 * s.lease))
		s.log("the ledger can't be reached until %v", s.bank.outage.Sub(s.began))
	case x < 233:
		s.throttled = time.Now().Add(s.upTo(40 * time.Second))
		s.log("the provider has too many requests until %v", s.throttled.Sub(s.began))
	case x < 241:
		s.befall()
	case x < 246:
		r := s.replicas[s.rnd.IntN(len(s.replicas))]
		s.mu.Lock()
		r.skew = s.between(-10*time.Minute, 10*time.Minute)
		s.add("%v's clock is %v off", r, r.skew)
		s.mu.Unlock()
	default:
		if all := s.eligible(); len(all) > 0 {
			c := all[s.rnd.IntN(len(all))]
			if strings.HasPrefix(c.method, reply) && s.chance(70) { // answers are slower than questions
				c = all[s.rnd.IntN(len(all))]
			}
			s.release(c, s.draw(c))
		} else {
			s.advance(s.upTo(3 * time.Second))
		}
	}
}

// crash kills a process: nothing it was about to do happens. Another takes its place.
func (s *sim) crash(at int) {
	r := s.replicas[at]
	s.kill(r)
	s.replicas[at] = s.replica(r.host)
	s.log("%v starts", s.replicas[at])
}

func (s *sim) kill(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.dead, r.died = true, s.clock()
	s.add("%v DIES", r)
}

// pause lets a process stand still, for up to ten times its lease.
func (s *sim) pause() {
	r := s.replicas[s.rnd.IntN(len(s.replicas))]
	d := s.upTo(time.Duration(1+s.rnd.IntN(10)) * s.lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.dead || r.wake != nil {
		return
	}
	r.resume, r.wake, r.until = make(chan struct{}), make(chan struct{}), time.Now().Add(d)
	s.add("%v PAUSES for %v", r, d)
}

// resumeDue lets those processes go on whose pause is over.
func (s *sim) resumeDue() {
	for _, r := range s.replicas {
		if r.wake != nil && (s.calm || !time.Now().Before(r.until)) {
			s.wakeUp(r)
		}
	}
}

// wakeUp: first whatever has waited for an answer finds that its time is up, then clients go on.
func (s *sim) wakeUp(r *replica) {
	s.mu.Lock()
	resume := r.resume
	r.resume = nil
	s.add("%v goes on", r)
	s.mu.Unlock()
	close(resume)
	synctest.Wait()
	s.mu.Lock()
	wake := r.wake
	r.wake = nil
	s.mu.Unlock()
	close(wake)
	s.wait()
}

// befall is what happens to a machine by itself.
func (s *sim) befall() {
	var alive []*machine
	for _, m := range s.machines {
		if m.alive() && !m.foreign {
			alive = append(alive, m)
		}
	}
	if len(alive) == 0 {
		return
	}
	m := alive[s.rnd.IntN(len(alive))]
	switch n := s.rnd.IntN(10); {
	case n < 5:
		s.die(m, false)
	case n < 9:
		s.log("machine %v falls asleep", m)
		for _, p := range s.procs { // in what sleeps nothing runs
			if p.machine == m {
				_ = p.inner.Signal(context.Background(), sandbox.SignalKill)
			}
		}
		synctest.Wait()
		s.boxes[m.host].SetStatus(m.inner.Incarnation, sandbox.StatusStopped)
	default:
		s.plant(m.host)
	}
}

// plant makes a machine that carries our labels and that no row knows of, as after a restored backup.
func (s *sim) plant(host int) {
	q := sandbox.CreateRequest{Name: "bkr-planted" + tip(string(rune('a'+len(s.machines)))) + "-g1", Labels: map[string]string{
		sandbox.LabelDeployment: deployment, sandbox.LabelSandbox: "planted", sandbox.LabelGeneration: "1",
	}}
	for _, m := range s.machines {
		if m.planted {
			return // one is enough
		}
	}
	m, err := s.bear(host, q, 0)
	if err != nil {
		s.Fatalf("a planted machine: %v", err)
	}
	m.planted = true
}

// draw says what befalls a call.
func (s *sim) draw(c *call) verdict {
	v := verdict{again: -1}
	n := s.rnd.IntN(100)
	out := time.Now().Before(s.outage)
	if slices.Contains([]string{"Create", "Inspect", "Enumerate", "Attach", "Destroy", "Start", "Reap", "Measure"}, c.method) &&
		time.Now().Before(s.throttled) && s.chance(85) {
		v.fail = errBusy
		if c.method == "Create" {
			v.fail = fmt.Errorf("%w: %w", sandbox.ErrNotSent, errBusy)
		}
		return v
	}
	switch c.method {
	case "Create":
		s.drawCreate(c, &v, n, out)
	case "Inspect", "Enumerate":
		v.failing(n, 5, out)
		v.lose, v.hold, v.blind = n >= 5 && n < 8, n >= 8 && n < 16, n >= 16 && n < 26
		v.age = s.stale(50)
	case "Attach":
		v.failing(n, 4, out)
		v.lose, v.hold, v.blind = n >= 4 && n < 6, n >= 6 && n < 10, n >= 10 && n < 25
		v.age = s.stale(20)
	case "Destroy":
		v.failing(n, 6, out)
		v.lose, v.hold = n >= 6 && n < 18, n >= 18 && n < 24
		if s.chance(40) {
			v.after = s.upTo(12 * time.Second)
		}
		v.age = s.stale(20)
	case "Start", "Reap", "Measure":
		v.failing(n, 5, out)
		v.lose = n >= 5 && n < 8
	case "Commit":
		v.failing(n, 3, false)
		v.lose, v.hold = n >= 3 && n < 8, n >= 8 && n < 22
	case "Hold", "Post", "GiveBack", "Grant", "Expire", "Balance", "Marks", "Holds", "Unexported", "Exported":
		v.failing(n, 4, time.Now().Before(s.bank.outage))
		v.lose, v.hold = n >= 4 && n < 9, n >= 9 && n < 17
	default:
		if strings.HasPrefix(c.method, reply) {
			return v
		}
		v.failing(n, 3, false)
		v.lose, v.hold = n >= 3 && n < 5, n >= 5 && n < 8
	}
	return v
}

func (v *verdict) failing(n, below int, out bool) {
	if n < below || out {
		v.fail = errOutage
	}
}

// stale is how old an answer is: within what the provider declares.
func (s *sim) stale(percent int) time.Duration {
	if lag := s.world.caps.Lag(); lag > 0 && s.chance(percent) {
		return s.upTo(lag - time.Millisecond)
	}
	return 0
}

func (s *sim) drawCreate(c *call, v *verdict, n int, out bool) {
	if c.late { // the process that had sent it was paused: did it?
		if n < 50 {
			v.fail = errOutage
		}
		return
	}
	v.failing(n, 4, out)
	if n >= 4 && n < 7 && !out {
		v.fail = sandbox.ErrNotSent
	}
	v.lose, v.hold = n >= 7 && n < 17, n >= 17 && n < 35
	switch {
	case s.chance(35):
		v.after = s.upTo(horizon)
	case s.chance(20):
		v.after = s.upTo(3 * time.Second)
	}
	if s.chance(20) {
		v.starts = s.upTo(90 * time.Second)
	}
	if s.chance(20) {
		v.again = 0 // where names are unique, or as good as that, the second finds what the first has made
		if s.world.duplicates {
			v.again = s.upTo(horizon - v.after)
		}
	}
}
