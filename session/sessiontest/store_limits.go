package sessiontest

import (
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// counts expects that the store counts n for a limit of that kind and scope:
// a change is refused at n-1, without a trace, and written at n.
func (b *storeBench) counts(kind session.LimitKind, scope string, n int) {
	b.Helper()
	for _, limit := range []int{n - 1, n} {
		c := session.Change{
			Conversation: b.thread(session.Session{}), // it counts nowhere
			Limits:       []session.Limit{{Kind: kind, Scope: scope, Max: limit}},
		}
		_, err := b.store.Commit(b.Context(), c)
		_, gone := b.store.Load(b.Context(), session.Address{Conversation: c.Conversation.ID})
		full := n > max(limit, 0) // a Max below 0 allows nothing, as 0 does
		var le *session.LimitError
		switch {
		case !full && (err != nil || gone != nil):
			b.Errorf("%v of %s, at most %d: refused with %v, but there are %d", kind, scope, limit, err, n)
		case full && !errors.As(err, &le):
			b.Errorf("%v of %s, at most %d: got error %v, want a *LimitError, as there are %d", kind, scope, limit, err, n)
		case full && *le != session.LimitError{Kind: kind, Scope: scope, Max: limit}:
			b.Errorf("%v of %s, at most %d: got %+v", kind, scope, limit, *le)
		case full && !errors.Is(gone, session.ErrNotFound):
			b.Errorf("%v of %s, at most %d: refused, and yet written (%v)", kind, scope, limit, gone)
		}
	}
}

func limitChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"limit-sessions", "SessionsPerOwner counts the owner's sessions that have not ended, wherever they are and whether they have a machine or not. (T-28)", func(b *storeBench) {
			b.counts(session.SessionsPerOwner, string(alice), 0)
			b.room(nil)
			b.room(machine(sandbox.Live, bob))
			b.room(placed("project", alice))
			b.room(ended)
			b.room(both(machine(sandbox.Destroying, alice), ended)) // ended, and its machine still counts elsewhere
			b.room(owned(bob))
			b.room(placed("project", bob))
			b.counts(session.SessionsPerOwner, string(alice), 3)
			b.counts(session.SessionsPerOwner, string(bob), 2)
			b.counts(session.SessionsPerOwner, "nobody", 0)
		}},
		{"limit-reopen", "A limit is counted after the write: to end makes room, to reopen takes it.", func(b *storeBench) {
			one, two := b.room(nil), b.room(ended)
			limits := []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(alice), Max: 1}}
			reopen := two.session
			reopen.EndedAt = time.Time{}
			b.limited(session.Change{Session: &reopen, Limits: limits})
			if got := b.load(two.address()).Session; !got.Ended() {
				b.Errorf("the session was reopened over the limit")
			}
			end := one.session
			b.commit(session.Change{Session: &end, End: true, Limits: limits})
			b.commit(session.Change{Session: &reopen, Limits: limits})
			b.counts(session.SessionsPerOwner, string(alice), 1)
		}},
		{"limit-machines", "MachinesPerPayer counts the payer's sandboxes that are creating, live or destroying, and the payer's tombstones. (T-27)", func(b *storeBench) {
			b.room(nil)
			for _, s := range []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying} {
				b.room(machine(s, alice))
			}
			b.room(both(machine(sandbox.Live, alice), owned(bob)))  // who pays counts, not who owns
			b.room(machine(sandbox.Live, bob))                      // likewise
			b.room(both(machine(sandbox.Destroying, alice), ended)) // of an ended session
			b.commit(session.Change{Bury: []sandbox.Tombstone{b.tombstone(alice), b.tombstone(alice), b.tombstone(bob)}})
			b.counts(session.MachinesPerPayer, string(alice), 3+1+1+2)
			b.counts(session.MachinesPerPayer, string(bob), 1+1)
			b.counts(session.MachinesPerPayer, "nobody", 0)
		}},
		{"limit-replacement", "A dying machine that is replaced counts beside its successor; what is proven gone counts no more.", func(b *storeBench) {
			r := b.room(machine(sandbox.Destroying, alice))
			b.counts(session.MachinesPerPayer, string(alice), 1)
			dying, _ := r.sandbox.Buried()
			next := r.sandbox
			next.State, next.Generation = sandbox.Creating, 2
			c := session.Change{Sandbox: &next, Bury: []sandbox.Tombstone{dying},
				Limits: []session.Limit{{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 1}}}
			b.limited(c)
			b.same("sandbox", b.load(r.address()).Sandbox, r.sandbox)
			b.same("outbox", b.outbox(), []sandbox.Tombstone(nil))
			c.Limits[0].Max = 2
			b.commit(c)
			b.counts(session.MachinesPerPayer, string(alice), 2)
			b.commit(session.Change{Prove: []sandbox.Tombstone{dying}, Limits: []session.Limit{{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 1}}})
			b.counts(session.MachinesPerPayer, string(alice), 1)
			b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}}) // its tombstone takes its place
			b.counts(session.MachinesPerPayer, string(alice), 1)
		}},
		{"limit-conversations", "ConversationsPerSession counts the session's open conversations.", func(b *storeBench) {
			r, other := b.room(nil), b.room(nil)
			closed := b.thread(r.session)
			closed.ClosedAt = r.session.CreatedAt
			b.commit(session.Change{Conversation: closed})
			b.commit(session.Change{Conversation: b.thread(r.session)})
			b.commit(session.Change{Conversation: b.thread(session.Session{})})
			b.counts(session.ConversationsPerSession, string(r.session.ID), 2)
			b.counts(session.ConversationsPerSession, string(other.session.ID), 1)
			b.counts(session.ConversationsPerSession, b.id(), 0)
			third := session.Change{Conversation: b.thread(r.session),
				Limits: []session.Limit{{Kind: session.ConversationsPerSession, Scope: string(r.session.ID), Max: 2}}}
			b.limited(third)
			b.missing(session.Address{Conversation: third.Conversation.ID})
			third.Limits[0].Max = 3
			b.commit(third)
		}},
		{"limit-all", "Every limit of a change is kept, not just the first.", func(b *storeBench) {
			b.room(nil)
			c := b.spawn(machine(sandbox.Creating, alice))
			c.Limits = []session.Limit{
				{Kind: session.SessionsPerOwner, Scope: string(alice), Max: 2},
				{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 0},
			}
			b.limited(c)
			c.Limits[0].Max, c.Limits[1].Max = 1, 1
			b.limited(c)
			b.missing(session.Address{Session: c.Session.ID})
			c.Limits[0].Max = 2
			b.commit(c)
		}},
	}
}

// limited commits c, which one of its limits must refuse.
func (b *storeBench) limited(c session.Change) {
	b.Helper()
	if _, err := b.store.Commit(b.Context(), c); !errors.As(err, new(*session.LimitError)) {
		b.Fatalf("Commit: got error %v, want a *LimitError", err)
	}
}
