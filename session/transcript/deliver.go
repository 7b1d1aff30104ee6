package transcript

import (
	"math"
	"slices"
	"time"
)

// Boundary is a moment at which inputs may be delivered: between two steps of a turn, or at its end.
type Boundary struct {
	// Cutoff is Transcript.LastSeq as the boundary was reached. What comes later
	// waits for the next one, so that what is delivered does not depend on who is faster.
	Cutoff int64
	Stop   bool // the turn would end here, or there is none
	Single bool // one steer at a time instead of all that wait
	Held   bool // nothing is delivered until somebody says so
	Fence  int64
	Now    time.Time
}

// Deliver chooses what to deliver at a boundary, in the order to append it. It is pure.
// Steers and synthetic inputs go first; at a stop without any, one follow-up; a
// barrier, alone, once no steer from before it waits.
func Deliver(inputs []Input, b Boundary) []Input {
	if b.Held {
		return nil
	}
	var ready []Input
	for _, in := range inputs {
		if in.deliverable(b) {
			ready = append(ready, in)
		}
	}
	Sort(ready)
	var barrier *Input
	for _, in := range inputs { // one that is not ready bars as well
		if in.bars(b) && (barrier == nil || in.Admitted < barrier.Admitted) {
			barrier = &in
		}
	}
	var steers, followUps []Input
	for _, in := range ready {
		switch {
		case barrier != nil && in.Admitted >= barrier.Admitted:
		case in.Lane == LaneFollowUp:
			followUps = append(followUps, in)
		default:
			steers = append(steers, in)
		}
	}
	switch {
	case len(steers) > 0 && b.Single:
		return steers[:1]
	case len(steers) > 0:
		return steers
	case barrier != nil && barrier.deliverable(b):
		return []Input{*barrier}
	case b.Stop && len(followUps) > 0:
		return followUps[:1]
	}
	return nil
}

// waits reports whether it is still to be delivered some time.
func (in Input) waits() bool { return in.State == InputPending || in.State == InputClaimed }

// deliverable reports whether it may be delivered at a boundary, as far as it alone is concerned.
func (in Input) deliverable(b Boundary) bool {
	mine := in.State == InputPending || in.State == InputClaimed && in.Fence <= b.Fence
	return mine && !in.CancelAsked && in.Admitted <= b.Cutoff && !in.NotBefore.After(b.Now) && !in.expired(b.Now)
}

// bars reports whether it keeps back what came after it: not one that will never
// be done, as one that was taken back and is claimed by a turn that would end here.
func (in Input) bars(b Boundary) bool {
	lost := in.CancelAsked && (b.Stop || in.Fence != b.Fence) || in.State == InputPending && in.expired(b.Now)
	return in.Lane == LaneBarrier && in.waits() && !lost
}

// expired reports whether it is too late for it.
func (in Input) expired(now time.Time) bool { return !in.Expires.IsZero() && !in.Expires.After(now) }

// Deliverable reports whether [Deliver] would choose something at the end of the turn
// of that fence, if those that are promoted were not there: what [Facts] say of it.
func Deliverable(inputs []Input, promoted []EntryID, fence int64, now time.Time) bool {
	rest := slices.DeleteFunc(slices.Clone(inputs), func(in Input) bool { return slices.Contains(promoted, in.Entry.ID) })
	return len(Deliver(rest, Boundary{Cutoff: math.MaxInt64, Stop: true, Fence: fence, Now: now})) > 0
}
