package sessiontest

import (
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func deleteChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"delete-conversations", "Conversations outlive their session, and are bound to none. (S-03)", func(b *storeBench) {
			r, other := b.room(placed("project", alice)), b.room(placed("project", alice))
			closed := b.thread(r.session)
			closed.ClosedAt = r.session.CreatedAt
			c := session.Change{Conversation: closed}
			b.commit(c)
			b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}})
			b.missing(r.address())
			for _, id := range []session.ConversationID{r.conversation.ID, closed.ID} {
				got := b.load(session.Address{Conversation: id})
				b.same("session of a conversation that outlived it", got.Session, session.Session{})
				b.same("its sandbox", got.Sandbox, sandbox.Row{})
				if got.Conversation.Session != "" || got.Conversation.Project != "project" || got.Conversation.Owner != alice {
					b.Errorf("got %+v, want it bound to none and otherwise as it was", got.Conversation)
				}
			}
			got := b.load(session.Address{Conversation: other.conversation.ID})
			b.same("another session's conversation", got.Conversation, other.conversation)
		}},
		{"delete-buries", "A deleted session's sandbox leaves its tombstone in every state but none, unless it was lost with its host, when its row names no incarnation any more. (S-03)", func(b *storeBench) {
			var want []sandbox.Tombstone
			for i, s := range []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying, sandbox.Lost} {
				r := b.room(func(c *session.Change) {
					row := b.filledRow(room{session: *c.Session, sandbox: *c.Sandbox}, s.String())
					row.State, row.Host = s, host
					if i == 5 { // with its host
						row.Incarnation, row.Host = "", ""
					}
					c.Sandbox = &row
				})
				if t, ok := r.sandbox.Buried(); ok {
					want = append(want, t)
				}
				b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}})
				b.missing(r.address())
				b.commit(session.Change{Expect: []session.Guard{{Session: r.session.ID}, {Sandbox: r.sandbox.ID}}}) // neither is there
			}
			sortTombstones(want)
			if len(want) != 4 {
				b.Fatalf("four of the states leave a tombstone, not %d", len(want))
			}
			b.same("outbox", b.outbox(), want)
		}},
		{"delete-keeps", "Where the outbox has the deleted sandbox's tombstone already, that one stays as it is. (T-31)", func(b *storeBench) {
			r := b.room(machine(sandbox.Lost, alice))
			t, _ := r.sandbox.Buried()
			t.LastError = "as found"
			older := t
			older.Generation, older.LastError = t.Generation-1, ""
			b.commit(session.Change{Bury: []sandbox.Tombstone{t, older}})
			b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}})
			b.same("outbox", b.outbox(), []sandbox.Tombstone{older, t})
		}},
		{"delete-again", "Deleting what is not there succeeds and changes nothing.", func(b *storeBench) {
			r, other := b.room(machine(sandbox.Live, alice)), b.room(nil)
			b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}}})
			before := b.picture(other)
			b.commit(session.Change{Delete: []session.Address{{Session: r.session.ID}, {Session: session.ID(b.id())}}})
			b.same("what is stored", b.picture(other), before)
			b.commit(session.Change{Delete: []session.Address{{Session: other.session.ID}, {Session: other.session.ID}}})
			b.missing(other.address())
		}},
		{"delete-guarded", "A session that somebody has written to since is not deleted.", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			s := r.session
			s.Name = "renamed"
			b.commit(session.Change{Session: &s})
			before := b.picture(r)
			b.refuses(session.Change{
				Delete: []session.Address{{Session: s.ID}}, Expect: []session.Guard{{Session: s.ID, Version: r.session.Version}},
			}, session.ErrStale)
			b.same("what is stored", b.picture(r), before)
		}},
		{"delete-each-kind", "Sessions, conversations and environments are deleted together, each by an address of its own and with what can't be without it; all else stays as it is.", func(b *storeBench) {
			one, two, stays := b.room(placed(project, alice)), b.room(machine(sandbox.Live, alice)), b.room(placed(project, bob))
			e, kept := b.shared(machine(sandbox.Live, bob)), b.shared(nil)
			loan := b.borrower(e, nil)
			c := session.Change{Conversation: b.thread(session.Session{})}
			b.commit(c)
			unbound := c.Conversation.ID
			second := b.thread(stays.session)
			b.commit(session.Change{Conversation: second})
			before := b.picture(stays)
			mine, his := must(two.sandbox.Buried()), must(e.sandbox.Buried())
			before.Outbox = []sandbox.Tombstone{mine, his}
			b.commit(session.Change{Delete: []session.Address{
				{Session: one.session.ID}, {Session: two.session.ID}, {Session: loan.session.ID}, {Environment: e.environment.ID},
				{Conversation: one.conversation.ID}, {Conversation: unbound}, {Conversation: second.ID},
			}})
			for _, a := range []session.Address{
				one.address(), two.address(), loan.address(), e.address(),
				thread(one.conversation), {Conversation: unbound}, {Conversation: second.ID},
			} {
				b.missing(a)
			}
			for _, v := range []session.Conversation{two.conversation, loan.conversation} {
				v.Session = ""
				b.same("a conversation that outlived its session", b.seen(thread(v)), session.Snapshot{Conversation: v})
			}
			sortTombstones(before.Outbox)
			b.same("what stays", b.picture(stays), before)
			b.same("the environment that stays", b.seen(kept.address()), session.Snapshot{Environment: kept.environment, Sandbox: kept.sandbox})
			b.counts(session.ConversationsPerSession, string(stays.session.ID), 1)
		}},
		{"delete-conversation", "To delete a conversation leaves its session, and the conversations beside it, as they are. (S-03)", func(b *storeBench) {
			r := b.room(machine(sandbox.Live, alice))
			second := b.thread(r.session)
			b.commit(session.Change{Conversation: second})
			b.commit(session.Change{Delete: []session.Address{{Conversation: second.ID}}})
			b.missing(session.Address{Conversation: second.ID})
			b.same("session", b.seen(thread(r.conversation)), session.Snapshot{Session: r.session, Sandbox: r.sandbox, Conversation: r.conversation})
			b.commit(session.Change{Delete: []session.Address{thread(r.conversation)}}) // the last one
			b.same("session", b.seen(r.address()), session.Snapshot{Session: r.session, Sandbox: r.sandbox})
			b.same("outbox", b.outbox(), []sandbox.Tombstone(nil))
			again := session.Change{Conversation: second} // its id is free
			b.commit(again)
		}},
		{"delete-each-again", "Deleting environments and conversations that are not there succeeds, beside others that are and repeatedly.", func(b *storeBench) {
			e, r := b.shared(machine(sandbox.Live, alice)), b.room(nil)
			doomed := []session.Address{
				e.address(), thread(r.conversation),
				{Environment: session.EnvironmentID(b.id())}, {Conversation: session.ConversationID(b.id())}, {Session: session.ID(b.id())},
				e.address(), thread(r.conversation),
			}
			for range 2 {
				b.commit(session.Change{Delete: doomed})
				b.missing(e.address())
				b.missing(thread(r.conversation))
				b.same("session", b.seen(r.address()), session.Snapshot{Session: r.session, Sandbox: r.sandbox})
				b.same("outbox", b.outbox(), []sandbox.Tombstone{must(e.sandbox.Buried())})
			}
			again := b.open(func(c *session.Change) { c.Environment.ID, c.Sandbox.Environment = e.environment.ID, e.environment.ID })
			want := again.Stamped(b.commit(again)) // nothing is left in the way of its id
			b.same("made anew", b.seen(e.address()), session.Snapshot{Environment: *want.Environment, Sandbox: *want.Sandbox})
		}},
		{"delete-refused", "Nothing is deleted where the same change is refused for another part of it, nor anything else written where a deletion is refused.", func(b *storeBench) {
			r, e := b.room(machine(sandbox.Live, alice)), b.shared(machine(sandbox.Live, alice))
			lent := b.shared(machine(sandbox.Live, alice))
			loan := b.borrower(lent, nil)
			before, env := b.picture(r, loan), b.seen(e.address())
			deletes := []session.Address{thread(r.conversation), r.address(), e.address()}
			rename := loan.session
			rename.Name = "renamed"
			b.refuses(session.Change{Delete: deletes, Expect: []session.Guard{{Session: loan.session.ID, Version: 9}}}, session.ErrStale)
			b.limited(session.Change{Delete: deletes, Limits: []session.Limit{{Kind: session.MachinesPerPayer, Scope: string(alice), Max: 2}}}) // two tombstones, and what is lent
			b.refuses(session.Change{Delete: append(deletes, lent.address()), Session: &rename}, session.ErrStale, string(lent.environment.ID))
			b.same("what is stored", b.picture(r, loan), before)
			b.same("the environment", b.seen(e.address()), env)
		}},
		{"two-ids", "A guard and an address to delete name one row each: with two ids or none the change is a *access.FieldError.", func(b *storeBench) {
			r, e := b.room(placed(project, alice)), b.shared(nil)
			sid, eid, bid, vid := r.session.ID, e.environment.ID, r.sandbox.ID, r.conversation.ID
			before, env := b.picture(r), b.seen(e.address())
			for field, changes := range map[string][]session.Change{
				"Expect": {
					{Expect: []session.Guard{{}}}, {Expect: []session.Guard{{Version: 1}}},
					{Expect: []session.Guard{{Session: sid, Sandbox: bid, Version: 1}}}, {Expect: []session.Guard{{Session: sid, Environment: eid, Version: 1}}},
					{Expect: []session.Guard{{Environment: eid, Sandbox: bid, Version: 1}}}, {Expect: []session.Guard{{Session: sid, Version: 1}, {Session: sid, Environment: eid, Sandbox: bid, Version: 1}}},
				},
				"Delete": {
					{Delete: []session.Address{{}}},
					{Delete: []session.Address{{Session: sid, Conversation: vid}}}, {Delete: []session.Address{{Session: sid, Environment: eid}}},
					{Delete: []session.Address{{Environment: eid, Conversation: vid}}}, {Delete: []session.Address{e.address(), {Session: sid, Environment: eid, Conversation: vid}}},
				},
			} {
				for _, c := range changes {
					c.Conversation = b.thread(session.Session{})
					var fe *access.FieldError
					if _, err := b.store.Commit(b.Context(), c); !errors.As(err, &fe) || fe.Field != field {
						b.Errorf("Commit of %+v %+v: got error %v, want a *access.FieldError for %s", c.Expect, c.Delete, err, field)
					}
					b.missing(thread(*c.Conversation))
				}
			}
			b.same("what is stored", b.picture(r), before)
			b.same("the environment", b.seen(e.address()), env)
		}},
	}
}

// must is a machine's tombstone, where there has to be one.
func must(t sandbox.Tombstone, there bool) sandbox.Tombstone {
	if !there {
		panic("sessiontest: a sandbox without a machine leaves no tombstone")
	}
	return t
}
