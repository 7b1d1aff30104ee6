package sessiontest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func loadChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"load-by-session", "Load by session shows the session and its sandbox, and no conversation.", func(b *storeBench) {
			r := b.room(nil)
			b.room(nil)
			got := b.load(r.address())
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox})
		}},
		{"load-by-conversation", "Load by conversation finds the session that it is bound to. (S-06)", func(b *storeBench) {
			b.room(nil)
			r := b.room(nil)
			got := b.load(session.Address{Conversation: r.conversation.ID})
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox, Conversation: r.conversation})
		}},
		{"load-by-both", "With both ids the snapshot is the session's, and its conversation is the named one wherever that is bound, or zero.", func(b *storeBench) {
			r, other := b.room(nil), b.room(nil)
			unbound := b.thread(session.Session{})
			stored := *session.Change{Conversation: unbound}.Stamped(b.commit(session.Change{Conversation: unbound})).Conversation
			for _, v := range []session.Conversation{r.conversation, other.conversation, stored} {
				got := b.load(session.Address{Session: r.session.ID, Conversation: v.ID})
				b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox, Conversation: v})
			}
			got := b.load(session.Address{Session: r.session.ID, Conversation: session.ConversationID(b.id())})
			b.same("snapshot with an absent conversation", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox})
		}},
		{"load-unbound", "A conversation that is bound to none has no session; there is no fallback. (S-06)", func(b *storeBench) {
			b.room(nil)
			c := session.Change{Conversation: b.thread(session.Session{})}
			want := *c.Stamped(b.commit(c)).Conversation
			got := b.load(session.Address{Conversation: want.ID})
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Conversation: want})
		}},
		{"load-not-found", "What is not there is ErrNotFound, and the error names it.", func(b *storeBench) {
			r := b.room(nil)
			sid, cid := b.id(), b.id()
			for _, a := range []session.Address{
				{Session: session.ID(sid)},
				{Conversation: session.ConversationID(cid)},
				{Session: session.ID(sid), Conversation: session.ConversationID(cid)},
				{Session: session.ID(sid), Conversation: r.conversation.ID}, // the session is what is asked for
				{Session: session.ID(r.conversation.ID)},                    // one kind's id is never another's (T-03)
				{Conversation: session.ConversationID(r.session.ID)},
			} {
				b.missing(a)
				_, err := b.store.Load(b.Context(), a)
				subject := string(a.Session)
				if subject == "" {
					subject = string(a.Conversation)
				}
				if !strings.Contains(err.Error(), subject) {
					b.Errorf("Load(%+v): error %q does not name %s", a, err, subject)
				}
			}
			if s, err := b.store.Load(b.Context(), session.Address{}); err == nil {
				b.Errorf("Load of no address: got %+v, want an error", s)
			}
		}},
		{"load-clock", "Now is the store's clock at the instant of the load, in UTC.", func(b *storeBench) {
			c := b.spawn(nil)
			before := b.commit(c)
			a := session.Address{Session: c.Session.ID}
			first := b.load(a).Now
			if first.Before(before) {
				b.Errorf("Now is %v, before the commit at %v", first, before)
			}
			if _, offset := first.Zone(); offset != 0 {
				b.Errorf("Now is not in UTC: %v", first)
			}
			b.clock.Step(3 * time.Hour)
			if now := b.load(a).Now; now.Before(first.Add(3 * time.Hour)) {
				b.Errorf("three hours after %v Now is %v", first, now)
			}
		}},
		{"load-one-instant", "A snapshot is of one instant: it never mixes rows of before and after a commit.", func(b *storeBench) {
			r := b.room(nil)
			var enough atomic.Bool
			done := make(chan error, 1)
			go func() { // each commit writes one number into both rows
				s, sb := r.session, r.sandbox
				for ; !enough.Load(); s.Version, sb.Version = s.Version+1, sb.Version+1 {
					s.Name, sb.Nonce = strconv.FormatInt(s.Version, 10), strconv.FormatInt(s.Version, 10)
					if _, err := b.store.Commit(b.Context(), session.Change{Session: &s, Sandbox: &sb}); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			torn := func() string {
				last := int64(0)
				for loads := 0; loads < 300 || last < 100; loads++ {
					s, err := b.store.Load(b.Context(), r.address())
					if err != nil {
						return err.Error()
					}
					if last = s.Session.Version; last != s.Sandbox.Version || last > 1 && s.Session.Name != s.Sandbox.Nonce {
						return fmt.Sprintf("the session is of write %q (version %d), the sandbox of write %q (version %d)",
							s.Session.Name, last, s.Sandbox.Nonce, s.Sandbox.Version)
					}
					select {
					case err := <-done:
						done <- err
						return fmt.Sprintf("the writer ended early: %v", err)
					default:
					}
				}
				return ""
			}()
			enough.Store(true)
			if err := <-done; err != nil {
				b.Errorf("Commit: %v", err)
			}
			if torn != "" {
				b.Errorf("%s", torn)
			}
		}},
		{"load-payoff", "Two conversations of one session get the same sandbox without any shared id being passed around. (S-05)", func(b *storeBench) {
			r := b.room(machine(1, alice))
			second := b.thread(r.session)
			b.commit(session.Change{Conversation: second, Expect: []session.Guard{{Session: r.session.ID, Version: r.session.Version}}})
			one := b.load(session.Address{Conversation: r.conversation.ID})
			two := b.load(session.Address{Conversation: second.ID})
			if one.Sandbox.ID == "" || one.Conversation.ID == two.Conversation.ID {
				b.Fatalf("got %+v and %+v", one, two)
			}
			b.same("sandbox of the second conversation", two.Sandbox, one.Sandbox)
			b.same("session of the second conversation", two.Session, one.Session)
		}},
		{"cancelled", "Where the context is done before the call, the call answers with its error and writes nothing.", func(b *storeBench) {
			r := b.room(nil)
			ctx := cancelled(b)
			before := b.picture(r)
			b.clock.Step(time.Hour)
			rename := r.session
			rename.Name = "renamed"
			fails := func(what string, err error) {
				if !errors.Is(err, ctx.Err()) {
					b.Errorf("%s: got error %v, want %v", what, err, ctx.Err())
				}
			}
			_, err := b.store.Load(ctx, r.address())
			fails("Load", err)
			_, err = b.store.Commit(ctx, session.Change{Session: &rename, Bury: append(before.Outbox, b.tombstone(alice))})
			fails("Commit", err)
			_, err = b.store.List(ctx, session.ListQuery{Owner: alice, Limit: 1})
			fails("List", err)
			fails("Touch", b.store.Touch(ctx, r.address()))
			_, err = b.store.Known(ctx, []sandbox.TombstoneKey{machineOf(r.sandbox)})
			fails("Known", err)
			_, err = b.store.Owned(ctx, session.PurgeTarget{User: alice}, 1)
			fails("Owned", err)
			_, err = b.store.Environments(ctx, session.EnvironmentQuery{Project: project, Limit: 1})
			fails("Environments", err)
			n := 0
			for _, err := range b.store.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Limit: 1}) {
				fails("Due", err)
				n++
			}
			if n != 1 {
				b.Errorf("Due yielded %d times, want once, with the error", n)
			}
			b.same("what is stored", b.picture(r), before)
		}},
	}
}
