package e2e

import (
	"maps"

	"github.com/anishathalye/porcupine"
)

// workKey is a work lease: a session, and the work that holds it.
type workKey struct{ Session, Holder string }

// slots is the state of the model: the work leases of one payer, those that
// ran out too, and the greatest fence of each session that anybody was told.
type slots struct {
	works map[workKey]grip
	last  map[string]int64
}

func (s slots) equal(o slots) bool { return maps.Equal(s.works, o.works) && maps.Equal(s.last, o.last) }

// worked is how many sessions are worked in, and whether name is one of them.
func (s slots) worked(name string) (n int, this bool) {
	seen := map[string]bool{}
	for k := range s.works {
		seen[k.Session] = true
	}
	return len(seen), seen[name]
}

func (s slots) with(k workKey, g grip) slots {
	next := slots{maps.Clone(s.works), s.last}
	next.works[k] = g
	if g.Fence > s.last[k.Session] {
		next.last = maps.Clone(s.last)
		next.last[k.Session] = g.Fence
	}
	return next
}

func (s slots) without(k workKey) slots {
	next := slots{maps.Clone(s.works), s.last}
	delete(next.works, k)
	return next
}

// slotsModel is the work leases of one payer: so many sessions are worked in
// at most, one that ran out counts until it is released, and a session counts once.
func slotsModel(most int) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{slots{map[workKey]grip{}, map[string]int64{}}} },
		Step: func(state, input, output any) []any {
			next := stepSlots(state.(slots), input.(leaseOp), output.(leaseOut), most)
			all := make([]any, len(next))
			for i, s := range next {
				all[i] = s
			}
			return all
		},
		Equal: func(a, b any) bool { return a.(slots).equal(b.(slots)) },
	}
	return m.ToModel()
}

func stepSlots(s slots, in leaseOp, out leaseOut, most int) []slots {
	k := workKey{in.Lease.Name, in.Lease.Holder}
	had, there := s.works[k]
	mine := there && had.Fence == in.Lease.Fence
	n, worked := s.worked(k.Session)
	room := worked || n < most
	same := []slots{s}
	when := func(legal bool, next slots) []slots {
		if legal {
			return []slots{next}
		}
		return nil
	}
	switch in.Op {
	case "Acquire":
		switch {
		case out.Lost:
			if there {
				same = append(same, s.with(k, had.prolonged(in)))
			}
			if room {
				same = append(same, s.with(k, fresh(in, s.last[k.Session])))
			}
			return same
		case out.Answer.Code == "work_limit":
			return when(!room, s)
		case out.Answer.Code != "" || !out.stamped(in):
			return nil
		}
		t, fence := out.at(in), out.Lease.Fence
		again := there && had.lasts(t) && had.has(fence)
		anew := room && (!there || had.gone(t)) && fence > s.last[k.Session]
		return when(again || anew, s.with(k, gripOf(out.Lease)))
	case "Renew":
		switch {
		case out.Lost && mine:
			return append(same, s.with(k, had.prolonged(in)))
		case out.Lost:
			return same
		case out.Answer.Code == "lease_lost":
			return when(!mine || had.gone(out.High), s)
		}
		return when(out.Answer.Code == "" && out.stamped(in) && mine && had.lasts(out.at(in)), s.with(k, gripOf(out.Lease)))
	case "Release":
		switch {
		case !mine:
			return when(out.Lost || out.Answer.Code == "", s)
		case out.Lost:
			return append(same, s.without(k))
		}
		return when(out.Answer.Code == "", s.without(k))
	case "Expired":
		if out.Lost {
			return same
		}
		return s.listed(in, out)
	}
	return nil
}

// listed says whether the leases that an answer lists are those that ran out.
func (s slots) listed(in leaseOp, out leaseOut) []slots {
	next := s
	seen := map[workKey]bool{}
	for _, l := range out.Expired {
		if string(l.Payer) != string(in.Lease.Payer) {
			continue
		}
		k := workKey{l.Name, l.Holder}
		g, there := s.works[k]
		if !there || !g.is(l) || l.Until.UnixMicro() > out.High {
			return nil
		}
		seen[k] = true
		next = next.with(k, gripOf(l))
	}
	for k, g := range s.works {
		if !seen[k] && !g.lasts(in.Low) {
			return nil
		}
	}
	return []slots{next}
}
