package sessiontest

import (
	"time"

	"github.com/bunkroom/bunkroom/session"
)

func (b *storeBench) touch(a session.Address) {
	b.Helper()
	if err := b.store.Touch(b.Context(), a); err != nil {
		b.Fatalf("Touch(%+v): %v", a, err)
	}
}

func touchChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"touch", "Touch raises LastActiveAt of the session and of the conversation where one is named, and nothing else: no version either.", func(b *storeBench) {
			for _, named := range []struct {
				session, conversation bool
			}{{true, false}, {true, true}, {false, true}} {
				r, other := b.room(nil), b.room(nil)
				var a session.Address
				if named.session {
					a.Session = r.session.ID
				}
				if named.conversation {
					a.Conversation = r.conversation.ID
				}
				b.clock.Step(time.Hour)
				before := b.load(r.address()).Now
				b.touch(a)
				got := b.load(session.Address{Conversation: r.conversation.ID})
				if at := got.Session.LastActiveAt; at.Before(before) || at.After(got.Now) {
					b.Errorf("Touch(%+v) between %v and %v: the session was last active at %v", a, before, got.Now, at)
				}
				if at := got.Conversation.LastActiveAt; named.conversation && at.Before(before) {
					b.Errorf("Touch(%+v) at %v: the conversation was last active at %v", a, before, at)
				}
				want := session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox, Conversation: r.conversation}
				want.Session.LastActiveAt = got.Session.LastActiveAt
				if named.conversation {
					want.Conversation.LastActiveAt = got.Conversation.LastActiveAt
				}
				b.same("snapshot", got, want)
				got = b.load(session.Address{Conversation: other.conversation.ID})
				b.same("another room", got, session.Snapshot{Now: got.Now, Session: other.session, Sandbox: other.sandbox, Conversation: other.conversation})
			}
		}},
		{"touch-unbound", "A conversation that is bound to none is touched on its own.", func(b *storeBench) {
			c := session.Change{Conversation: b.thread(session.Session{})}
			want := *c.Stamped(b.commit(c)).Conversation
			b.clock.Step(time.Hour)
			b.touch(session.Address{Conversation: want.ID})
			got := b.load(session.Address{Conversation: want.ID}).Conversation
			if at := got.LastActiveAt; at.Before(want.LastActiveAt.Add(time.Hour)) {
				b.Errorf("an hour after %v it was last active at %v", want.LastActiveAt, at)
			}
		}},
		{"touch-never-lowers", "Where the clock was set back, Touch changes nothing.", func(b *storeBench) {
			r := b.room(nil)
			b.clock.Step(-24 * time.Hour)
			b.touch(session.Address{Session: r.session.ID, Conversation: r.conversation.ID})
			got := b.load(session.Address{Conversation: r.conversation.ID})
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox, Conversation: r.conversation})
		}},
		{"touch-absent", "To touch what is not there is not an error, and makes nothing.", func(b *storeBench) {
			for _, a := range []session.Address{
				{Session: session.ID(b.id())}, {Conversation: session.ConversationID(b.id())},
				{Session: session.ID(b.id()), Conversation: session.ConversationID(b.id())},
			} {
				b.touch(a)
				b.missing(a)
			}
		}},
	}
}
