package sessiontest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// list reads one page.
func (b *storeBench) list(q session.ListQuery) session.Page {
	b.Helper()
	p, err := b.store.List(b.Context(), q)
	if err != nil {
		b.Fatalf("List(%+v): %v", q, err)
	}
	if len(p.Items) > q.Limit {
		b.Fatalf("List(%+v): a page of %d items", q, len(p.Items))
	}
	return p
}

// all reads all pages of q, calling between after each but the last.
func (b *storeBench) all(q session.ListQuery, between func(session.Page)) []session.Session {
	b.Helper()
	var found []session.Session
	for range 1000 {
		p := b.list(q)
		for _, it := range p.Items {
			found = append(found, it.Session)
		}
		if p.Next == "" {
			return found
		}
		if len(p.Items) < q.Limit {
			b.Fatalf("a page of %d items, fewer than asked for, is not the last", len(p.Items))
		}
		if between != nil {
			between(p)
		}
		q.After = p.Next
	}
	b.Fatalf("a thousand pages, and no end")
	return nil
}

// lists expects that q lists just these rooms, in whatever order.
func (b *storeBench) lists(q session.ListQuery, rooms ...room) {
	b.Helper()
	q.Limit = session.MaxListed
	var got, want []session.ID
	for _, s := range b.all(q, nil) {
		got = append(got, s.ID)
	}
	for _, r := range rooms {
		want = append(want, r.session.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("List(%+v): got %v, want %v", q, got, want)
	}
}

func listChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"list-order", "Sessions are listed by (LastActiveAt, ID), both descending: equal moments leave nothing open.", func(b *storeBench) {
			var want []session.Session
			for i := range 12 {
				want = append(want, b.room(nil).session)
				if i%4 == 3 {
					b.clock.Step(time.Minute)
				}
			}
			b.touch(session.Address{Session: want[5].ID})
			want[5] = b.load(session.Address{Session: want[5].ID}).Session
			slices.SortFunc(want, func(x, y session.Session) int {
				return cmp.Or(y.LastActiveAt.Compare(x.LastActiveAt), cmp.Compare(y.ID, x.ID))
			})
			for _, limit := range []int{1, 5, session.MaxListed} {
				b.same("list", b.all(session.ListQuery{Owner: alice, Limit: limit}, nil), want)
			}
		}},
		{"list-pages", "Pages repeat nothing and leave out nothing that nobody touches, whatever is touched or opened in between.", func(b *storeBench) {
			var rooms []room
			for i := range 15 {
				rooms = append(rooms, b.room(nil))
				if i%2 == 0 {
					b.clock.Step(time.Second)
				}
			}
			touched := map[session.ID]bool{}
			seen := map[session.ID]int{}
			n := 0
			b.clock.Step(time.Minute)
			for _, s := range b.all(session.ListQuery{Owner: alice, Limit: 3}, func(p session.Page) {
				n++
				for _, id := range []session.ID{p.Items[0].Session.ID, rooms[n].session.ID} { // one that was seen, one of the last pages
					b.touch(session.Address{Session: id})
					touched[id] = true
				}
				touched[b.room(nil).session.ID] = true
			}) {
				seen[s.ID]++
			}
			if n < 3 {
				b.Fatalf("%d pages: the check is about more", n)
			}
			for _, r := range rooms {
				if id := r.session.ID; seen[id] != 1 && !touched[id] || seen[id] > 1 {
					b.Errorf("session %s was listed %d times (touched: %t)", id, seen[id], touched[id])
				}
			}
		}},
		{"list-last-page", "Next is empty on the last page, be it full or not; without any sessions the first page is the last.", func(b *storeBench) {
			if p := b.list(session.ListQuery{Owner: alice, Limit: 4}); len(p.Items) != 0 || p.Next != "" {
				b.Errorf("of nothing: got %+v", p)
			}
			for range 4 {
				b.room(nil)
			}
			if p := b.list(session.ListQuery{Owner: alice, Limit: 4}); len(p.Items) != 4 || p.Next != "" {
				b.Errorf("of all four: got %d items, next %q", len(p.Items), p.Next)
			}
			p := b.list(session.ListQuery{Owner: alice, Limit: 2})
			if len(p.Items) != 2 || p.Next == "" {
				b.Fatalf("of two of four: got %d items, next %q", len(p.Items), p.Next)
			}
			if p = b.list(session.ListQuery{Owner: alice, Limit: 2, After: p.Next}); len(p.Items) != 2 || p.Next != "" {
				b.Errorf("of the other two: got %d items, next %q", len(p.Items), p.Next)
			}
		}},
		{"list-filters", "A list is of one project or of one owner's personal sessions; ended ones only where asked for.", func(b *storeBench) {
			mine, done := b.room(nil), b.room(ended)
			his := b.room(owned(bob))
			ours, oursDone := b.room(placed("p1", alice)), b.room(both(placed("p1", alice), ended))
			bobs := b.room(placed("p1", bob))
			far := b.room(placed("p2", alice))
			b.lists(session.ListQuery{Owner: alice}, mine)
			b.lists(session.ListQuery{Owner: alice, Ended: true}, mine, done)
			b.lists(session.ListQuery{Owner: bob}, his)
			b.lists(session.ListQuery{Project: "p1"}, ours, bobs)
			b.lists(session.ListQuery{Project: "p1", Ended: true}, ours, oursDone, bobs)
			b.lists(session.ListQuery{Project: "p1", Owner: alice}, ours)
			b.lists(session.ListQuery{Project: "p1", Owner: bob, Ended: true}, bobs)
			b.lists(session.ListQuery{Project: "p2"}, far)
			b.lists(session.ListQuery{Project: "p3"})
			b.lists(session.ListQuery{Owner: "nobody"})

			b.lists(session.ListQuery{Project: "p1", Session: bobs.session.ID}, bobs)
			b.lists(session.ListQuery{Owner: alice, Session: mine.session.ID}, mine)
			b.lists(session.ListQuery{Owner: alice, Session: done.session.ID})
			b.lists(session.ListQuery{Owner: alice, Session: done.session.ID, Ended: true}, done)
			b.lists(session.ListQuery{Owner: alice, Session: his.session.ID}) // the other filters hold as well
			b.lists(session.ListQuery{Project: "p1", Session: far.session.ID})
			b.lists(session.ListQuery{Owner: alice, Session: session.ID(b.id())})

			p, err := b.store.List(b.Context(), session.ListQuery{Limit: 10, Ended: true})
			if err == nil && len(p.Items) > 0 {
				b.Errorf("of neither project nor owner: got %d sessions", len(p.Items))
			}
		}},
		{"list-summary", "A session is listed as it is loaded, with the state of its machine.", func(b *storeBench) {
			for _, s := range []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying} {
				r := b.room(both(machine(s, alice), placed("project", alice)))
				p := b.list(session.ListQuery{Project: "project", Session: r.session.ID, Limit: 1})
				b.same("page", p, session.Page{Items: []session.Summary{{
					Session: r.session, Machine: s, Conversations: []session.Conversation{r.conversation},
				}}})
			}
			c := b.spawn(nil)
			c.Sandbox, c.Conversation = nil, nil
			want := *c.Stamped(b.commit(c)).Session
			p := b.list(session.ListQuery{Owner: alice, Limit: 1})
			b.same("page of a session on its own", p, session.Page{Items: []session.Summary{{Session: want}}})
		}},
		{"list-conversations", "With each session its open conversations are listed, most recently active first, equal moments by id.", func(b *storeBench) {
			b.room(nil)
			r := b.room(nil)
			want := []session.Conversation{r.conversation}
			for i := range 9 {
				if i%3 == 0 {
					b.clock.Step(time.Minute)
				}
				v := b.thread(r.session)
				if i == 4 {
					v.ClosedAt = r.session.CreatedAt
				}
				c := session.Change{Conversation: v}
				if v = c.Stamped(b.commit(c)).Conversation; i != 4 {
					want = append(want, *v)
				}
			}
			b.clock.Step(time.Minute)
			b.touch(session.Address{Session: r.session.ID, Conversation: want[2].ID})
			want[2] = b.load(session.Address{Conversation: want[2].ID}).Conversation
			slices.SortFunc(want, byActivity)
			p := b.list(session.ListQuery{Owner: alice, Limit: 1})
			if len(p.Items) != 1 || p.Items[0].Session.ID != r.session.ID {
				b.Fatalf("got %+v, want session %s", p, r.session.ID)
			}
			b.same("conversations", p.Items[0].Conversations, want)
		}},
		{"list-bounded", "Of more conversations than MaxListed the newest are listed, and the rest of the page does not suffer. (S-35)", func(b *storeBench) {
			busy, quiet := b.room(nil), b.room(nil)
			want := []session.Conversation{busy.conversation}
			for i := range session.MaxListed + 4 {
				if i%8 == 0 {
					b.clock.Step(time.Second)
				}
				c := session.Change{Conversation: b.thread(busy.session)}
				want = append(want, *c.Stamped(b.commit(c)).Conversation)
			}
			slices.SortFunc(want, byActivity)
			p := b.list(session.ListQuery{Owner: alice, Limit: 2})
			if len(p.Items) != 2 {
				b.Fatalf("got %d sessions, want 2", len(p.Items))
			}
			for _, it := range p.Items {
				switch it.Session.ID {
				case busy.session.ID:
					b.same("conversations of the busy one", it.Conversations, want[:session.MaxListed])
				case quiet.session.ID:
					b.same("conversations of the quiet one", it.Conversations, []session.Conversation{quiet.conversation})
				}
			}
		}},
		{"list-bad-input", "A malformed After and a Limit out of range are *access.FieldError, and name the field.", func(b *storeBench) {
			for range 3 {
				b.room(nil)
			}
			next := b.list(session.ListQuery{Owner: alice, Limit: 1}).Next
			fails := func(field string, q session.ListQuery) {
				q.Owner = alice
				var fe *access.FieldError
				if _, err := b.store.List(b.Context(), q); !errors.As(err, &fe) || fe.Field != field {
					b.Errorf("List(%+v): got error %v, want a *access.FieldError for %s", q, err, field)
				}
			}
			for _, token := range []string{"x", "!", " ", "1", next + "!", "!" + next, next[:4], next[:len(next)/4], "' OR 1=1 --", "\x00"} {
				fails("After", session.ListQuery{Limit: 1, After: token})
			}
			for _, limit := range []int{0, -1, session.MaxListed + 1} {
				fails("Limit", session.ListQuery{Limit: limit})
			}
		}},
	}
}

func byActivity(x, y session.Conversation) int {
	return cmp.Or(y.LastActiveAt.Compare(x.LastActiveAt), cmp.Compare(y.ID, x.ID))
}
