package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// job is a work, as it truly is. All times are the store's.
type job struct {
	r       *replica
	op      string
	work    *session.Work // once it is open
	machine time.Time     // when it had got hold of a machine; zero = it has not yet
	opened  time.Time     // when its client had it
	closed  time.Time     // when its client had closed it
	failed  bool          // it could not be opened
	tried   bool          // it was tried to account for it
	stopped time.Time     // when it was told to stop; zero = it was not yet
	settled *replica      // who has closed its account
	told    time.Time     // the latest time that an answer of its lease has told it, before it was told to stop
	heard   time.Time     // and before its client had it
	lag     time.Duration // how far its own clock is behind at most
	behind  time.Duration // how far it was when it had got hold of a machine
}

// job is the work of that id, which op does.
func (s *sim) job(r *replica, op, work string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[work]
	if j == nil {
		j = &job{r: r, op: op, lag: time.Hour}
		s.jobs[work] = j
	}
	return j
}

// hears notes that an answer about its lease has reached a work.
func (j *job) hears(s *sim, l session.Lease) {
	at := l.Until.Add(-s.lease)
	switch {
	case j.work == nil: // whether it has been told to stop is seen once it is there
		j.heard = later(j.heard, at)
	case j.work.Context().Err() == nil:
		j.told = later(j.told, at)
	}
	j.lag = min(j.lag, s.clock().Sub(at))
}

// attached notes that what op opens has its machine.
func (s *sim) attached(op string) {
	for _, j := range s.jobs {
		if j.op == op && j.work == nil && !j.failed && j.machine.IsZero() {
			j.machine, j.behind = s.clock(), j.lag
		}
	}
}

// opened notes what became of an opening. One that a dead process goes through still has nobody to give a work to.
func (s *sim) opened(op string, w *session.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, j := range s.jobs {
		switch {
		case j.op != op || j.failed || j.work != nil || j.r.dead:
		case w != nil && w.ID() == id:
			j.work, j.opened = w, s.clock()
			if w.Context().Err() == nil {
				j.told = j.heard
			}
			context.AfterFunc(w.Context(), func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				j.stopped = s.clock()
			})
		default:
			j.failed = true
		}
	}
}

// tries notes that a process wants to account for a work. What one that has
// died goes through still reaches nobody.
func (r *replica) tries(work string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.jobs[work]; j != nil && !r.dead {
		j.tried = true
	}
}

// settles notes who closes the account of a work.
func (s *sim) settles(r *replica, p billing.Post) {
	j := s.jobs[p.Resource]
	if p.Meter != billing.MeterRuntime || j == nil {
		return
	}
	j.settled = r
	switch {
	case r != j.r:
		s.tell("account closed by another")
	case !j.closed.IsZero():
		s.tell("accounted for late")
	}
}

func (s *sim) closed(w *session.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[w.ID()].closed = s.clock()
}

// at is whether work is being done: it is open, and its process runs.
func (j *job) at() bool {
	return j.work != nil && j.closed.IsZero() && !j.r.dead && j.r.wake == nil && j.work.Context().Err() == nil
}

// stopped reports whether a work was told to stop: what it runs is being
// ended, and its account is closed at the same time.
func (s *sim) stopped(work string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[work]
	return j != nil && j.work != nil && j.work.Context().Err() != nil
}

// checkBegins: only what has its machine begins to be charged, and not from before it had it.
func (s *sim) checkBegins(r *replica, p billing.Post) {
	if p.Meter != billing.MeterRuntime {
		return
	}
	j := s.jobs[p.Resource]
	switch {
	case j == nil || j.failed || j.machine.IsZero():
		s.violated("money", "%v accounts for work %s, which never began", r, tip(p.Resource))
	case p.From.Before(j.machine.Add(-j.behind - 2*time.Microsecond)):
		s.violated("money", "work %s is charged from %v on, and got its machine %v later", tip(p.Resource), p.From, j.machine.Sub(p.From))
	}
}

// checkSpan: its own process charges nothing for after a work was told to stop, and
// another nothing for after its end, but for one interval.
func (s *sim) checkSpan(r *replica, p billing.Post) {
	j := s.jobs[p.Resource]
	if p.Meter != billing.MeterRuntime || j == nil {
		return
	}
	if r == j.r && !j.stopped.IsZero() && p.To.After(j.stopped.Add(2*time.Microsecond)) {
		s.violated("money", "work %s was told to stop at %v and is charged until %v later", tip(p.Resource), j.stopped, p.To.Sub(j.stopped))
	}
	end := s.clock()
	switch {
	case !j.closed.IsZero():
		end = j.closed
	case j.r.dead:
		end = j.r.died
	}
	if p.To.After(end.Add(s.lease/3 + time.Millisecond)) {
		s.violated("money", "work %s was over at %v and is charged until %v later", tip(p.Resource), end, p.To.Sub(end))
	}
}

// checkStorage: no more is charged of a sandbox than its machines have held while they were its own.
func (s *sim) checkStorage(p billing.Post, total int64) {
	most := int64(0)
	for _, m := range s.machines {
		if m.labels[sandbox.LabelSandbox] != p.Resource {
			continue
		}
		end := s.clock()
		if !m.given.IsZero() {
			end = m.given // that it has vanished is not known before
		}
		most += (m.bytes + 1023) / 1024 * int64(end.Sub(m.born)/time.Second+1)
	}
	if total > most {
		s.violated("money", "storage of sandbox %s is charged as %d KiB-seconds, and was %d at most", tip(p.Resource), total, most)
	}
}

// unsettled says what of the money is not yet as it should be, once nobody works any more.
func (s *sim) unsettled() string {
	for id, h := range s.bank.holds {
		if h.State == billing.HoldOpen {
			return fmt.Sprintf("hold %s of %s is still open, until %v ago", tip(id), h.Payer, s.clock().Sub(h.Until))
		}
	}
	for key, m := range s.bank.meters {
		if key.Meter == billing.MeterRuntime && !m.closed {
			return fmt.Sprintf("work %s is accounted for through %v, and not closed", tip(key.Resource), m.through)
		}
	}
	for id := range s.bank.usage {
		if s.bank.exported[id] == "" {
			return fmt.Sprintf("event %s was not exported", id)
		}
	}
	return ""
}

// checkMoney is what must hold of the money in the end.
func (s *sim) checkMoney() {
	s.verify()
	for id := range s.bank.exported {
		if !s.bank.usage[id] {
			s.violated("money", "event %s was exported, and is no entry", id)
		}
	}
	for id, h := range s.bank.holds {
		all, err := s.ledger.Holds(context.Background(), h.Resource)
		if err != nil {
			s.Fatalf("Holds: %v", err)
		}
		for _, is := range all {
			if is.ID == id && (is.State != h.State || !is.Until.Equal(h.Until)) {
				s.violated("money", "hold %s is %v until %v, not %v until %v", id, is.State, is.Until, h.State, h.Until)
			}
		}
	}
	for key, m := range s.bank.meters {
		marks, err := s.ledger.Marks(context.Background(), []billing.MarkKey{key})
		if err != nil {
			s.Fatalf("Marks: %v", err)
		}
		if is := marks[0]; !is.Through.Equal(m.through) || is.Total != m.total || is.Closed != m.closed || m.finished > 1 {
			s.violated("money", "%s of %s is posted as %+v, by what was posted through %v and %d, closed %d times", key.Meter, tip(key.Resource),
				is, m.through, m.total, m.finished)
		}
	}
	for work, j := range s.jobs {
		m := s.bank.meters[billing.MarkKey{Resource: work, Meter: billing.MeterRuntime}]
		if j.work == nil {
			continue
		}
		ran := max(0, j.told.Sub(j.opened)) // at least
		switch {
		case m == nil && !j.r.dead:
			s.violated("money", "nobody was charged for work %s, which went on for %v, and its process lives", tip(work), j.stopped.Sub(j.opened))
			continue
		case m == nil:
			// That it had begun could never be told, which was tried
			// for no longer than the hold lasted that it was admitted with, unless it needs none.
			if ran > 2*s.lease && !s.open || !j.tried {
				s.violated("money", "nobody was charged for work %s, which went on for %v", tip(work), ran)
			}
			s.tell("begun and never told")
			continue
		case m.first.After(j.opened):
			s.violated("money", "work %s is charged from %v after it began", tip(work), m.first.Sub(j.opened))
		case j.settled == j.r: // by itself: up to when it was told to stop
			ran = max(ran, j.stopped.Sub(j.opened))
		}
		if took := m.through.Sub(m.first); took < ran-2*time.Microsecond {
			s.violated("money", "work %s went on for %v, and is charged for %v", tip(work), ran, took)
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
