package session_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// shared is environment "e" of project "p" at version 4, whose sandbox, at
// version 9, is in a state, as it is had without a session.
func shared(state sandbox.State, deleted bool) session.Snapshot {
	s := given(state, false)
	s.Session = session.Session{}
	s.Environment = session.Environment{ID: "e", Version: 4, Project: "p", CreatedBy: "bob", Name: "old", CreatedAt: t0.Add(-2 * time.Hour)}
	s.Sandbox.Session, s.Sandbox.Environment = "", "e"
	if deleted {
		s.Environment.DeletedAt = t0.Add(-time.Minute)
	}
	return s
}

// borrowed is the same environment, with session "s", which borrows it.
func borrowed(state sandbox.State, ended, deleted bool) session.Snapshot {
	s := shared(state, deleted)
	s.Session = given(state, ended).Session
	s.Session.Environment = "e"
	return s
}

// eachBorrowed runs f for a session that has ended or not, an environment that was deleted or not, and each state.
func eachBorrowed(t *testing.T, f func(t *testing.T, s session.Snapshot)) {
	for _, ended := range []bool{false, true} {
		for _, deleted := range []bool{false, true} {
			for _, state := range states {
				t.Run(fmt.Sprintf("%v, ended %v, deleted %v", state, ended, deleted), func(t *testing.T) { f(t, borrowed(state, ended, deleted)) })
			}
		}
	}
}

var environmentGuard = []session.Guard{{Environment: "e", Version: 4}}

func TestDecideCreateEnvironment(t *testing.T) {
	command := session.CommandCreateEnvironment{
		Environment: session.Environment{ID: "e", Project: "p", CreatedBy: "bob", Name: "n"}, Sandbox: "box",
	}
	wantDecision(t, "an environment and its sandbox are one change, and no machine is made", session.Snapshot{Now: t0}, command,
		session.Decision{Change: session.Change{Environment: &command.Environment, Sandbox: &sandbox.Row{ID: "box", Environment: "e"}}}, nil)
	for _, deleted := range []bool{false, true} {
		wantDecision(t, "where it is there the reply was lost: it is not made again", shared(sandbox.None, deleted), command, session.Decision{Exists: true}, nil)
	}
}

func TestDecideDeleteEnvironment(t *testing.T) {
	command := session.CommandDeleteEnvironment{Terms: terms}
	for _, state := range states {
		t.Run(state.String(), func(t *testing.T) {
			s := shared(state, false)
			deleted, row := s.Environment, s.Sandbox
			want := session.Decision{Change: session.Change{Environment: &deleted, Retire: true}}
			row.State, row.AbsentSince = sandbox.Destroying, time.Time{}
			switch state {
			case sandbox.Creating:
				want.Change.Sandbox, want.Then = &row, sandbox.EffectInspect
			case sandbox.Live:
				row.NotBefore = time.Time{}
				want.Change.Sandbox, want.Then, want.Kill = &row, sandbox.EffectDestroy, []sandbox.Incarnation{"m"}
			default:
				want.Change.Expect = sandboxGuard
			}
			wantDecision(t, "rule 13, T-37: the row stays and is retired, with the teardown of its machine or resting on there being none", s, command, want, nil)
			wantDecision(t, "T-16: what was deleted is not killed again", shared(state, true), command, session.Decision{}, nil)
		})
	}
}

func TestDecideSpawnBorrowing(t *testing.T) {
	command := func(edit func(*session.CommandSpawn)) session.CommandSpawn {
		c := session.CommandSpawn{
			Session: session.Session{ID: "new", Project: "p", Owner: "ann", Name: "n"}, Sandbox: "box",
			Conversation: talk(), MaxSessions: 5, Environment: shared(sandbox.Live, false).Environment,
		}
		if edit != nil {
			edit(&c)
		}
		return c
	}
	borrower, bound := command(nil).Session, talk()
	borrower.Environment = "e"
	bound.Session, bound.Project = "new", "p"
	wantDecision(t, "rule 13: who borrows gets no sandbox of its own, and rests on the environment's version: that it stands is part of the decision",
		session.Snapshot{}, command(nil), session.Decision{Change: session.Change{
			Session: &borrower, Conversation: &bound, Expect: environmentGuard,
			Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: "ann", Max: 5}},
		}}, nil)
	for what, edit := range map[string]func(*session.CommandSpawn){
		"a deleted environment":                        func(c *session.CommandSpawn) { c.Environment.DeletedAt = t0 },
		"an environment of another project":            func(c *session.CommandSpawn) { c.Environment.Project = "q" },
		"a personal session":                           func(c *session.CommandSpawn) { c.Session.Project = "" },
		"an environment of which only the id is known": func(c *session.CommandSpawn) { c.Environment = session.Environment{ID: "e"} },
	} {
		wantDecision(t, "rule 13, T-06: "+what+" is gone, and never replaced by a sandbox of its own", session.Snapshot{}, command(edit), session.Decision{}, session.ErrEnvironmentGone)
	}

	eachBorrowed(t, func(t *testing.T, s session.Snapshot) {
		s.Conversation = there()
		wantDecision(t, "T-07: a retry is told so, also when the environment was deleted since", s, command(nil), session.Decision{Exists: true}, nil)
		wantDecision(t, "T-07: also where no more is known of it than its id", s, command(func(c *session.CommandSpawn) {
			c.Environment = session.Environment{ID: "e"}
		}), session.Decision{Exists: true}, nil)
		for _, other := range []session.EnvironmentID{"", "e2"} {
			wantDecision(t, "T-07: who asked for another environment, or none, did not make this", s,
				command(func(c *session.CommandSpawn) { c.Environment.ID = other }), session.Decision{}, session.ErrConversationTaken)
		}
	})
	own := given(sandbox.None, false)
	own.Conversation = there()
	wantDecision(t, "T-07: a session with a sandbox of its own is not one that borrows", own, command(nil), session.Decision{}, session.ErrConversationTaken)
}

func TestDecideBorrowersEndAndReopen(t *testing.T) {
	eachBorrowed(t, func(t *testing.T, s session.Snapshot) {
		ended, open := s.Session, s.Session
		open.EndedAt = time.Time{}
		endWant := session.Decision{Change: session.Change{Session: &ended, End: true}}
		reopenWant := session.Decision{}
		if s.Session.Ended() {
			endWant = session.Decision{}
			reopenWant.Change = session.Change{
				Session: &open, Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: "ann", Max: 2}},
			}
		}
		wantDecision(t, "the end of who borrows is its own alone: the machine is not its to stop, and nothing rests on that", s, session.CommandEnd{Terms: terms}, endWant, nil)
		wantDecision(t, "rule 4: nor does a reopening touch it, whatever has become of the environment", s, session.CommandReopen{MaxSessions: 2}, reopenWant, nil)
	})
}

func TestDecideRenameEnvironment(t *testing.T) {
	for _, state := range states {
		s := shared(state, false)
		renamed := s.Environment
		renamed.Name = "new"
		wantDecision(t, "a new name is written, and nothing else", s, session.CommandRename{Name: "new"}, session.Decision{Change: session.Change{Environment: &renamed}}, nil)
		wantDecision(t, "the name it has already writes nothing", s, session.CommandRename{Name: "old"}, session.Decision{}, nil)
		for _, name := range []string{"new", "old"} {
			wantDecision(t, "what was deleted has no new name, nor its old one", shared(state, true), session.CommandRename{Name: name}, session.Decision{}, session.ErrEnvironmentGone)
		}
	}
	eachBorrowed(t, func(t *testing.T, s session.Snapshot) {
		renamed := s.Session
		renamed.Name = "new"
		wantDecision(t, "through a session it is the session that is renamed", s, session.CommandRename{Name: "new"}, session.Decision{Change: session.Change{Session: &renamed}}, nil)
		s.Session.Name = "new"
		wantDecision(t, "and never the environment, even where the session has the name already", s, session.CommandRename{Name: "new"}, session.Decision{}, nil)
	})
}

func TestDecideEnsureBorrowed(t *testing.T) {
	eachBorrowed(t, func(t *testing.T, s session.Snapshot) {
		switch {
		case s.Session.Ended():
			wantDecision(t, "S-10: an ended session gets no machine, and is told so before anything else", s, ensureCommand(), session.Decision{}, session.ErrEnded)
			return
		case s.Environment.Deleted():
			c := ensureCommand()
			c.AcceptLoss = 3
			wantDecision(t, "rule 13: in a deleted environment there is no machine, whatever its sandbox's state and whatever is accepted", s, c, session.Decision{}, session.ErrEnvironmentGone)
			return
		}
		d, err := session.Decide(s, ensureCommand())
		switch s.Sandbox.State {
		case sandbox.None, sandbox.Destroying:
			if err != nil || d.Then != sandbox.EffectCreate || d.Change.Sandbox == nil {
				t.Fatalf("got %+v, %v", d, err)
			}
			if row := d.Change.Sandbox; row.ID != "b" || row.Environment != "e" || row.Session != "" || row.Generation != s.Sandbox.Generation+1 {
				t.Errorf("rule 13: the machine is for another sandbox than the environment's: %+v", row)
			}
			want := append(append([]session.Guard{}, sessionGuard...), environmentGuard...)
			if fmt.Sprint(d.Change.Expect) != fmt.Sprint(want) {
				t.Errorf("it rests on %+v, want the session's and the environment's version: %+v", d.Change.Expect, want)
			}
		case sandbox.Creating:
			wantType[*sandbox.ProvisioningError](t, "rule 14: the attempt of another borrower is waited for", err)
		case sandbox.Live:
			wantDecision(t, "S-05: the machine is one and the same for all who borrow", s, ensureCommand(), session.Decision{Then: sandbox.EffectAttach}, nil)
		case sandbox.Lost:
			wantType[*sandbox.LostError](t, "rule 15: a loss is told first", err)
		}
	})
}

// Whatever is decided of an environment, a change names each row that it
// rests on by one id, and begins a machine only on both versions.
func TestEveryChangeOfAnEnvironmentNamesWhatItRestsOn(t *testing.T) {
	commands := []session.Command{
		session.CommandAdd{Conversation: talk()}, session.CommandRename{Name: "new"}, session.CommandReopen{}, session.CommandEnd{Terms: terms},
		session.CommandDeleteEnvironment{Terms: terms}, session.CommandIdle{Terms: terms}, ensureCommand(),
		happened(sandbox.NotSent{Nonce: "theirs"}), happened(sandbox.Unanswered{}), happened(sandbox.Created{As: buried}),
		happened(sandbox.Attached{}), happened(sandbox.Observed{Generation: 3, Incarnation: "m"}), happened(sandbox.Observed{Generation: 3}), happened(sandbox.HostGone{Host: "h"}),
	}
	decided := 0
	eachBorrowed(t, func(t *testing.T, s session.Snapshot) {
		s.Sandbox.Host = "h"
		for _, c := range commands {
			d, err := session.Decide(s, c)
			if err != nil {
				continue
			}
			names := map[session.Guard]bool{}
			for _, g := range d.Change.Expect {
				if n := len(g.Session) + len(g.Environment) + len(g.Sandbox); n != 1 { // ids here are one letter each
					t.Errorf("%T: guard %+v does not name one row", c, g)
				}
				names[g] = true
			}
			if w := d.Change.Session; w != nil {
				names[session.Guard{Session: w.ID, Version: w.Version}] = true
			}
			if w := d.Change.Environment; w != nil {
				names[session.Guard{Environment: w.ID, Version: w.Version}] = true
			}
			if w := d.Change.Sandbox; w != nil {
				names[session.Guard{Sandbox: w.ID, Version: w.Version}] = true
				if w.Environment != "e" || w.Session != "" {
					t.Errorf("rule 13: %T: the sandbox is %q%q's", c, w.Environment, w.Session)
				}
				if begins := w.State == sandbox.Creating && w.Generation > s.Sandbox.Generation; begins && (!names[sessionGuard[0]] || !names[environmentGuard[0]] || s.Environment.Deleted()) {
					t.Errorf("%T: begins a machine without both versions, or in a deleted environment", c)
				}
				if s.Sandbox.State == sandbox.Destroying && w.State == sandbox.Live {
					t.Errorf("rule 4: %T: from destroying back to live", c)
				}
			}
			if (len(d.Change.Bury) > 0 || d.Change.Retire) && !names[sandboxGuard[0]] {
				t.Errorf("%T: buries or retires without naming the sandbox's version", c)
			}
			if d.Change.Retire && !names[environmentGuard[0]] {
				t.Errorf("%T: retires without naming the environment's version", c)
			}
			if len(d.Change.Delete) > 0 {
				t.Errorf("rule 13: %T: deletes a row", c)
			}
			if len(names) > 0 {
				decided++
			}
		}
	})
	if decided < 40 {
		t.Errorf("only %d changes were looked at", decided)
	}
}
