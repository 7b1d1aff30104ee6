package sessiontest

import (
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

func amendChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"amend", "Of a conversation that is there it changes who may read it and that it is closed, by the store's clock, and nothing else of it.", func(b *storeBench) {
			r := b.room(placed("web", alice))
			v := r.conversation
			other := b.thread(r.session)
			b.commit(session.Change{Conversation: other})
			beside := b.load(session.Address{Conversation: other.ID}).Conversation
			write := func(a session.Amendment) {
				b.Helper()
				forged := a.Was
				forged.Owner, forged.Title, forged.Session, forged.Project, forged.Agent = "eve", "other", "", "", "other"
				forged.LastActiveAt = forged.LastActiveAt.Add(time.Hour)
				a.Was, forged = forged, a.Was
				c := session.Change{Amend: &a}
				c = c.Stamped(b.commit(c))
				c.Amend.Was = forged
				v = c.Amend.Becomes()
				b.same("the conversation", b.load(session.Address{Conversation: v.ID}).Conversation, v)
			}
			write(session.Amendment{Was: v, Shared: true})
			if !v.Shared || !v.ClosedAt.IsZero() {
				b.Errorf("shared it is %+v", v)
			}
			b.clock.Step(time.Minute)
			write(session.Amendment{Was: v, Shared: true, Close: true})
			closed := v.ClosedAt
			if !v.Shared || !closed.After(v.CreatedAt) {
				b.Errorf("closed it is %+v", v)
			}
			b.clock.Step(time.Minute)
			write(session.Amendment{Was: v, Close: true})
			if v.Shared || !v.ClosedAt.Equal(closed) {
				b.Errorf("closed again, and no longer shared, it is %+v", v)
			}
			b.same("another conversation", b.load(session.Address{Conversation: other.ID}).Conversation, beside)
			if got := b.load(r.address()).Session; got.Version != r.session.Version {
				b.Errorf("the session has version %d, and had %d", got.Version, r.session.Version)
			}
			page, err := b.store.List(b.Context(), session.ListQuery{Project: "web", Owner: alice, Session: r.session.ID, Limit: 1})
			if err != nil || len(page.Items) != 1 || len(page.Items[0].Conversations) != 1 || page.Items[0].Conversations[0].ID != other.ID {
				b.Errorf("listed are %+v, %v", page.Items, err)
			}
			limit := session.Limit{Kind: session.ConversationsPerSession, Scope: string(r.session.ID), Max: 2}
			b.commit(session.Change{Conversation: b.thread(r.session), Limits: []session.Limit{limit}}) // a closed one does not count
		}},
		{"amend-stale", "An amendment is of a conversation as it was loaded: one that was closed or shared since, or is not there, is ErrStale.", func(b *storeBench) {
			r := b.room(placed("web", alice))
			was := r.conversation
			shared, closed, nowhere := was, was, was
			shared.Shared = true
			closed.ClosedAt = was.CreatedAt
			nowhere.ID = session.ConversationID(b.id())
			for _, v := range []session.Conversation{shared, closed, nowhere} {
				b.refuses(session.Change{Amend: &session.Amendment{Was: v, Close: true}}, session.ErrStale, string(v.ID))
			}
			guard := session.Guard{Session: r.session.ID, Version: r.session.Version + 1}
			b.refuses(session.Change{Amend: &session.Amendment{Was: was, Close: true}, Expect: []session.Guard{guard}}, session.ErrStale)
			b.same("what is stored", b.load(session.Address{Conversation: was.ID}).Conversation, was)
			b.commit(session.Change{Amend: &session.Amendment{Was: was, Shared: true}})
			b.refuses(session.Change{Amend: &session.Amendment{Was: was, Close: true}}, session.ErrStale, string(was.ID))
			b.commit(session.Change{Amend: &session.Amendment{Was: shared, Shared: true, Close: true}})
			b.refuses(session.Change{Amend: &session.Amendment{Was: shared, Close: true}}, session.ErrStale, string(was.ID))
			if _, err := b.store.Commit(b.Context(), session.Change{Amend: &session.Amendment{}}); !errors.As(err, new(*access.FieldError)) {
				b.Errorf("of nothing: got error %v, want a *access.FieldError", err)
			}
			b.commit(session.Change{Delete: []session.Address{{Conversation: was.ID}}})
			b.refuses(session.Change{Amend: &session.Amendment{Was: closed, Close: true}}, session.ErrStale, string(was.ID))
		}},
	}
}
