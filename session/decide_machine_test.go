package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

var terms = session.Terms{Caps: lagging, Window: 75 * time.Second, MaxWindow: 750 * time.Second}

func ensureCommand() session.CommandEnsure {
	return session.CommandEnsure{
		Want: sandbox.Ensure{
			Nonce: "mine", Provider: "memory", Caps: lagging, Key: "bkr-new", Payer: "ann", Deployment: "d", Spec: sandbox.Spec{Image: "i"},
		},
		Terms: terms, MaxMachines: 3,
	}
}

var (
	sessionGuard = []session.Guard{{Session: "s", Version: 7}}
	sandboxGuard = []session.Guard{{Sandbox: "b", Version: 9}}
	machineLimit = []session.Limit{{Kind: session.MachinesPerPayer, Scope: "ann", Max: 3}}
	buried       = sandbox.Tombstone{
		TombstoneKey: sandbox.TombstoneKey{Sandbox: "b", Generation: 3, Incarnation: "m"},
		Name:         "bkr-k-g3", Provider: "memory", Payer: "ann", Origin: sandbox.OriginTornDown,
	}
)

// attempt is the row of s with an intent to make the next generation.
func attempt(s session.Snapshot, key sandbox.Key) *sandbox.Row {
	row := s.Sandbox
	row.State, row.Generation, row.Nonce = sandbox.Creating, row.Generation+1, "mine"
	row.Name, row.Incarnation, row.LiveAt = sandbox.Name(key, row.Generation), "", time.Time{}
	row.Provider, row.Deployment, row.Spec, row.Payer, row.Key = "memory", "d", sandbox.Spec{Image: "i"}, "ann", key
	return &row
}

func TestDecideEnsure(t *testing.T) {
	stamps := sandbox.Stamps{
		Deadline: 75 * time.Second, MaxDeadline: 750 * time.Second, NotBefore: 75*time.Second + 2*time.Minute + time.Minute,
	}
	make := func(row *sandbox.Row, bury ...sandbox.Tombstone) session.Decision {
		return session.Decision{Then: sandbox.EffectCreate, Change: session.Change{
			Sandbox: row, Stamps: stamps, Bury: bury, Expect: sessionGuard, Limits: machineLimit,
		}}
	}
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		if s.Session.Ended() {
			wantDecision(t, "S-10/T-24: an ended session gets no machine", s, ensureCommand(), session.Decision{}, session.ErrEnded)
			return
		}
		switch s.Sandbox.State {
		case sandbox.None:
			wantDecision(t, "the intent rests on the session not having ended and counts against the payer's machines",
				s, ensureCommand(), make(attempt(s, "bkr-new")), nil)
		case sandbox.Creating:
			got, err := session.Decide(s, ensureCommand())
			if e := wantType[*sandbox.ProvisioningError](t, "rule 14: somebody else's attempt is waited for", err); e.RetryAfter != time.Minute || !got.Change.Empty() {
				t.Errorf("rule 14: RetryAfter %v, change %+v", e.RetryAfter, got.Change)
			}
			s.Sandbox.Nonce = "mine"
			wantDecision(t, "an intent of one's own whose commit was unanswered is performed", s, ensureCommand(), session.Decision{Then: sandbox.EffectCreate}, nil)
			s.Sandbox.Deadline = t0
			wantDecision(t, "after the deadline nobody creates: whoever comes looks", s, ensureCommand(), session.Decision{Then: sandbox.EffectInspect}, nil)
		case sandbox.Live:
			wantDecision(t, "a live machine is attached to, and nothing is written", s, ensureCommand(), session.Decision{Then: sandbox.EffectAttach}, nil)
		case sandbox.Lost:
			_, err := session.Decide(s, ensureCommand())
			if e := wantType[*sandbox.LostError](t, "rule 15: a loss is told first", err); e.Generation != 3 || !e.LastSeen.Equal(s.Sandbox.LiveAt) {
				t.Errorf("rule 15: %+v", e)
			}
			c := ensureCommand()
			c.AcceptLoss = 2
			_, err = session.Decide(s, c)
			wantType[*sandbox.LostError](t, "rule 15: the loss of another generation is not this one", err)
			c.AcceptLoss = 3
			wantDecision(t, "rule 15: an accepted loss makes room for the next generation", s, c, make(attempt(s, "bkr-k")), nil)
		case sandbox.Destroying:
			wantDecision(t, "rule 4: the dying machine goes to the outbox with the commit that begins the next; T-13: the stored key stays",
				s, ensureCommand(), make(attempt(s, "bkr-k"), buried), nil)
		}
	})
}

func TestDecideEnd(t *testing.T) {
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		command := session.CommandEnd{Terms: terms}
		if s.Session.Ended() {
			wantDecision(t, "T-16: ending what has ended kills nothing again", s, command, session.Decision{}, nil)
			return
		}
		ended := s.Session
		want := session.Decision{Change: session.Change{Session: &ended, End: true}}
		row := s.Sandbox
		row.State, row.AbsentSince = sandbox.Destroying, time.Time{}
		switch s.Sandbox.State {
		case sandbox.Creating:
			want.Change.Sandbox, want.Then = &row, sandbox.EffectInspect
		case sandbox.Live:
			row.NotBefore = time.Time{}
			want.Change.Sandbox, want.Then, want.Kill = &row, sandbox.EffectDestroy, []sandbox.Incarnation{"m"}
		default:
			want.Change.Expect = sandboxGuard
		}
		wantDecision(t, "T-14: the end writes the teardown, or rests on there being nothing to tear down", s, command, want, nil)
	})
}

func TestDecideIdle(t *testing.T) {
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		command := session.CommandIdle{Terms: terms}
		if s.Sandbox.State != sandbox.Live {
			wantDecision(t, "only what is live is stopped for idleness", s, command, session.Decision{}, sandbox.ErrNotAllowed)
			return
		}
		row := s.Sandbox
		row.State, row.AbsentSince, row.NotBefore = sandbox.Destroying, time.Time{}, time.Time{}
		wantDecision(t, "rule 11: the teardown is written only where nobody works, in the same instant; the session stays as it is", s, command, session.Decision{
			Change: session.Change{Sandbox: &row, Idle: "b"}, Then: sandbox.EffectDestroy, Kill: []sandbox.Incarnation{"m"},
		}, nil)
	})
}

// happened decides about an event.
func happened(e session.MachineEvent) session.CommandHappened {
	return session.CommandHappened{Event: e, Terms: terms}
}

func TestDecideReplyOfACreate(t *testing.T) {
	reply := buried
	reply.Host = "h"
	tell := happened(sandbox.Created{As: reply})
	burial := func(version int64) session.Decision {
		return session.Decision{Report: sandbox.ErrStale, Change: session.Change{
			Bury: []sandbox.Tombstone{reply}, Expect: []session.Guard{{Sandbox: "b", Version: version}},
		}}
	}
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		switch s.Sandbox.State {
		case sandbox.Creating:
			row := s.Sandbox
			row.State, row.Incarnation, row.Host, row.NotBefore = sandbox.Live, "m", "h", time.Time{}
			wantDecision(t, "rule 5: the reply is adopted unless the outbox names the machine", s, tell, session.Decision{
				Then:   sandbox.EffectAttach,
				Change: session.Change{Sandbox: &row, Stamps: sandbox.Stamps{Live: true}, Unclaimed: "m"},
			}, nil)
		case sandbox.Live:
			wantDecision(t, "T-21: where the row names this very machine it is ours too", s, tell, session.Decision{Then: sandbox.EffectAttach}, nil)
			s.Sandbox.Incarnation = "other"
			wantDecision(t, "T-22: the loser's machine is buried, resting on the row that does not name it", s, tell, burial(9), nil)
		default:
			wantDecision(t, "T-14: a late create is buried, resting on the row that does not want it", s, tell, burial(9), nil)
		}
	})
	gone := session.Snapshot{Now: t0}
	wantDecision(t, "rule 5: where the row is gone the burial rests on that", gone, tell, burial(0), nil)

	next := given(sandbox.Creating, false)
	next.Sandbox.Generation = 4
	wantDecision(t, "rule 2: a late create of an old generation can't become the new one", next, tell, burial(9), nil)
}

func TestDecideWhatIsSeen(t *testing.T) {
	seen := func(found ...sandbox.Found) session.CommandHappened {
		return happened(sandbox.Observed{Generation: 3, Incarnation: "m", Found: found})
	}
	running := sandbox.Found{Incarnation: "m", Status: sandbox.StatusRunning}

	live := given(sandbox.Live, false)
	wantDecision(t, "a live machine that is seen writes nothing", live, seen(running), session.Decision{}, nil)
	once := live.Sandbox
	wantDecision(t, "T-23: one not-found is noted and told as an outage, no more", live, seen(), session.Decision{
		Change: session.Change{Sandbox: &once, Stamps: sandbox.Stamps{Absent: true}}, Report: sandbox.ErrUnavailable,
	}, nil)
	live.Sandbox.AbsentSince = t0.Add(-59 * time.Second)
	wantDecision(t, "rule 8: a second not-found inside the lag is no second", live, seen(), session.Decision{}, sandbox.ErrUnavailable)
	live.Sandbox.AbsentSince = t0.Add(-time.Minute)
	lost, dead := live.Sandbox, buried
	lost.State, lost.AbsentSince, dead.Delay, dead.Origin = sandbox.Lost, time.Time{}, time.Minute, sandbox.OriginLost
	wantDecision(t, "rule 6: lost is no proof of death: the machine goes to the outbox in the same commit", live, seen(), session.Decision{
		Change: session.Change{Sandbox: &lost, Bury: []sandbox.Tombstone{dead}},
	}, nil)

	dying := given(sandbox.Destroying, true)
	wantDecision(t, "only a destroying row leads to a kill", dying, seen(running),
		session.Decision{Then: sandbox.EffectDestroy, Kill: []sandbox.Incarnation{"m"}}, nil)
	dying.Sandbox.AbsentSince = t0.Add(-time.Minute)
	sighted := dying.Sandbox
	sighted.AbsentSince = time.Time{}
	wantDecision(t, "rule 6: a sighting between two not-found answers undoes the first", dying, seen(running), session.Decision{
		Change: session.Change{Sandbox: &sighted}, Then: sandbox.EffectDestroy, Kill: []sandbox.Incarnation{"m"},
	}, nil)
	none := sighted
	none.State, none.Name, none.Incarnation, none.Nonce, none.LiveAt = sandbox.None, "", "", "", time.Time{}
	wantDecision(t, "rule 6: two not-found answers the lag apart are proof", dying, seen(), session.Decision{
		Change: session.Change{Sandbox: &none, Stamps: sandbox.Stamps{Destroyed: true}},
	}, nil)
}

func TestDecideAttemptsBackOff(t *testing.T) {
	s := given(sandbox.None, false)
	s.Sandbox.Attempts, s.Sandbox.Deadline = 3, t0.Add(-time.Second)
	_, err := session.Decide(s, ensureCommand())
	e := wantType[*sandbox.AttemptsError](t, "rule 9: after failed attempts the next one waits", err)
	if e.Attempts != 3 || e.RetryAfter != 3*time.Second {
		t.Errorf("rule 9: %d attempts, RetryAfter %v, want 3 and 3s (4s after the deadline)", e.Attempts, e.RetryAfter)
	}
	s.Sandbox.Deadline = t0.Add(-4 * time.Second)
	if d, err := session.Decide(s, ensureCommand()); err != nil || d.Then != sandbox.EffectCreate {
		t.Errorf("rule 9: after the pause: %v, %v", d.Then, err)
	}
}

// Whatever is decided, a change names the version of each row that it rests
// on, and a machine is counted wherever one is begun.
func TestEveryChangeNamesWhatItRestsOn(t *testing.T) {
	commands := []session.Command{
		session.CommandAdd{Conversation: talk()}, session.CommandRename{Name: "new"}, session.CommandReopen{},
		session.CommandEnd{Terms: terms}, session.CommandIdle{Terms: terms}, ensureCommand(),
		happened(sandbox.NotSent{Nonce: "theirs"}), happened(sandbox.Unanswered{}), happened(sandbox.Created{As: buried}),
		happened(sandbox.Attached{}), happened(sandbox.Observed{Generation: 3, Incarnation: "m"}), happened(sandbox.Observed{Generation: 3}),
	}
	eachGiven(t, func(t *testing.T, s session.Snapshot) {
		for _, c := range commands {
			d, err := session.Decide(s, c)
			if err != nil {
				continue
			}
			names := map[string]bool{}
			for _, g := range d.Change.Expect {
				if (g.Session == "") == (g.Sandbox == "") {
					t.Errorf("%T: guard %+v names neither or both", c, g)
				}
				names["session"] = names["session"] || g == sessionGuard[0]
				names["sandbox"] = names["sandbox"] || g == sandboxGuard[0]
			}
			if w := d.Change.Session; w != nil {
				names["session"] = names["session"] || w.Version == 7
			}
			if w := d.Change.Sandbox; w != nil {
				names["sandbox"] = names["sandbox"] || w.Version == 9
			}
			if len(d.Change.Bury) > 0 && !names["sandbox"] {
				t.Errorf("%T: buries without naming the row that let go", c)
			}
			begins := d.Change.Sandbox != nil && d.Change.Sandbox.State == sandbox.Creating && d.Change.Sandbox.Generation > s.Sandbox.Generation
			if begins && (!names["session"] || len(d.Change.Limits) != 1) {
				t.Errorf("%T: begins a machine without the session's version or without counting it", c)
			}
			if _, asked := c.(session.CommandIdle); (d.Change.Idle != "") != asked {
				t.Errorf("rule 11: %T: Idle is %q", c, d.Change.Idle)
			}
			if d.Change.End && !(names["session"] && names["sandbox"]) {
				t.Errorf("%T: ends without naming both rows", c)
			}
			if d.Change.Conversation != nil && (!names["session"] || d.Change.Session != nil) {
				t.Errorf("%T: binds without the session's version, or writes the session", c)
			}
			if s.Sandbox.State == sandbox.Destroying && d.Change.Sandbox != nil && d.Change.Sandbox.State == sandbox.Live {
				t.Errorf("rule 4: %T: from destroying back to live", c)
			}
		}
	})
	if _, err := session.Decide(given(sandbox.Live, false), happened(sandbox.Unreached{})); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("T-20: an outage of the provider: %v", err)
	}
}
