package session

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Decide says what follows from a command for the session that s shows. It is
// pure; an error is a refusal, and then nothing may be written or done. Whether the actor
// may ask is decided before, by package access.
//
// A change names the version of every row its decision rests on, and writes
// only what it changes: to add a conversation does not raise its session's version.
func Decide(s Snapshot, c Command) (Decision, error) {
	switch c := c.(type) {
	case CommandSpawn:
		return spawn(s, c)
	case CommandAdd:
		return add(s, c)
	case CommandNew:
		return newConversation(s, c)
	case CommandAmend:
		return amend(s, c)
	case CommandRename:
		return rename(s, c)
	case CommandReopen:
		return reopen(s, c)
	case CommandEnd:
		return end(s, c)
	case CommandIdle:
		return idle(s, c)
	case CommandCreateEnvironment:
		return createEnvironment(s, c)
	case CommandDeleteEnvironment:
		return deleteEnvironment(s, c)
	case CommandEnsure:
		return ensure(s, c)
	case CommandMeasured:
		return measured(s, c)
	case CommandHappened:
		step, err := sandbox.Decide(s.Sandbox, s.machineFacts(c.Terms), c.Event)
		if err != nil {
			return Decision{}, err
		}
		return s.machine(step), nil
	}
	return Decision{}, fmt.Errorf("%w: command %T", sandbox.ErrNotAllowed, c)
}

func spawn(s Snapshot, c CommandSpawn) (Decision, error) {
	v := c.Conversation
	if found := s.Conversation; found.ID != "" { // a retry, or an id that is somebody else's
		same := s.Session.ID != "" && s.Session.Owner == c.Session.Owner && s.Session.Project == c.Session.Project &&
			s.Session.Environment == c.Environment.ID && s.Session.DurableWorkdir == c.Session.DurableWorkdir
		if !same || !sameConversation(found, v, s.Session.ID, c.Session.Project) {
			return Decision{}, taken(v.ID)
		}
		return Decision{Exists: true}, nil
	}
	sess := c.Session
	sess.Environment = c.Environment.ID
	v.Session, v.Project = sess.ID, sess.Project
	d := Decision{Change: Change{
		Session:      &sess,
		Conversation: &v,
		Limits:       []Limit{{Kind: SessionsPerOwner, Scope: string(sess.Owner), Max: c.MaxSessions}},
	}}
	switch e := c.Environment; {
	case e.ID == "":
		d.Change.Sandbox = &sandbox.Row{ID: c.Sandbox, Session: sess.ID}
	case e.Deleted() || e.Project != sess.Project:
		return Decision{}, environmentGone(e.ID)
	default: // the sandbox is the environment's; that it stands is part of the decision
		d.Change.Expect = []Guard{{Environment: e.ID, Version: e.Version}}
	}
	return d, nil
}

func rename(s Snapshot, c CommandRename) (Decision, error) {
	switch sess, e := s.Session, s.Environment; {
	case sess.ID != "" && sess.Name != c.Name:
		sess.Name = c.Name
		return Decision{Change: Change{Session: &sess}}, nil
	case sess.ID == "" && e.Deleted():
		return Decision{}, environmentGone(e.ID)
	case sess.ID == "" && e.Name != c.Name:
		e.Name = c.Name
		return Decision{Change: Change{Environment: &e}}, nil
	}
	return Decision{}, nil
}

func add(s Snapshot, c CommandAdd) (Decision, error) {
	v := c.Conversation
	if found := s.Conversation; found.ID != "" {
		if !sameConversation(found, v, s.Session.ID, s.Session.Project) {
			return Decision{}, taken(v.ID)
		}
		return Decision{Exists: true}, nil
	}
	if s.Session.Ended() {
		return Decision{}, ended(s.Session.ID)
	}
	v.Session, v.Project = s.Session.ID, s.Session.Project
	return Decision{Change: Change{
		Expect:       []Guard{{Session: s.Session.ID, Version: s.Session.Version}},
		Conversation: &v,
		Limits:       []Limit{{Kind: ConversationsPerSession, Scope: string(s.Session.ID), Max: c.MaxConversations}},
	}}, nil
}

func newConversation(s Snapshot, c CommandNew) (Decision, error) {
	v := c.Conversation
	if found := s.Conversation; found.ID != "" {
		if !sameConversation(found, v, "", v.Project) {
			return Decision{}, taken(v.ID)
		}
		return Decision{Exists: true}, nil
	}
	v.Session = ""
	return Decision{Change: Change{Conversation: &v}}, nil
}

func amend(s Snapshot, c CommandAmend) (Decision, error) {
	v := s.Conversation
	a := Amendment{Was: v, Shared: v.Shared, Close: c.Close && v.ClosedAt.IsZero()}
	if c.Shared != nil {
		a.Shared = *c.Shared
	}
	switch {
	case a.Shared && !v.Shared && v.Project == "":
		return Decision{}, &access.FieldError{Field: "shared", Rule: "must not be set where there is no project"}
	case a.Shared == v.Shared && !a.Close: // it is so already
		return Decision{}, nil
	}
	return Decision{Change: Change{Amend: &a}}, nil
}

// sameConversation reports whether found is what a repeated request for want
// would have made. Every fact counts, or an id could be used to learn of, or
// take over, somebody else's conversation.
func sameConversation(found, want Conversation, session ID, project access.ProjectID) bool {
	return found.Owner == want.Owner && found.Agent == want.Agent && found.Session == session &&
		found.Project == project && found.ClosedAt.IsZero()
}

func taken(id ConversationID) error {
	return fmt.Errorf("%w: conversation %s", ErrConversationTaken, id)
}
func ended(id ID) error { return fmt.Errorf("%w: session %s", ErrEnded, id) }
func environmentGone(id EnvironmentID) error {
	return fmt.Errorf("%w: environment %s", ErrEnvironmentGone, id)
}

func reopen(s Snapshot, c CommandReopen) (Decision, error) {
	if !s.Session.Ended() {
		return Decision{}, nil
	}
	if s.Session.Environment == "" {
		if _, err := sandbox.Decide(s.Sandbox, s.machineFacts(Terms{}), sandbox.Reopen{}); err != nil {
			return Decision{}, err
		}
	}
	next := s.Session
	next.EndedAt = time.Time{}
	return Decision{Change: Change{
		Session: &next,
		Limits:  []Limit{{Kind: SessionsPerOwner, Scope: string(next.Owner), Max: c.MaxSessions}},
	}}, nil
}

func end(s Snapshot, c CommandEnd) (Decision, error) {
	if s.Session.Environment != "" { // the machine is not the session's to stop
		if s.Session.Ended() {
			return Decision{}, nil
		}
		next := s.Session
		return Decision{Change: Change{Session: &next, End: true}}, nil
	}
	step, err := sandbox.Decide(s.Sandbox, s.machineFacts(c.Terms), sandbox.Stop{Why: sandbox.StopEnd})
	if err != nil {
		return Decision{}, err
	}
	d := s.machine(step)
	if s.Session.Ended() {
		return d, nil
	}
	next := s.Session
	d.Change.Session, d.Change.End = &next, true
	if d.Change.Sandbox == nil { // that there is nothing to tear down is part of the decision
		d.Change.Expect = append(d.Change.Expect, s.sandboxGuard())
	}
	return d, nil
}

func createEnvironment(s Snapshot, c CommandCreateEnvironment) (Decision, error) {
	e := c.Environment
	switch found := s.Environment; {
	case found.ID == "":
		return Decision{Change: Change{Environment: &e, Sandbox: &sandbox.Row{ID: c.Sandbox, Environment: e.ID}}}, nil
	case found.Project != e.Project || found.CreatedBy != e.CreatedBy: // an id that is somebody else's
		return Decision{}, fmt.Errorf("%w: environment %s", ErrExists, e.ID)
	}
	return Decision{Exists: true}, nil // the reply of the commit was lost
}

// deleteEnvironment: the row stays, so that no borrower ever gets another
// sandbox, and its machine is torn down as that of a session that ends.
func deleteEnvironment(s Snapshot, c CommandDeleteEnvironment) (Decision, error) {
	step, err := sandbox.Decide(s.Sandbox, s.machineFacts(c.Terms), sandbox.Stop{Why: sandbox.StopEnvironment})
	if err != nil {
		return Decision{}, err
	}
	d := s.machine(step)
	if s.Environment.Deleted() {
		return d, nil
	}
	next := s.Environment
	d.Change.Environment, d.Change.Retire = &next, true
	if d.Change.Sandbox == nil {
		d.Change.Expect = append(d.Change.Expect, s.sandboxGuard())
	}
	return d, nil
}

func idle(s Snapshot, c CommandIdle) (Decision, error) {
	step, err := sandbox.Decide(s.Sandbox, s.machineFacts(c.Terms), sandbox.Stop{Why: sandbox.StopIdle})
	if err != nil {
		return Decision{}, err
	}
	return s.machine(step), nil
}

func ensure(s Snapshot, c CommandEnsure) (Decision, error) {
	switch {
	case s.Session.Ended():
		return Decision{}, ended(s.Session.ID)
	case s.Environment.Deleted():
		return Decision{}, environmentGone(s.Environment.ID)
	}
	f := s.machineFacts(c.Terms)
	f.LossAccepted = c.AcceptLoss
	step, err := sandbox.Decide(s.Sandbox, f, c.Want)
	if err != nil {
		return Decision{}, err
	}
	d := s.machine(step)
	if step.CountMachine {
		d.Change.Limits = []Limit{{Kind: MachinesPerPayer, Scope: string(step.Row.Payer), Max: c.MaxMachines}}
	}
	if step.Write { // it rests on the session not being ended, and the environment not deleted
		d.Change.Expect = append(d.Change.Expect, Guard{Session: s.Session.ID, Version: s.Session.Version})
		if e := s.Environment; e.ID != "" {
			d.Change.Expect = append(d.Change.Expect, Guard{Environment: e.ID, Version: e.Version})
		}
	}
	return d, nil
}

func (s Snapshot) machineFacts(t Terms) sandbox.Facts {
	return sandbox.Facts{
		Now: s.Now, Ended: s.gone(), SessionMount: s.Session.DurableWorkdir,
		Caps: t.Caps, Window: t.Window, MaxWindow: t.MaxWindow,
	}
}

func (s Snapshot) sandboxGuard() Guard {
	return Guard{Sandbox: s.Sandbox.ID, Version: s.Sandbox.Version}
}

// machine is the decision that a step of the sandbox's lifecycle amounts to.
func (s Snapshot) machine(step sandbox.Step) Decision {
	d := Decision{
		Change: Change{Bury: step.Bury, Unclaimed: step.Unclaimed},
		Then:   step.Then, Kill: step.Kill, Report: step.Report,
	}
	switch {
	case step.Write:
		row := stopsCounting(s.Sandbox, step.Row, s.Now)
		d.Change.Sandbox, d.Change.Stamps = &row, step.Stamps
		if step.RequireIdle {
			d.Change.Idle = row.ID
		}
	case len(step.Bury) > 0:
		// The row may be gone: then that is what the decision rests on.
		d.Change.Expect = []Guard{{Sandbox: step.Bury[0].Sandbox, Version: s.Sandbox.Version}}
	}
	return d
}
