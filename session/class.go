package session

import (
	"fmt"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/sandbox"
)

// class is the size of the machine that a work is about to get: that of the
// one there is, or of the one that would be placed now. What the work costs goes by it, before anything wakes.
func (m *machines) class(s Snapshot, w wanted) (billing.Class, error) {
	switch s.Sandbox.State {
	case sandbox.Live, sandbox.Creating:
		return billing.Class(s.Sandbox.Spec.Class), nil
	}
	if !w.make || m.place == nil { // there will be none
		return "", nil
	}
	at, err := m.place(Placing{Session: s.Session, Environment: s.Environment, Payer: w.payer, Plan: w.plan})
	if err != nil {
		return "", fmt.Errorf("%w: session %s: placing its machine: %w", ErrUnavailable, s.Session.ID, err)
	}
	return billing.Class(at.Spec.Class), nil
}
