package sandbox

import (
	"strconv"
	"time"
)

// Orphan is what a sweep knows of one machine that a provider lists.
type Orphan struct {
	Listed Listed
	// Row is the sandbox's row that its labels name; zero where there is none.
	Row Row
	// Buried: the outbox names it, or all of its generation.
	Buried bool
	// FirstSeen is when a sweep first found it without a row or outbox entry, with no pass
	// since that found otherwise; zero where this is the first.
	FirstSeen time.Time
}

// OrphanFacts are what is the same for all machines of one pass.
type OrphanFacts struct {
	Now        time.Time // the store's clock, when the row was read
	Deployment string    // ours
	Grace      time.Duration
	Caps       Caps // of the provider
	// Window is how long a create may take; see [Facts].
	Window time.Duration
}

// OrphanVerdict is what a sweep makes of a machine.
type OrphanVerdict uint8

// The verdicts. The zero value leaves the machine alone.
const (
	OrphanForeign   OrphanVerdict = iota // it carries another deployment's labels, or none that we can read
	OrphanNamed                          // a row or the outbox names it
	OrphanSuspected                      // nobody names it; it is to be seen again a grace later
	OrphanYoung                          // nobody names it, but whoever had it made may not have said so yet
	OrphanProven                         // nobody names it: it goes to the outbox if the provider, asked for it by id, still shows it
)

func (v OrphanVerdict) String() string {
	return [...]string{"foreign", "named", "suspected", "young", "orphaned"}[v]
}

// Labelled returns which machine the labels say l is, and whether they say
// so, for our deployment, in a way that can be relied on.
func (l Listed) Labelled(deployment string) (TombstoneKey, bool) {
	g, err := strconv.ParseInt(l.Labels[LabelGeneration], 10, 64)
	id := ID(l.Labels[LabelSandbox])
	if deployment == "" || l.Labels[LabelDeployment] != deployment || err != nil || g < 1 || id == "" || l.Ref.Incarnation == "" || l.Ref.Name == "" {
		return TombstoneKey{}, false
	}
	return TombstoneKey{Sandbox: id, Generation: g, Incarnation: l.Ref.Incarnation}, true
}

// DecideOrphan says what a sweep makes of a listed machine. It errs towards
// leaving it alone: what it proves an orphan is nobody's, was nobody's in two
// passes the grace apart, and is older than any create that could still be
// answered. The tombstone is for [OrphanProven] only; it may be committed
// only while the row, or its absence, is as it was read.
func DecideOrphan(o Orphan, f OrphanFacts) (OrphanVerdict, Tombstone) {
	key, ours := o.Listed.Labelled(f.Deployment)
	switch {
	case !ours || o.Row.ID != "" && o.Row.ID != key.Sandbox:
		return OrphanForeign, Tombstone{}
	case o.Buried || named(o.Row, key):
		return OrphanNamed, Tombstone{}
	case o.FirstSeen.IsZero():
		return OrphanSuspected, Tombstone{}
	}
	age := f.Now.Sub(o.FirstSeen) // by our own clock, at least
	if made := o.Listed.CreatedAt; !made.IsZero() {
		age = f.Now.Sub(made)
	}
	switch {
	case f.Now.Sub(o.FirstSeen) < f.Grace:
		return OrphanSuspected, Tombstone{}
	case age < f.Window+f.Caps.Horizon()+f.Caps.Lag():
		return OrphanYoung, Tombstone{}
	}
	return OrphanProven, Tombstone{
		TombstoneKey: key,
		Name:         o.Listed.Ref.Name, Provider: o.Listed.Ref.Provider, Host: o.Listed.Ref.Host,
		Payer: o.Row.Payer, Deployment: f.Deployment, Origin: OriginTornDown,
	}
}

// named reports whether row has something to do with the machine key: it is
// the row's own, or the row does not know yet which of its generation will be.
func named(row Row, key TombstoneKey) bool {
	if row.ID == "" || row.State == None || row.State == Lost || row.Generation != key.Generation {
		return false
	}
	return row.Incarnation == "" || row.Incarnation == key.Incarnation
}
