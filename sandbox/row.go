package sandbox

import (
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// State is the state of a sandbox's machine, as far as we know.
type State uint8

// The states. No edge leads from Destroying back to Live.
const (
	None       State = iota // there is no machine, and none is being made
	Creating                // a machine has been or is about to be asked for
	Live                    // the machine Incarnation is the sandbox's
	Lost                    // the machine was found gone, with its files
	Destroying              // the machine is to be destroyed; absorbing
)

func (s State) String() string {
	switch s {
	case Creating:
		return "creating"
	case Live:
		return "live"
	case Lost:
		return "lost"
	case Destroying:
		return "destroying"
	}
	return "none"
}

// Row is our record of one sandbox. All times are the store's clock, UTC; a
// zero time is "not set".
type Row struct {
	ID      ID
	Version int64 // 0 = not stored yet; raised by one with every write

	// A sandbox belongs to exactly one session or environment, for good.
	Session     access.SessionID
	Environment access.EnvironmentID

	Provider   string        // whose machines it uses
	Key        Key           // stored once derived; see DeriveKey
	Payer      access.UserID // who pays for the machine of Generation, and whose limit it counts against
	Deployment string        // which installation it belongs to; a label on every machine
	Spec       Spec          // what was asked for with the latest intent

	State       State
	Generation  int64       // of the latest attempt to have a machine; never used twice, never lowered
	Name        string      // of the machine of that generation
	Incarnation Incarnation // the machine; empty where it is not known
	Host        string      // the host it is bound to; empty = reachable from anywhere
	Nonce       string      // of the intent: who is creating
	Deadline    time.Time   // until when the creator may send and the others wait
	MaxDeadline time.Time   // how far Deadline may be pushed while the provider says "starting"
	NotBefore   time.Time   // before this, absence proves nothing
	AbsentSince time.Time   // the first not-found with no sighting since
	Attempts    int64       // generations in a row that came to nothing
	LiveAt      time.Time   // when Incarnation was committed as live
	DestroyedAt time.Time   // when the latest machine was proven gone

	// What the machine's disk held when it was last measured, and whose disk that was.
	MeasuredBytes       int64
	MeasuredAt          time.Time
	MeasuredIncarnation Incarnation
	// What its disks have held over time, in KiB-seconds, up to StoredAt: a counter that only grows, over all its machines.
	StoredUsed int64
	StoredAt   time.Time
}

// Ref names the row's machine to its provider.
func (r Row) Ref() Ref {
	return Ref{Provider: r.Provider, Name: r.Name, Incarnation: r.Incarnation, Host: r.Host}
}

// TombstoneKey identifies a tombstone.
type TombstoneKey struct {
	Sandbox     ID
	Generation  int64
	Incarnation Incarnation
}

// Tombstone is an entry of the outbox: a machine, or where Incarnation is
// empty every machine of a generation but the one its row names as live, that
// must be destroyed and proven gone. It outlives the row it came from, and
// leaves the outbox only with proof.
type Tombstone struct {
	TombstoneKey
	Name       string
	Provider   string
	Host       string
	Payer      access.UserID
	Deployment string
	Origin     Origin // why it is there; the first reason stays

	NotBefore   time.Time     // before this, absence proves nothing
	Delay       time.Duration // not stored: Commit sets NotBefore to its clock plus this, where it is over 0
	AbsentSince time.Time     // the first not-found with no sighting since
	Absent      bool          // not stored: Commit sets AbsentSince to its clock
	Attempts    int64         // passes that did not end in proof
	LastError   string        // of the latest pass, for the operator
}

// Origin is why a machine is in the outbox.
type Origin string

// The origins. The empty one is not known: it was written by an earlier program.
const (
	// OriginTornDown: that the machine be destroyed was decided, or it is no row's.
	OriginTornDown Origin = "torn down"
	// OriginLost: nobody decided that. Its provider did not show it.
	OriginLost Origin = "lost"
)

// Ref names the tombstone's machine to its provider.
func (t Tombstone) Ref() Ref {
	return Ref{Provider: t.Provider, Name: t.Name, Incarnation: t.Incarnation, Host: t.Host}
}

// Buried returns the tombstone that must be left where the row is deleted, or
// gives its machine up for a new generation, and whether there is one: only a
// row in state None leaves none, and one whose machine was Lost with its host,
// which has no incarnation any more. The delete triggers of the stores do the
// same in SQL. Its AbsentSince is zero: proof counts from when it entered the outbox.
func (r Row) Buried() (Tombstone, bool) {
	if r.State == None || r.State == Lost && r.Incarnation == "" {
		return Tombstone{}, false
	}
	t := r.tombstone(r.Incarnation)
	t.NotBefore = r.NotBefore
	if r.State == Lost {
		t.Origin = OriginLost
	}
	return t, true
}

func (r Row) tombstone(i Incarnation) Tombstone {
	return Tombstone{
		TombstoneKey: TombstoneKey{Sandbox: r.ID, Generation: r.Generation, Incarnation: i},
		Name:         r.Name, Provider: r.Provider, Host: r.Host, Payer: r.Payer, Deployment: r.Deployment,
		Origin: OriginTornDown,
	}
}

// Stamps are the moments of a change that only the store's clock may set. A
// row is written with Stamps applied to it.
type Stamps struct {
	Deadline    time.Duration // over 0: Deadline = clock + this
	MaxDeadline time.Duration // over 0: MaxDeadline = clock + this
	NotBefore   time.Duration // over 0: NotBefore = clock + this
	Absent      bool          // AbsentSince = clock
	Live        bool          // LiveAt = clock
	Destroyed   bool          // DestroyedAt = clock
}

// Apply returns row with the moments set.
func (s Stamps) Apply(row Row, clock time.Time) Row {
	if s.Deadline > 0 {
		row.Deadline = clock.Add(s.Deadline)
	}
	if s.MaxDeadline > 0 {
		row.MaxDeadline = clock.Add(s.MaxDeadline)
	}
	if s.NotBefore > 0 {
		row.NotBefore = clock.Add(s.NotBefore)
	}
	if s.Absent {
		row.AbsentSince = clock
	}
	if s.Live {
		row.LiveAt = clock
	}
	if s.Destroyed {
		row.DestroyedAt = clock
	}
	return row
}
