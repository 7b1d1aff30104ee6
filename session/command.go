package session

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Command is something that is wanted of a session, or has happened to its
// machine; see the types that implement it. Ids and durations come in with
// it: [Decide] makes none up.
type Command interface{ command() }

// CommandSpawn: open a session with its first conversation and its sandbox, all in one.
type CommandSpawn struct {
	Session      Session      // with its id; no version
	Sandbox      sandbox.ID   // a new id
	Conversation Conversation // with its id
	MaxSessions  int
	// Environment is what the session borrows its sandbox from; zero = it gets
	// one of its own. Of a retry, whose conversation is there, its id is enough.
	Environment Environment
}

// CommandCreateEnvironment: open an environment with its sandbox.
type CommandCreateEnvironment struct {
	Environment Environment // with its id; no version
	Sandbox     sandbox.ID  // a new id
}

// CommandDeleteEnvironment: delete the snapshot's environment and have its machine destroyed.
type CommandDeleteEnvironment struct{ Terms Terms }

// CommandIdle: destroy the machine of a session that nobody has worked in for long.
type CommandIdle struct{ Terms Terms }

// CommandAdd: open a conversation in the snapshot's session.
type CommandAdd struct {
	Conversation     Conversation // with its id and owner; its session and project are the snapshot's
	MaxConversations int
}

// CommandNew: open a conversation that is bound to no session.
type CommandNew struct{ Conversation Conversation }

// CommandAmend: close the snapshot's conversation, or say who may read it.
type CommandAmend struct {
	Close  bool
	Shared *bool // nil = as it is
}

// CommandRename: give the session, or where there is none the environment, another name.
type CommandRename struct{ Name string }

// CommandReopen: the session is no longer ended. A teardown of its machine goes on.
type CommandReopen struct{ MaxSessions int }

// CommandEnd: end the session and have its machine destroyed.
type CommandEnd struct{ Terms Terms }

// CommandEnsure: the session's sandbox shall have a machine.
type CommandEnsure struct {
	Want        sandbox.Ensure
	Terms       Terms
	AcceptLoss  int64 // the generation whose loss is accepted; 0 = none
	MaxMachines int
}

// CommandHappened: something has happened to the machine of the snapshot's sandbox.
type CommandHappened struct {
	Event MachineEvent
	Terms Terms
}

// MachineEvent is one of sandbox.NotSent, Unanswered, Created, Attached,
// Unreached, Observed and HostGone: what is seen or heard of a machine. What is wanted
// of one has commands of its own.
type MachineEvent interface{ sandbox.Event }

// Terms are the worth of a provider's answers and the patience of the caller.
type Terms struct {
	Caps      sandbox.Caps  // of the provider that the row's machine is or was had from
	Window    time.Duration // how long one create may take
	MaxWindow time.Duration // how long an attempt may last at most
}

func (CommandSpawn) command()             {}
func (CommandCreateEnvironment) command() {}
func (CommandDeleteEnvironment) command() {}
func (CommandAdd) command()               {}
func (CommandNew) command()               {}
func (CommandAmend) command()             {}
func (CommandRename) command()            {}
func (CommandReopen) command()            {}
func (CommandEnd) command()               {}
func (CommandIdle) command()              {}
func (CommandEnsure) command()            {}
func (CommandHappened) command()          {}

// Decision is what follows from a command: what to commit and what to do
// then. A zero Change has nothing to commit.
type Decision struct {
	Change Change
	// Exists says that what was to be inserted is there already, exactly as
	// wanted: a retry. The snapshot has it.
	Exists bool
	// Then is the effect to perform on the machine once Change is committed; Kill are the machines to destroy.
	Then sandbox.Effect
	Kill []sandbox.Incarnation
	// Report is what the caller is told once Change is committed; nil = it goes well.
	Report error
}

// Limits are the ceilings of one plan. Zero is the default of each field; less than zero allows nothing.
type Limits struct {
	Sessions      int // open sessions an owner may have; default 100
	Conversations int // open conversations in one session; default 100
	Machines      int // machines of one payer, dying ones included; default 100
	Slots         int // sessions of one payer that are worked in at once; default 100
}

func (l Limits) withDefaults() Limits {
	for _, n := range []*int{&l.Sessions, &l.Conversations, &l.Machines, &l.Slots} {
		if *n == 0 {
			*n = 100
		}
	}
	return l
}

// Placing is what a host knows when it chooses where a session's machine shall be.
type Placing struct {
	Session Session
	// Environment is what the machine is for where the session borrows it; zero = it is the session's own.
	Environment Environment
	Payer       access.UserID
	Plan        access.Plan
}

// Placement is its choice. It is stored with the intent to make the machine.
type Placement struct {
	Provider string // a name from Config.Sandboxes; empty = the first
	Spec     sandbox.Spec
}
