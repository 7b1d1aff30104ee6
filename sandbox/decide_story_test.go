package sandbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/google/go-cmp/cmp"
)

// life is one sandbox that lives through the events of a story.
type life struct {
	t      *testing.T
	row    sandbox.Row
	facts  sandbox.Facts
	outbox []sandbox.Tombstone
}

const (
	lag     = time.Minute
	horizon = 10 * time.Minute
	window  = 30 * time.Second
)

func begun(t *testing.T) *life {
	return &life{t: t,
		row: sandbox.Row{ID: "sandbox-1", Session: "session-1"},
		facts: sandbox.Facts{Now: now, Window: window, MaxWindow: 5 * window,
			Caps: sandbox.Caps{VisibilityLag: lag, CreateHorizon: horizon}},
	}
}

// living is a life whose machine i1 has been live for long.
func living(t *testing.T) *life {
	l := begun(t)
	l.do(l.ensure("n1"))
	l.do(l.answer("i1"))
	l.pass(time.Hour)
	return l
}

func (l *life) ensure(nonce string) sandbox.Ensure {
	return sandbox.Ensure{Nonce: nonce, Provider: "p", Caps: l.facts.Caps, Key: "bkr-key", Payer: "payer-1", Deployment: "d"}
}

func (l *life) answer(i sandbox.Incarnation) sandbox.Created {
	as, _ := l.row.Buried()
	as.Incarnation = i
	return sandbox.Created{As: as}
}

// sees is what a provider says of the row's machines.
func (l *life) sees(found ...sandbox.Found) sandbox.Observed {
	return sandbox.Observed{Generation: l.row.Generation, Incarnation: l.row.Incarnation, Found: found}
}

// seesFrom is sees, asked on a host.
func (l *life) seesFrom(host string, found ...sandbox.Found) sandbox.Observed {
	o := l.sees(found...)
	o.Host = host
	return o
}

func machine(i sandbox.Incarnation, s sandbox.Status) sandbox.Found {
	return sandbox.Found{Incarnation: i, Status: s}
}

func (l *life) pass(d time.Duration) { l.facts.Now = l.facts.Now.Add(d) }

// do commits what follows from e.
func (l *life) do(e sandbox.Event) sandbox.Step {
	l.t.Helper()
	s, err := sandbox.Decide(l.row, l.facts, e)
	if err != nil {
		l.t.Fatalf("%T in state %v: %v", e, l.row.State, err)
	}
	var a after
	commit(&a, l.row, &s, l.facts.Now)
	if l.row = a.row; s.Write {
		l.row.Version++
	}
	l.outbox = append(l.outbox, a.bury...)
	return s
}

// refused expects a refusal that names its subject.
func (l *life) refused(e sandbox.Event, want error) {
	l.t.Helper()
	s, err := sandbox.Decide(l.row, l.facts, e)
	if !sameError(err, want) || !nothing(&s) {
		l.t.Fatalf("%T in state %v: step %+v, error %v; want the error %v alone", e, l.row.State, s, err, want)
	}
	if !strings.Contains(err.Error(), "sandbox-1") {
		l.t.Errorf("refusal without its subject: %v", err)
	}
}

func (l *life) is(s sandbox.State) {
	l.t.Helper()
	if l.row.State != s {
		l.t.Fatalf("state %v, want %v", l.row.State, s)
	}
}

func TestDecideEndWhileCreating(t *testing.T) { // T-14; rules 1, 3, 6
	l := begun(t)
	l.do(l.ensure("n1"))
	deadline := l.row.Deadline
	if !l.row.NotBefore.Equal(deadline.Add(horizon + lag)) {
		t.Fatalf("the intent stores not_before %v, want the deadline plus horizon and lag", l.row.NotBefore)
	}
	late := l.answer("i1")
	if s := l.do(sandbox.Stop{}); s.Then != sandbox.EffectInspect {
		t.Errorf("effect %v, want inspect", s.Then)
	}
	l.is(sandbox.Destroying)
	if s := l.do(late); !errors.Is(s.Report, sandbox.ErrStale) || len(l.outbox) != 1 || l.outbox[0].Incarnation != "i1" || s.Then != sandbox.EffectNone {
		t.Errorf("the late reply must go to the outbox and kill nothing: %+v", s)
	}
	l.do(l.sees()) // first not-found
	l.pass(lag)
	if l.do(l.sees()); l.row.State != sandbox.Destroying {
		t.Fatal("proven gone while the create may still make a machine")
	}
	l.facts.Now = deadline.Add(horizon + lag)
	if s := l.do(l.sees(machine("i1", sandbox.StatusRunning))); !slices.Equal(s.Kill, []sandbox.Incarnation{"i1"}) {
		t.Errorf("what appeared must be killed: %+v", s)
	}
	l.do(l.sees()) // first again: the sighting undid the earlier one
	l.is(sandbox.Destroying)
	l.pass(lag)
	l.do(l.sees())
	l.is(sandbox.None)
	if !l.row.DestroyedAt.Equal(l.facts.Now) {
		t.Errorf("DestroyedAt %v", l.row.DestroyedAt)
	}
}

func TestDecideEndTwice(t *testing.T) { // T-16, T-18, T-19
	l := living(t)
	if s := l.do(sandbox.Stop{}); !s.Write || s.Then != sandbox.EffectDestroy || !slices.Equal(s.Kill, []sandbox.Incarnation{"i1"}) {
		t.Fatalf("end must commit its intent and then kill exactly the incarnation: %+v", s)
	}
	for _, endedAlready := range []bool{false, true} {
		l.facts.Ended = endedAlready
		if s := l.do(sandbox.Stop{}); !nothing(&s) {
			t.Errorf("ended %v: a second end must do nothing: %+v", endedAlready, s)
		}
	}
}

func TestDecideDestroyingIsAbsorbing(t *testing.T) { // T-15, T-29; rule 4
	l := living(t)
	l.do(sandbox.Stop{})
	l.facts.Ended = true
	l.refused(l.ensure("n2"), sandbox.ErrEnded)
	if s := l.do(sandbox.Reopen{}); !nothing(&s) {
		t.Errorf("reopen must leave the teardown alone: %+v", s)
	}
	l.facts.Ended = false
	l.do(l.sees()) // a first not-found, which does not count for the outbox
	dying := l.row
	s := l.do(l.ensure("n2"))
	want, _ := dying.Buried()
	if diff := cmp.Diff([]sandbox.Tombstone{want}, l.outbox); diff != "" || !want.AbsentSince.IsZero() {
		t.Errorf("the dying machine must go to the outbox, its proof from the start: %s", diff)
	}
	if l.row.Generation != dying.Generation+1 || l.row.Name == dying.Name || !s.CountMachine {
		t.Errorf("a new generation with a name of its own, counted: %+v", s)
	}
}

func TestDecideLoser(t *testing.T) { // T-21, T-22; rule 5
	l := begun(t)
	l.do(l.ensure("n1"))
	mine, other := l.answer("i1"), l.answer("i2")
	if s := l.do(mine); s.Unclaimed != "i1" || s.Then != sandbox.EffectAttach {
		t.Errorf("adoption refuses what the outbox names: %+v", s)
	}
	if s := l.do(mine); s.Then != sandbox.EffectAttach || s.Write || s.Bury != nil {
		t.Errorf("where the row names the machine already, it is used: %+v", s)
	}
	if s := l.do(other); s.Then != sandbox.EffectNone || s.Kill != nil || len(l.outbox) != 1 {
		t.Errorf("the loser's machine goes to the outbox and is not killed here: %+v", s)
	}
	gone := &life{t: t, facts: l.facts}
	if gone.do(mine); len(gone.outbox) != 1 || gone.outbox[0].Incarnation != "i1" {
		t.Errorf("of a deleted row too: %+v", gone.outbox)
	}
}

func TestDecideOutageChangesNothing(t *testing.T) { // T-20, T-23
	l := living(t)
	l.refused(sandbox.Unreached{}, sandbox.ErrUnavailable)
	l.row.Host = "elsewhere"
	l.refused(l.sees(), sandbox.ErrWrongHost) // rule 12: from another host a not-found is unknown
}

func TestDecideLoss(t *testing.T) { // rules 6, 15
	l := living(t)
	l.row.LiveAt = l.facts.Now.Add(-lag + 1)
	l.refused(l.sees(), sandbox.ErrUnavailable) // younger than the lag: unknown
	l.pass(1)
	if s := l.do(l.sees()); !errors.Is(s.Report, sandbox.ErrUnavailable) {
		t.Errorf("once is not enough: %v", s.Report)
	}
	l.pass(lag - 1)
	l.refused(l.sees(), sandbox.ErrUnavailable) // twice, but not the lag apart
	l.do(l.sees(machine("i1", sandbox.StatusStopped)))
	l.pass(lag)
	l.do(l.sees()) // the first again: it was seen between
	l.is(sandbox.Live)
	l.pass(lag)
	l.do(l.sees())
	l.is(sandbox.Lost)
	if len(l.outbox) != 1 || !l.outbox[0].NotBefore.Equal(l.facts.Now.Add(lag)) {
		t.Errorf("lost is no proof of death: %+v", l.outbox)
	}

	lost := &sandbox.LostError{Sandbox: "sandbox-1", Generation: 1, LastSeen: l.row.LiveAt}
	l.refused(l.ensure("n2"), lost)
	l.facts.LossAccepted = 2
	l.refused(l.ensure("n2"), lost)
	mounted := *l
	mounted.facts.SessionMount = true
	mounted.do(mounted.ensure("n2"))
	mounted.is(sandbox.Creating)
	l.facts.LossAccepted = 1
	l.do(l.ensure("n2"))
	l.is(sandbox.Creating)
}

func TestDecideStarting(t *testing.T) { // rule 9
	l := begun(t)
	l.do(l.ensure("n1"))
	l.pass(time.Second)
	l.refused(l.ensure("n2"), &sandbox.ProvisioningError{Sandbox: "sandbox-1", RetryAfter: window - time.Second}) // rule 14
	maximum := l.row.MaxDeadline
	starting := machine("i1", sandbox.StatusStarting)
	for l.facts.Now = l.row.Deadline; l.facts.Now.Before(maximum); l.facts.Now = l.row.Deadline {
		if s := l.do(l.sees(starting)); s.Then != sandbox.EffectNone || s.Kill != nil {
			t.Fatalf("what is starting is waited for: %+v", s)
		}
		if !l.row.Deadline.After(l.facts.Now) || l.row.Deadline.After(maximum) {
			t.Fatalf("deadline %v is not between now, %v, and the hard maximum %v", l.row.Deadline, l.facts.Now, maximum)
		}
	}
	if s := l.do(l.sees(starting)); !slices.Equal(s.Kill, []sandbox.Incarnation{"i1"}) || l.row.Attempts != 1 {
		t.Errorf("at the hard maximum it is given up and killed: %+v", s)
	}
	l.is(sandbox.Destroying)
}

func TestDecideFailedMachineIsNotWaitedFor(t *testing.T) { // rule 9: only "starting" renews the deadline
	l := begun(t)
	l.do(l.ensure("n1"))
	l.facts.Now = l.row.Deadline
	l.do(l.sees(machine("i1", sandbox.StatusFailed)))
	l.is(sandbox.Destroying)
}

func TestDecideAdoptsBeforeGivingUp(t *testing.T) { // rules 3, 5, 9
	for _, unique := range []bool{false, true} {
		l := begun(t)
		l.facts.Caps.UniqueNames = unique
		l.do(l.ensure("n1"))
		notBefore := l.row.NotBefore
		l.facts.Now = l.row.Deadline
		found := []sandbox.Found{machine("i3", sandbox.StatusRunning), machine("i2", sandbox.StatusRunning), machine("i1", sandbox.StatusFailed)}
		seen := slices.Clone(found)
		s := l.do(l.sees(found...))
		l.is(sandbox.Live)
		if l.row.Incarnation != "i2" || s.Unclaimed != "i2" || s.Kill != nil {
			t.Errorf("of several all must pick the same, and kill none: %+v", s)
		}
		if !slices.Equal(found, seen) {
			t.Error("the caller's slice was changed")
		}
		switch {
		case unique && len(l.outbox) != 0:
			t.Errorf("where names are unique there is no other: %+v", l.outbox)
		case !unique && (len(l.outbox) != 1 || l.outbox[0].Incarnation != "" || !l.outbox[0].NotBefore.Equal(notBefore)):
			t.Errorf("the others of the generation go to the outbox: %+v", l.outbox)
		}
	}
}

func TestDecideBackoff(t *testing.T) { // rule 9
	want := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300}
	l := begun(t)
	for n, seconds := range want {
		l.row.Attempts, l.row.Deadline = int64(n+1), l.facts.Now
		pause := seconds * time.Second
		l.refused(l.ensure("n1"), &sandbox.AttemptsError{Sandbox: "sandbox-1", Attempts: int64(n + 1), RetryAfter: pause})
		next := *l
		next.pass(pause)
		next.do(next.ensure("n1"))
		next.is(sandbox.Creating)
		if next.row.Attempts != int64(n+1) {
			t.Errorf("attempt %d: %d counted; only a live machine ends the row of failures", n+1, next.row.Attempts)
		}
		if next.do(next.answer("i1")); next.row.Attempts != 0 {
			t.Errorf("%d attempts counted with a live machine", next.row.Attempts)
		}
	}
}

func TestDecideStoredKeyWins(t *testing.T) { // T-13; rule 7: whose limit is checked is whose machine is counted
	l := living(t)
	l.do(sandbox.Stop{})
	other := l.ensure("n2")
	other.Key, other.Payer = "bkr-other", "payer-2"
	s := l.do(other)
	if l.row.Key != "bkr-key" {
		t.Errorf("key %s, want the stored one", l.row.Key)
	}
	if l.row.Payer != "payer-2" || len(s.Bury) != 1 || s.Bury[0].Payer != "payer-1" {
		t.Errorf("generation 2 is paid for by %s, and the dying one %+v, want each by who had it made", l.row.Payer, s.Bury)
	}
}

func TestDecideIdle(t *testing.T) { // rule 11
	l := living(t)
	l.facts.SlotsLive = true
	l.refused(sandbox.Stop{Why: sandbox.StopIdle}, sandbox.ErrWorking)
	l.facts.SlotsLive = false
	if s := l.do(sandbox.Stop{Why: sandbox.StopIdle}); !s.RequireIdle {
		t.Error("the commit must ask again, in the same statement")
	}
}

func TestDecideNothingWithoutNames(t *testing.T) { // what carries no identity matches nothing
	l := begun(t)
	l.do(l.ensure(""))
	l.refused(l.ensure(""), &sandbox.ProvisioningError{Sandbox: "sandbox-1", RetryAfter: window})
	l.refused(sandbox.NotSent{}, sandbox.ErrNotAllowed)
	l.refused(l.answer(""), sandbox.ErrNotAllowed)
	l.do(sandbox.Stop{})
	if s := l.do(l.sees(machine("", sandbox.StatusRunning))); s.Then != sandbox.EffectDestroy {
		t.Errorf("a machine was seen, if without a name: that is no absence: %+v", s)
	}
	l.refused(nil, sandbox.ErrNotAllowed)
}

func TestDecideEnvironmentEnds(t *testing.T) { // rule 13: an environment's end is an end, in every state
	for _, why := range []sandbox.StopReason{sandbox.StopEnd, sandbox.StopEnvironment} {
		l := begun(t)
		if s := l.do(sandbox.Stop{Why: why}); !nothing(&s) {
			t.Errorf("%d: nothing is there to stop: %+v", why, s)
		}
		l.do(l.ensure("n1"))
		if s := l.do(sandbox.Stop{Why: why}); s.Then != sandbox.EffectInspect || s.RequireIdle {
			t.Errorf("%d while creating: %+v", why, s)
		}
		l.is(sandbox.Destroying)
		l = living(t)
		l.facts.SlotsLive = true // somebody's work is no reason to keep it
		if s := l.do(sandbox.Stop{Why: why}); !slices.Equal(s.Kill, []sandbox.Incarnation{"i1"}) || s.RequireIdle {
			t.Errorf("%d while live: %+v", why, s)
		}
		l.facts.Ended = true
		if s := l.do(sandbox.Stop{Why: why}); !nothing(&s) {
			t.Errorf("%d: a second end must do nothing: %+v", why, s)
		}
	}
}

func TestDecideHostGone(t *testing.T) { // rule 12: from elsewhere nothing is known, until an operator says so
	gone := sandbox.HostGone{Host: "host-1"}
	bound := func(l *life) *life { l.row.Host = "host-1"; return l }

	l := bound(living(t))
	l.do(l.seesFrom("host-1")) // not found once, from its own host
	l.refused(l.seesFrom("host-2"), sandbox.ErrWrongHost)
	l.refused(sandbox.HostGone{Host: "host-2"}, sandbox.ErrNotAllowed)
	seen := l.row.LiveAt
	if s := l.do(gone); s.Bury != nil || s.Kill != nil || s.Then != sandbox.EffectNone {
		t.Errorf("there is nothing left to kill, and nobody who could: %+v", s)
	}
	l.is(sandbox.Lost)
	if !l.row.AbsentSince.IsZero() {
		t.Error("a not-found from before still counts")
	}
	l.refused(l.ensure("n2"), &sandbox.LostError{Sandbox: "sandbox-1", Generation: 1, LastSeen: seen}) // rule 15
	l.refused(gone, sandbox.ErrNotAllowed)                                                             // said twice
	if s := l.do(sandbox.Deleted{}); s.Bury != nil {
		t.Errorf("a tombstone that nobody could ever prove: %+v", s.Bury)
	}

	l = bound(living(t))
	l.do(sandbox.Stop{})
	l.do(gone)
	l.is(sandbox.None)
	if !l.row.DestroyedAt.Equal(l.facts.Now) || l.row.Generation != 1 {
		t.Errorf("destroyed by the operator's word: %+v", l.row)
	}

	l = begun(t)
	ensure := l.ensure("n1")
	ensure.Host = "host-1"
	l.do(ensure)
	late := l.answer("i1")
	l.do(gone)
	l.is(sandbox.None)
	if l.row.Generation != 1 || !l.row.DestroyedAt.IsZero() {
		t.Errorf("nothing was there to be destroyed, and the generation is spent: %+v", l.row)
	}
	if s := l.do(late); len(l.outbox) != 1 || s.Then != sandbox.EffectNone {
		t.Errorf("should the host live all the same, its answer goes to the outbox: %+v", s)
	}

	l = living(t) // bound to no host
	l.refused(sandbox.HostGone{}, sandbox.ErrNotAllowed)
	l.refused(gone, sandbox.ErrNotAllowed)
}
