package sessiontest

import (
	"errors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func refusalChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"exists-conversation", "A taken conversation id is ErrExists, whatever else is asked with it; the conversation stays bound as it was. (T-02, T-07)", func(b *storeBench) {
			r, other := b.room(nil), b.room(nil)
			c := session.Change{Conversation: b.thread(session.Session{})}
			unbound := *c.Stamped(b.commit(c)).Conversation
			for _, v := range []session.Conversation{r.conversation, unbound} {
				for _, into := range []session.Session{r.session, other.session, {}} {
					w := b.thread(into)
					w.ID = v.ID
					b.refuses(session.Change{Conversation: w}, session.ErrExists, string(v.ID))
				}
				b.same("conversation", b.load(session.Address{Conversation: v.ID}).Conversation, v)
			}
		}},
		{"exists-session", "A taken session id is ErrExists.", func(b *storeBench) {
			r := b.room(nil)
			s := session.Session{ID: r.session.ID, Owner: bob, Name: "usurper"}
			b.refuses(session.Change{Session: &s}, session.ErrExists, string(s.ID))
			b.same("session", b.load(r.address()).Session, r.session)
		}},
		{"exists-sandbox", "A taken sandbox id is ErrExists.", func(b *storeBench) {
			r := b.room(nil)
			c := b.spawn(func(c *session.Change) { c.Sandbox.ID = r.sandbox.ID })
			b.refuses(c, session.ErrExists, string(r.sandbox.ID))
			b.missing(session.Address{Session: c.Session.ID})
			b.same("sandbox", b.load(r.address()).Sandbox, r.sandbox)
		}},
		{"spawn-whole", "A session whose first conversation can't be inserted is not inserted, and counts nowhere. (T-34, S-08)", func(b *storeBench) {
			r := b.room(nil)
			c := b.spawn(func(c *session.Change) { c.Conversation.ID = r.conversation.ID })
			b.refuses(c, session.ErrExists, string(r.conversation.ID))
			b.missing(session.Address{Session: c.Session.ID})
			b.commit(session.Change{Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(alice), Max: 1}}})
		}},
		{"two-spawns", "Two spawns are two sessions with two sandboxes, however alike. (S-06)", func(b *storeBench) {
			one, two := b.room(nil), b.room(nil)
			if one.session.ID == two.session.ID || one.sandbox.ID == two.sandbox.ID {
				b.Fatalf("got the same twice: %+v", one)
			}
			for _, r := range []room{one, two} {
				got := b.load(session.Address{Conversation: r.conversation.ID})
				b.same("session", got.Session, r.session)
				b.same("sandbox", got.Sandbox, r.sandbox)
			}
		}},
		{"second-sandbox", "A session has at most one sandbox: a second one is ErrStale.", func(b *storeBench) {
			r := b.room(nil)
			b.refuses(session.Change{Sandbox: &sandbox.Row{ID: sandbox.ID(b.id()), Session: r.session.ID}}, session.ErrStale, string(r.session.ID))
			b.same("sandbox", b.load(r.address()).Sandbox, r.sandbox)

			c := b.spawn(nil) // without one at first
			row := c.Sandbox
			c.Sandbox = nil
			b.commit(c)
			a := session.Address{Session: c.Session.ID}
			b.same("no sandbox", b.load(a).Sandbox, sandbox.Row{})
			c = session.Change{Sandbox: row}
			want := *c.Stamped(b.commit(c)).Sandbox
			b.same("the first sandbox", b.load(a).Sandbox, want)
		}},
		{"dangling", "Nothing can belong to a session that is not there, or to one of another project. (T-06)", func(b *storeBench) {
			r := b.room(placed("project", alice))
			nowhere := session.Session{ID: session.ID(b.id()), Owner: alice}
			elsewhere := r.session
			elsewhere.Project = "another project"
			personal := r.session
			personal.Project = ""
			for _, s := range []session.Session{nowhere, elsewhere, personal} {
				v := b.thread(s)
				if _, err := b.store.Commit(b.Context(), session.Change{Conversation: v}); err == nil {
					b.Errorf("a conversation of project %q was bound to session %s", v.Project, v.Session)
				}
				b.missing(session.Address{Conversation: v.ID})
			}
			row := sandbox.Row{ID: sandbox.ID(b.id()), Session: nowhere.ID}
			if _, err := b.store.Commit(b.Context(), session.Change{Sandbox: &row}); err == nil {
				b.Errorf("a sandbox was given to a session that is not there")
			}
			b.commit(session.Change{Expect: []session.Guard{{Sandbox: row.ID, Version: 0}}})
		}},
		{"limit-kind", "A limit of a kind that a commit does not count is refused, never ignored.", func(b *storeBench) {
			for _, k := range []session.LimitKind{0, session.SlotsPerPayer, 200} {
				c := b.spawn(nil)
				c.Limits = []session.Limit{{Kind: k, Scope: string(alice), Max: 100}}
				if _, err := b.store.Commit(b.Context(), c); !errors.As(err, new(*access.FieldError)) {
					b.Errorf("kind %d: got error %v, want a *access.FieldError", k, err)
				}
				b.missing(session.Address{Session: c.Session.ID})
			}
		}},
	}
}
