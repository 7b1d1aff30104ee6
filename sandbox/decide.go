package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Decide says what follows from an event: the lifecycle of one machine. It is
// pure; an error is a refusal, and then nothing may be written or done. A
// pair of state and event that no rule names is refused with ErrNotAllowed.
//
// The rules, in one breath: nothing is asked of a provider before the intent
// is committed; a generation is never used twice; Destroying never leads back
// to Live; a machine counts as gone only after two not-found answers at least
// the visibility lag apart; and whatever may still exist when a row lets go of
// it is buried in the outbox in the same commit.
func Decide(row Row, f Facts, e Event) (Step, error) {
	switch e := e.(type) {
	case Ensure:
		return ensure(row, f, e)
	case NotSent:
		if row.State != Creating || !mine(row, e.Nonce) {
			return Step{}, notAllowed(row, e)
		}
		next := cleared(row, None)
		next.Deadline, next.MaxDeadline = time.Time{}, time.Time{} // nothing was asked: nothing is to be waited for
		return write(next), nil
	case Unanswered:
		if row.State != Creating {
			return Step{}, notAllowed(row, e)
		}
		return Step{}, nil
	case Created:
		if e.As.Incarnation == "" { // an answer that names no machine is none
			return Step{}, notAllowed(row, e)
		}
		return created(row, e), nil
	case Attached:
		if row.State != Live {
			return Step{}, notAllowed(row, e)
		}
		return sighted(row), nil
	case Unreached:
		if row.State != Live {
			return Step{}, notAllowed(row, e)
		}
		return Step{}, about(row.ID, ErrUnavailable)
	case Observed:
		return observed(row, f, e)
	case Stop:
		return stop(row, f, e)
	case Reopen:
		if !f.Ended {
			return Step{}, notAllowed(row, e)
		}
		return Step{}, nil // "ended" is cleared by whoever owns the sandbox; a teardown goes on
	case HostGone:
		return hostGone(row, e)
	case Deleted:
		if t, ok := row.Buried(); ok {
			return Step{Bury: []Tombstone{t}}, nil
		}
		return Step{}, nil
	}
	return Step{}, notAllowed(row, e)
}

func notAllowed(row Row, e Event) error {
	return fmt.Errorf("%w: sandbox %s is %v, event %T", ErrNotAllowed, row.ID, row.State, e)
}

// about is err with its subject.
func about(id ID, err error) error { return fmt.Errorf("%w: sandbox %s", err, id) }

// mine reports whether the row's intent is that of nonce. No nonce is nobody's.
func mine(row Row, nonce string) bool { return nonce != "" && row.Nonce == nonce }

func write(row Row) Step { return Step{Write: true, Row: row} }

// cleared is row without any machine, in a state that has none. Generation,
// key, payer, deadline and attempts stay: the next attempt needs them.
func cleared(row Row, s State) Row {
	row.State = s
	row.Name, row.Incarnation, row.Host, row.Nonce = "", "", "", ""
	row.NotBefore, row.AbsentSince, row.LiveAt = time.Time{}, time.Time{}, time.Time{}
	return row
}

func ensure(row Row, f Facts, e Ensure) (Step, error) {
	if f.Ended {
		return Step{}, about(row.ID, ErrEnded)
	}
	switch row.State {
	case Live:
		return Step{Then: EffectAttach}, nil
	case Creating:
		switch {
		case !f.Now.Before(row.Deadline):
			return Step{Then: EffectInspect}, nil
		case mine(row, e.Nonce): // the commit's reply was lost: the intent is ours
			return Step{Then: EffectCreate}, nil
		}
		return Step{}, &ProvisioningError{Sandbox: row.ID, RetryAfter: row.Deadline.Sub(f.Now)}
	case Lost:
		if !f.SessionMount && f.LossAccepted != row.Generation {
			return Step{}, &LostError{Sandbox: row.ID, Generation: row.Generation, LastSeen: row.LiveAt}
		}
	}
	if wait := row.Deadline.Add(backoff(row.Attempts)).Sub(f.Now); row.Attempts > 0 && wait > 0 {
		return Step{}, &AttemptsError{Sandbox: row.ID, Attempts: row.Attempts, RetryAfter: wait}
	}

	next := cleared(row, Creating)
	next.Generation++
	next.Nonce = e.Nonce
	next.Provider, next.Host, next.Deployment, next.Spec = e.Provider, e.Host, e.Deployment, e.Spec
	next.Payer = e.Payer // of this machine; what earlier ones have in the outbox is still whoever's it was
	if next.Key == "" {  // a stored key wins: it has named machines
		next.Key = e.Key
	}
	next.Name = Name(next.Key, next.Generation)
	step := write(next)
	step.Stamps = window(f, e.Caps)
	step.Stamps.MaxDeadline = f.MaxWindow
	step.CountMachine = true
	step.Then = EffectCreate
	if row.State == Destroying {
		t, _ := row.Buried()
		step.Bury = []Tombstone{t}
	}
	return step, nil
}

// window are the deadlines of an attempt that begins, or is prolonged, now.
func window(f Facts, c Caps) Stamps {
	return Stamps{Deadline: f.Window, NotBefore: f.Window + c.Horizon() + c.Lag()}
}

// backoff is how long after its deadline the attempt after n failed ones may begin.
func backoff(n int64) time.Duration {
	const first, most = time.Second, 5 * time.Minute
	if n <= 0 {
		return 0
	}
	if n > 9 {
		return most
	}
	return min(first<<(n-1), most)
}

// created: the reply of a create. It never leads to a kill: what the row does
// not name goes to the outbox, from where it is killed once that is committed.
func created(row Row, e Created) Step {
	same := row.ID == e.As.Sandbox && row.Generation == e.As.Generation
	switch {
	case same && row.State == Live && row.Incarnation == e.As.Incarnation:
		return Step{Then: EffectAttach}
	case same && row.State == Creating:
		return adopt(row, e.As.Incarnation, e.As.Host)
	}
	return Step{Bury: []Tombstone{e.As}, Report: about(e.As.Sandbox, ErrStale)}
}

func adopt(row Row, i Incarnation, host string) Step {
	row.State, row.Incarnation, row.Host, row.Attempts = Live, i, host, 0
	row.NotBefore, row.AbsentSince = time.Time{}, time.Time{}
	step := write(row)
	step.Stamps.Live = true
	step.Unclaimed = i
	step.Then = EffectAttach
	return step
}

// sighted: the row's machine was seen, which undoes any sign of its absence.
func sighted(row Row) Step {
	if row.AbsentSince.IsZero() {
		return Step{}
	}
	row.AbsentSince = time.Time{}
	return write(row)
}

func observed(row Row, f Facts, e Observed) (Step, error) {
	if row.Generation != e.Generation || row.Incarnation != e.Incarnation || row.State == None || row.State == Lost {
		return Step{}, notAllowed(row, e)
	}
	if row.Host != "" && row.Host != e.Host {
		return Step{}, about(row.ID, ErrWrongHost) // from elsewhere a not-found is unknown, never vanished
	}
	switch row.State {
	case Creating:
		return observedCreating(row, f, e)
	case Live:
		return observedLive(row, f, e)
	}
	return observedDestroying(row, f, e)
}

// observedCreating: the reconciler, or whoever comes after the deadline, owns
// a create that has not been answered.
func observedCreating(row Row, f Facts, e Observed) (Step, error) {
	if f.Now.Before(row.Deadline) {
		return Step{}, &ProvisioningError{Sandbox: row.ID, RetryAfter: row.Deadline.Sub(f.Now)}
	}
	if i, ok := ready(e.Found); ok {
		step := adopt(row, i, row.Host)
		if !f.Caps.UniqueNames {
			others := row.tombstone("")
			others.NotBefore = row.NotBefore
			step.Bury = []Tombstone{others}
		}
		return step, nil
	}
	if starting(e.Found) && f.Now.Before(row.MaxDeadline) {
		f.Window = min(f.Window, row.MaxDeadline.Sub(f.Now))
		step := write(row)
		step.Stamps = window(f, f.Caps)
		step.Report = &ProvisioningError{Sandbox: row.ID, RetryAfter: f.Window}
		return step, nil
	}
	row.State, row.Attempts, row.AbsentSince = Destroying, row.Attempts+1, time.Time{}
	step := write(row)
	if step.Then, step.Kill = kill(e.Found, "", ""); step.Then == EffectNone {
		step.Then = EffectInspect // whatever this create still makes is to be killed
	}
	step.Report = about(row.ID, ErrUnavailable)
	return step, nil
}

// starting reports whether something was found that may yet become ready.
func starting(found []Found) bool {
	return slices.ContainsFunc(found, func(m Found) bool { return m.Status == StatusStarting || m.Status == StatusUnknown })
}

// ready picks the machine to adopt among those found: of several, the one
// whose incarnation sorts first, so that everybody picks the same.
func ready(found []Found) (Incarnation, bool) {
	var best Incarnation
	for _, m := range found {
		if (m.Status == StatusRunning || m.Status == StatusStopped) && (best == "" || m.Incarnation < best) {
			best = m.Incarnation
		}
	}
	return best, best != ""
}

func observedLive(row Row, f Facts, e Observed) (Step, error) {
	if sees(e.Found, row.Incarnation) {
		return sighted(row), nil
	}
	lag := f.Caps.Lag()
	switch {
	case f.Now.Before(row.LiveAt.Add(lag)): // too young to be seen: unknown
		return Step{}, about(row.ID, ErrUnavailable)
	case row.AbsentSince.IsZero():
		step := write(row)
		step.Stamps.Absent = true
		step.Report = about(row.ID, ErrUnavailable)
		return step, nil
	case f.Now.Before(row.AbsentSince.Add(lag)):
		return Step{}, about(row.ID, ErrUnavailable)
	}
	// Lost is no proof of death: what was the machine is still to be killed, should it turn up.
	dead := row.tombstone(row.Incarnation)
	dead.Delay, dead.Origin = lag, OriginLost
	row.State, row.AbsentSince = Lost, time.Time{}
	step := write(row)
	step.Bury = []Tombstone{dead}
	return step, nil
}

func observedDestroying(row Row, f Facts, e Observed) (Step, error) {
	then, doomed := kill(e.Found, row.Incarnation, "")
	if then == EffectDestroy {
		step := sighted(row)
		step.Then, step.Kill = then, doomed
		return step, nil
	}
	switch proof(row.AbsentSince, row.NotBefore, f) {
	case proofFirst:
		step := write(row)
		step.Stamps.Absent = true
		return step, nil
	case proofWait:
		return Step{}, nil
	}
	step := write(cleared(row, None))
	step.Stamps.Destroyed = true
	return step, nil
}

func stop(row Row, f Facts, e Stop) (Step, error) {
	if e.Why > StopIdle || e.Why == StopIdle && row.State != Live {
		return Step{}, notAllowed(row, e)
	}
	if e.Why == StopIdle && f.SlotsLive {
		return Step{}, about(row.ID, ErrWorking)
	}
	if e.Why != StopIdle && f.Ended {
		return Step{}, nil // ended already: nothing is killed again
	}
	var step Step
	switch row.State {
	case Creating: // a create is under way: nobody knows what it makes
		row.State, row.AbsentSince = Destroying, time.Time{}
		step = write(row)
		step.Then = EffectInspect
	case Live:
		row.State, row.AbsentSince, row.NotBefore = Destroying, time.Time{}, time.Time{}
		step = write(row)
		step.Then, step.Kill = EffectDestroy, []Incarnation{row.Incarnation}
		step.RequireIdle = e.Why == StopIdle
	}
	return step, nil
}

// hostGone: with its host every machine on it is gone, and its files with it.
// What was to be destroyed is, by the operator's word; what was live is lost.
// The lost row names neither machine nor host any more, for it must never leave
// a tombstone, which nobody could prove: should the host come back all the same,
// a sweep finds what no row names.
func hostGone(row Row, e HostGone) (Step, error) {
	if e.Host == "" || row.Host != e.Host {
		return Step{}, notAllowed(row, e)
	}
	switch row.State {
	case Creating:
		return write(cleared(row, None)), nil
	case Live:
		row.State, row.Incarnation, row.Host, row.AbsentSince = Lost, "", "", time.Time{}
		return write(row), nil
	case Destroying:
		step := write(cleared(row, None))
		step.Stamps.Destroyed = true
		return step, nil
	}
	return Step{}, notAllowed(row, e)
}

// proof of absence: two not-found answers, the lag apart, with no sighting
// between, and not before NotBefore.
type proofState uint8

const (
	proofFirst proofState = iota // this not-found is the first
	proofWait                    // too early for the second
	proofDone
)

func proof(absentSince, notBefore time.Time, f Facts) proofState {
	switch {
	case absentSince.IsZero():
		return proofFirst
	case f.Now.Before(absentSince.Add(f.Caps.Lag())) || f.Now.Before(notBefore):
		return proofWait
	}
	return proofDone
}

func sees(found []Found, i Incarnation) bool {
	return slices.ContainsFunc(found, func(m Found) bool { return m.Incarnation == i })
}

// kill picks whom to kill among those found: the machine only, or where that
// is not known everything but the spared one.
func kill(found []Found, only, spared Incarnation) (Effect, []Incarnation) {
	var doomed []Incarnation
	for _, m := range found {
		if only == "" && (spared == "" || m.Incarnation != spared) || only != "" && m.Incarnation == only {
			doomed = append(doomed, m.Incarnation)
		}
	}
	if doomed == nil {
		return EffectNone, nil
	}
	slices.SortFunc(doomed, func(a, b Incarnation) int { return strings.Compare(string(a), string(b)) })
	return EffectDestroy, doomed
}
