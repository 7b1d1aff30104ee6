package sandbox

import (
	"fmt"
	"time"
)

// TombstoneStep is what follows from an observation of a tombstone's
// machines. Exactly one of its parts is set, or none: then it is too early.
type TombstoneStep struct {
	// Kill are the machines to destroy; the tombstone's AbsentSince is cleared.
	Kill []Incarnation
	// Absent: AbsentSince becomes the store's clock.
	Absent bool
	// Proven: the tombstone leaves the outbox.
	Proven bool
}

// DecideTombstone says what follows where the provider, asked from host for
// the tombstone's machines, answered found. live is the machine that the
// sandbox's row names as live, if it does: it is never killed. t and f.Now are
// from before the provider was asked.
//
// The error is ErrWrongHost where host can't tell, and ErrNotAllowed where t
// names the live machine itself.
func DecideTombstone(t Tombstone, f Facts, live Incarnation, host string, found []Found) (TombstoneStep, error) {
	if t.Host != "" && t.Host != host {
		return TombstoneStep{}, t.about(ErrWrongHost)
	}
	if t.Incarnation != "" && t.Incarnation == live {
		return TombstoneStep{}, t.about(ErrNotAllowed) // the outbox never names what a row names as live
	}
	if _, doomed := kill(found, t.Incarnation, live); doomed != nil {
		return TombstoneStep{Kill: doomed}, nil
	}
	switch proof(t.AbsentSince, t.NotBefore, f) {
	case proofFirst:
		return TombstoneStep{Absent: true}, nil
	case proofWait:
		return TombstoneStep{}, nil
	}
	return TombstoneStep{Proven: true}, nil
}

// about is err with its subject.
func (t Tombstone) about(err error) error {
	return fmt.Errorf("%w: tombstone of sandbox %s, generation %d, incarnation %q", err, t.Sandbox, t.Generation, t.Incarnation)
}

// Marked is t after a pass: one more attempt, with what the pass found out.
func (t Tombstone) Marked(s TombstoneStep, lastError string) Tombstone {
	t.Attempts++
	t.LastError = lastError
	t.Absent = s.Absent
	if s.Kill != nil {
		t.AbsentSince = time.Time{}
	}
	return t
}

// Stamped is t as it is stored when the store's clock shows clock.
func (t Tombstone) Stamped(clock time.Time) Tombstone {
	if t.Delay > 0 {
		t.NotBefore, t.Delay = clock.Add(t.Delay), 0
	}
	if t.Absent {
		t.AbsentSince, t.Absent = clock, false
	}
	return t
}
