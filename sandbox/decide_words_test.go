package sandbox_test

import (
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The guards of the table.

func ended(g *given) bool        { return g.facts.Ended }
func working(g *given) bool      { return g.facts.SlotsLive }
func due(g *given) bool          { return !g.row.Deadline.After(g.facts.Now) }
func underMaximum(g *given) bool { return g.row.MaxDeadline.After(g.facts.Now) }
func both(p, q guard) guard      { return func(g *given) bool { return p(g) && q(g) } }

// lossAccepted: where a machine was lost, the caller knows, or nothing was lost with it.
func lossAccepted(g *given) bool {
	return g.row.State != sandbox.Lost || g.facts.SessionMount || g.facts.LossAccepted == g.row.Generation
}

// pause is how long the attempt after the row's failed ones waits: 1 s, doubled with each, 5 min at most.
func pause(attempts int64) time.Duration {
	d := time.Second / 2
	for range min(attempts, 20) {
		d *= 2
	}
	return min(d, 5*time.Minute)
}

func backingOff(g *given) bool {
	return g.row.Attempts > 0 && g.row.Deadline.Add(pause(g.row.Attempts)).After(g.facts.Now)
}

func nonceMine(g *given) bool {
	switch e := g.event.(type) {
	case sandbox.Ensure:
		return e.Nonce != "" && e.Nonce == g.row.Nonce
	case sandbox.NotSent:
		return e.Nonce != "" && e.Nonce == g.row.Nonce
	}
	return false
}

// named: the reply tells which machine it is about.
func named(g *given) bool { return g.event.(sandbox.Created).As.Incarnation != "" }

func ofGeneration(g *given) bool {
	switch e := g.event.(type) {
	case sandbox.Created:
		return e.As.Sandbox == g.row.ID && e.As.Generation == g.row.Generation
	case sandbox.Observed:
		return e.Generation == g.row.Generation
	}
	return false
}

func ofIncarnation(g *given) bool {
	switch e := g.event.(type) {
	case sandbox.Created:
		return e.As.Incarnation == g.row.Incarnation
	case sandbox.Observed:
		return e.Incarnation == g.row.Incarnation
	}
	return false
}

func here(g *given) bool { return g.row.Host == "" || g.row.Host == g.event.(sandbox.Observed).Host }

// onThatHost: the row is bound to the very host that is gone. A row of no host never is.
func onThatHost(g *given) bool {
	host := g.event.(sandbox.HostGone).Host
	return host != "" && host == g.row.Host
}

// nameless: the row names no machine.
func nameless(g *given) bool { return g.row.Incarnation == "" }

func found(g *given) []sandbox.Found { return g.event.(sandbox.Observed).Found }

func isReady(m sandbox.Found) bool {
	return m.Status == sandbox.StatusRunning || m.Status == sandbox.StatusStopped
}

func running(g *given) bool { return len(sorted(found(g), isReady)) > 0 }

// comingUp: something is there that may yet become ready. What failed won't.
func comingUp(g *given) bool {
	return len(sorted(found(g), func(m sandbox.Found) bool { return !isReady(m) && m.Status != sandbox.StatusFailed })) > 0
}

// own: the row's own machine is among those found.
func own(g *given) bool {
	return len(sorted(found(g), func(m sandbox.Found) bool { return m.Incarnation == g.row.Incarnation })) > 0
}

// doomed: something is there that must die: the machine, or all of the generation where it is not known.
func doomed(g *given) bool { return own(g) || g.row.Incarnation == "" && len(found(g)) > 0 }

func young(g *given) bool           { return g.row.LiveAt.Add(g.facts.Caps.Lag()).After(g.facts.Now) }
func absentBefore(g *given) bool    { return !g.row.AbsentSince.IsZero() }
func lagApart(g *given) bool        { return g.facts.Now.Sub(g.row.AbsentSince) >= g.facts.Caps.Lag() }
func notBeforePassed(g *given) bool { return !g.row.NotBefore.After(g.facts.Now) }

// What the row becomes.

func begin(g *given, clock time.Time, row *sandbox.Row) {
	e := g.event.(sandbox.Ensure)
	bare(g, clock, row)
	row.State = sandbox.Creating
	row.Generation = g.row.Generation + 1
	row.Nonce, row.Provider, row.Host, row.Deployment, row.Spec = e.Nonce, e.Provider, e.Host, e.Deployment, e.Spec
	row.Payer = e.Payer
	if g.row.Key == "" {
		row.Key = e.Key
	}
	row.Name = sandbox.Name(row.Key, row.Generation)
	row.Deadline = clock.Add(g.facts.Window)
	row.MaxDeadline = clock.Add(g.facts.MaxWindow)
	row.NotBefore = row.Deadline.Add(e.Caps.Horizon() + e.Caps.Lag())
}

// bare: no machine, and nothing left that pointed at one.
func bare(_ *given, _ time.Time, row *sandbox.Row) {
	row.State, row.Name, row.Incarnation, row.Host, row.Nonce = sandbox.None, "", "", "", ""
	row.NotBefore, row.AbsentSince, row.LiveAt = time.Time{}, time.Time{}, time.Time{}
}

// neverAsked: bare, and no deadline to count a back-off from: nothing was asked for.
func neverAsked(g *given, clock time.Time, row *sandbox.Row) {
	bare(g, clock, row)
	row.Deadline, row.MaxDeadline = time.Time{}, time.Time{}
}

func becomeLive(g *given, clock time.Time, row *sandbox.Row) {
	switch e := g.event.(type) {
	case sandbox.Created:
		row.Incarnation, row.Host = e.As.Incarnation, e.As.Host
	case sandbox.Observed:
		row.Incarnation = sorted(e.Found, isReady)[0]
	}
	row.State, row.LiveAt, row.Attempts = sandbox.Live, clock, 0
	row.NotBefore, row.AbsentSince = time.Time{}, time.Time{}
}

func prolong(g *given, clock time.Time, row *sandbox.Row) {
	row.Deadline = clock.Add(prolonging(g))
	row.NotBefore = row.Deadline.Add(g.facts.Caps.Horizon() + g.facts.Caps.Lag())
}

// prolonging never leads over the hard maximum.
func prolonging(g *given) time.Duration {
	return min(g.facts.Window, g.row.MaxDeadline.Sub(g.facts.Now))
}

func giveUp(g *given, clock time.Time, row *sandbox.Row) {
	doom(g, clock, row)
	row.Attempts++
}

func doom(_ *given, _ time.Time, row *sandbox.Row) {
	row.State, row.AbsentSince = sandbox.Destroying, time.Time{}
}

// doomLive: an answered create has no not_before.
func doomLive(g *given, clock time.Time, row *sandbox.Row) {
	doom(g, clock, row)
	row.NotBefore = time.Time{}
}

func seen(_ *given, _ time.Time, row *sandbox.Row)       { row.AbsentSince = time.Time{} }
func absent(_ *given, clock time.Time, row *sandbox.Row) { row.AbsentSince = clock }
func lose(_ *given, _ time.Time, row *sandbox.Row) {
	row.State, row.AbsentSince = sandbox.Lost, time.Time{}
}

// loseWithHost: nobody could ever prove a machine on that host gone, so that nothing names it any more.
func loseWithHost(g *given, clock time.Time, row *sandbox.Row) {
	lose(g, clock, row)
	row.Incarnation, row.Host = "", ""
}
func destroyed(g *given, clock time.Time, row *sandbox.Row) {
	bare(g, clock, row)
	row.DestroyedAt = clock
}

// What else follows.

func tombstone(g *given, i sandbox.Incarnation, notBefore time.Time) sandbox.Tombstone {
	return sandbox.Tombstone{
		TombstoneKey: sandbox.TombstoneKey{Sandbox: g.row.ID, Generation: g.row.Generation, Incarnation: i},
		Name:         g.row.Name, Provider: g.row.Provider, Host: g.row.Host, Payer: g.row.Payer, Deployment: g.row.Deployment,
		NotBefore: notBefore, Origin: sandbox.OriginTornDown,
	}
}

func beginMore(g *given, clock time.Time, a *after) {
	a.counted = true
	if g.row.State == sandbox.Destroying {
		buryRow(g, clock, a)
	}
}

func buryRow(g *given, _ time.Time, a *after) {
	t := tombstone(g, g.row.Incarnation, g.row.NotBefore)
	if g.row.State == sandbox.Lost {
		t.Origin = sandbox.OriginLost
	}
	a.bury = []sandbox.Tombstone{t}
}

func buryLost(g *given, clock time.Time, a *after) {
	t := tombstone(g, g.row.Incarnation, time.Time{})
	t.Origin = sandbox.OriginLost
	if lag := g.facts.Caps.Lag(); lag > 0 {
		t.NotBefore = clock.Add(lag)
	}
	a.bury = []sandbox.Tombstone{t}
}

func buryCreated(g *given, _ time.Time, a *after) {
	a.bury = []sandbox.Tombstone{g.event.(sandbox.Created).As}
}

func claim(_ *given, _ time.Time, a *after) { a.unclaimed = a.row.Incarnation }

func claimAndBuryOthers(g *given, clock time.Time, a *after) {
	claim(g, clock, a)
	if !g.facts.Caps.UniqueNames {
		a.bury = []sandbox.Tombstone{tombstone(g, "", g.row.NotBefore)}
	}
}

// killAll: those found of the generation, or where the machine is known that one.
func killAll(g *given, _ time.Time, a *after) {
	a.kill = sorted(found(g), func(m sandbox.Found) bool { return g.row.Incarnation == "" || m.Incarnation == g.row.Incarnation })
	if len(a.kill) > 0 {
		a.then = sandbox.EffectDestroy
	}
}

func killOwn(g *given, _ time.Time, a *after) { a.kill = []sandbox.Incarnation{g.row.Incarnation} }

func killOwnIdle(g *given, clock time.Time, a *after) {
	killOwn(g, clock, a)
	a.idle = true
}

// What the caller is told.

func sentinel(err error) func(*given) error { return func(*given) error { return err } }

func beingMade(g *given) error {
	return &sandbox.ProvisioningError{Sandbox: g.row.ID, RetryAfter: g.row.Deadline.Sub(g.facts.Now)}
}

func prolonged(g *given) error {
	return &sandbox.ProvisioningError{Sandbox: g.row.ID, RetryAfter: prolonging(g)}
}

func lossUnknown(g *given) error {
	return &sandbox.LostError{Sandbox: g.row.ID, Generation: g.row.Generation, LastSeen: g.row.LiveAt}
}

func attemptsFailed(g *given) error {
	return &sandbox.AttemptsError{Sandbox: g.row.ID, Attempts: g.row.Attempts,
		RetryAfter: g.row.Deadline.Add(pause(g.row.Attempts)).Sub(g.facts.Now)}
}
