package e2e

import (
	"github.com/anishathalye/porcupine"

	"github.com/bunkroom/bunkroom/session"
)

// leaseOp is what a client asks of leases. Low is what the store's clock
// showed just before, in microseconds.
type leaseOp struct {
	Op    string // Acquire, Renew, Release, Held or Expired
	Lease session.Lease
	Low   int64
}

// leaseOut is what it was answered. Lost: nothing, for the process was
// killed. High is what the store's clock showed just after.
type leaseOut struct {
	Lost    bool
	Answer  Answer
	Lease   session.Lease
	Expired []session.Lease
	High    int64
}

// at is when the lease of an answer was stamped: it lasts for that long.
func (o leaseOut) at(in leaseOp) int64 {
	return o.Lease.Until.UnixMicro() - in.Lease.For.Microseconds()
}

// stamped reports whether that was while the call lasted, by the store's clock.
func (o leaseOut) stamped(in leaseOp) bool { return in.Low <= o.at(in) && o.at(in) <= o.High }

// grip is a lease as the model has it. After a call that was never answered
// its fence (0: greater than Above) and its end (0: at AtLeast or later) are
// known to nobody, until somebody is told.
type grip struct {
	Holder         string
	Fence, Above   int64
	Until, AtLeast int64
}

// gone reports whether the lease may have run out by t.
func (g grip) gone(t int64) bool {
	return g.Holder == "" || g.Until != 0 && g.Until <= t || g.Until == 0 && g.AtLeast <= t
}

// lasts reports whether it may last beyond t.
func (g grip) lasts(t int64) bool { return g.Holder != "" && (g.Until == 0 || g.Until > t) }

// has reports whether fence may be its own.
func (g grip) has(fence int64) bool { return g.Fence == fence || g.Fence == 0 && fence > g.Above }

// is reports whether l may be this lease.
func (g grip) is(l session.Lease) bool {
	until := l.Until.UnixMicro()
	return g.Holder == l.Holder && g.has(l.Fence) && (g.Until == until || g.Until == 0 && until >= g.AtLeast)
}

// prolonged is the lease after a call that may have prolonged it.
func (g grip) prolonged(in leaseOp) grip {
	g.Until, g.AtLeast = 0, in.earliest()
	return g
}

// fresh is the lease after a call that may have had it anew, the last fence known being last.
func fresh(in leaseOp, last int64) grip {
	return grip{Holder: in.Lease.Holder, Above: last, AtLeast: in.earliest()}
}

// earliest is when a lease ends at the earliest that the call has had or prolonged.
func (in leaseOp) earliest() int64 { return in.Low + in.Lease.For.Microseconds() }

func gripOf(l session.Lease) grip {
	return grip{Holder: l.Holder, Fence: l.Fence, Until: l.Until.UnixMicro()}
}

// seat is the state of the model: a lease of one holder, and the greatest fence that anybody was told.
type seat struct {
	grip
	Last int64
}

func (s seat) taken(l session.Lease) seat { return seat{gripOf(l), max(s.Last, l.Fence)} }

// seatModel is one lease of one holder: nobody has it while somebody else
// does, by the store's clock, and every fence is greater than those before.
func seatModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{seat{}} },
		Step: func(state, input, output any) []any {
			next := stepSeat(state.(seat), input.(leaseOp), output.(leaseOut))
			all := make([]any, len(next))
			for i, s := range next {
				all[i] = s
			}
			return all
		},
	}
	return m.ToModel()
}

func stepSeat(s seat, in leaseOp, out leaseOut) []seat {
	mine := s.Holder == in.Lease.Holder && s.Fence == in.Lease.Fence
	same := []seat{s}
	when := func(legal bool, next seat) []seat {
		if legal {
			return []seat{next}
		}
		return nil
	}
	switch in.Op {
	case "Acquire":
		switch {
		case out.Lost: // had anew, prolonged, or not
			if s.Holder == in.Lease.Holder {
				same = append(same, seat{s.prolonged(in), s.Last})
			}
			return append(same, seat{fresh(in, s.Last), s.Last})
		case out.Answer.Code == "held":
			h := out.Answer
			fits := s.Holder == h.Holder && h.Holder != in.Lease.Holder && (s.Until == h.Until.UnixMicro() || s.Until == 0 && h.Until.UnixMicro() >= s.AtLeast)
			s.Until = h.Until.UnixMicro()
			return when(fits && s.lasts(in.Low), s)
		case out.Answer.Code != "" || !out.stamped(in):
			return nil
		}
		t, fence := out.at(in), out.Lease.Fence
		again := s.Holder == in.Lease.Holder && s.lasts(t) && s.has(fence)
		return when(again || s.gone(t) && fence > s.Last, s.taken(out.Lease))
	case "Renew":
		switch {
		case out.Lost && mine:
			return append(same, seat{s.prolonged(in), s.Last})
		case out.Lost:
			return same
		case out.Answer.Code == "lease_lost":
			return when(!mine || s.gone(out.High), s)
		}
		return when(out.Answer.Code == "" && out.stamped(in) && mine && s.lasts(out.at(in)), s.taken(out.Lease))
	case "Release":
		free := seat{Last: s.Last}
		switch {
		case !mine:
			return when(out.Lost || out.Answer.Code == "", s)
		case out.Lost:
			return append(same, free)
		}
		return when(out.Answer.Code == "", free)
	case "Held":
		switch {
		case out.Lost:
			return same
		case out.Answer.Code == "not_found":
			return when(s.gone(out.High), s)
		}
		return when(out.Answer.Code == "" && s.is(out.Lease) && s.lasts(in.Low), s.taken(out.Lease))
	}
	return nil
}
