package sandbox

import "time"

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
// sandbox's row names as live, if it does: it is never killed.
//
// The error is ErrWrongHost where host can't tell.
func DecideTombstone(t Tombstone, f Facts, live Incarnation, host string, found []Found) (TombstoneStep, error) {
	if t.Host != "" && t.Host != host {
		return TombstoneStep{}, ErrWrongHost
	}
	if t.Incarnation != "" && t.Incarnation == live {
		return TombstoneStep{}, ErrNotAllowed // the outbox never names what a row names as live
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

// Marked is t after a pass: one more attempt, with what the pass found out.
func (t Tombstone) Marked(s TombstoneStep, lastError string, clock time.Time) Tombstone {
	t.Attempts++
	t.LastError = lastError
	switch {
	case s.Kill != nil:
		t.AbsentSince = time.Time{}
	case s.Absent:
		t.AbsentSince = clock
	}
	return t
}
