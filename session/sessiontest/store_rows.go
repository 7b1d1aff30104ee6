package sessiontest

import (
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// filled sets every field of v, see fill.
func (b *storeBench) filled(v any, seed string) {
	fill(v, seed, b.clock.Now(), b.precision)
}

// filledRow is a row of r's sandbox with every field set.
func (b *storeBench) filledRow(r room, seed string) sandbox.Row {
	var row sandbox.Row
	b.filled(&row, seed)
	row.ID, row.Session, row.Environment, row.Version = r.sandbox.ID, r.session.ID, "", r.sandbox.Version
	row.State, row.MeasuredBytes = sandbox.Live, 1<<60
	return row
}

func rowChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"session-every-field", "Every field of a session is kept as it was committed.", func(b *storeBench) {
			var s session.Session
			b.filled(&s, "session")
			s.ID, s.Version, s.Project, s.Environment = session.ID(b.id()), 0, project, b.shared(nil).environment.ID
			want := *session.Change{Session: &s}.Stamped(b.commit(session.Change{Session: &s})).Session
			b.same("session", b.load(session.Address{Session: s.ID}).Session, want)

			s = want
			s.Name, s.EndedAt = "another", time.Time{}
			want = *session.Change{Session: &s}.Stamped(b.commit(session.Change{Session: &s})).Session
			b.same("session, replaced", b.load(session.Address{Session: s.ID}).Session, want)
		}},
		{"session-replace", "Of a replaced session only Name and EndedAt change; what a touch has raised stays raised.", func(b *storeBench) {
			r := b.room(nil)
			b.clock.Step(time.Hour)
			if err := b.store.Touch(b.Context(), r.address()); err != nil {
				b.Fatalf("Touch: %v", err)
			}
			want := b.load(r.address()).Session
			s := r.session // as it was before the touch
			s.Project, s.Owner, s.Environment, s.DurableWorkdir = "elsewhere", bob, "borrowed", true
			s.CreatedAt, s.LastActiveAt = s.CreatedAt.Add(-time.Hour), s.LastActiveAt.Add(-time.Hour)
			s.Name = "another"
			b.commit(session.Change{Session: &s})
			want.Name, want.Version = "another", want.Version+1
			b.same("session", b.load(r.address()).Session, want)
		}},
		{"sandbox-every-field", "Every field of a sandbox is kept as it was committed, by an insert and by a replacement.", func(b *storeBench) {
			r := b.room(func(c *session.Change) {
				row := b.filledRow(room{session: *c.Session, sandbox: *c.Sandbox}, "insert")
				c.Sandbox = &row
			})
			b.same("sandbox, inserted", b.load(r.address()).Sandbox, r.sandbox)

			row := b.filledRow(r, "replace")
			row.State = sandbox.Destroying
			c := session.Change{Sandbox: &row}
			want := *c.Stamped(b.commit(c)).Sandbox
			b.same("sandbox, replaced", b.load(r.address()).Sandbox, want)
			due := b.due(session.DueDestroying, row.Host)
			if len(due) != 1 {
				b.Fatalf("Due yielded %d sandboxes, want 1", len(due))
			}
			b.same("sandbox, due", due[0].Snapshot.Sandbox, want)
			b.same("session, due", due[0].Snapshot.Session, r.session)

			row = sandbox.Row{ID: row.ID, Session: row.Session, Version: want.Version}
			c = session.Change{Sandbox: &row}
			want = *c.Stamped(b.commit(c)).Sandbox
			b.same("sandbox, emptied", b.load(r.address()).Sandbox, want)
		}},
		{"sandbox-for-good", "A sandbox belongs to its session for good.", func(b *storeBench) {
			r, other := b.room(nil), b.room(nil)
			row := r.sandbox
			row.Session = other.session.ID
			_, err := b.store.Commit(b.Context(), session.Change{Sandbox: &row})
			if got := b.load(r.address()).Sandbox; got.Session != r.session.ID {
				b.Errorf("the sandbox moved to %q (Commit answered %v)", got.Session, err)
			}
			b.same("the other session's sandbox", b.load(other.address()).Sandbox, other.sandbox)
		}},
		{"conversation-every-field", "Every field of a conversation is kept as it was committed, bound or not.", func(b *storeBench) {
			r := b.room(placed("project", alice))
			for _, s := range []session.Session{r.session, {}} {
				var v session.Conversation
				b.filled(&v, "conversation")
				v.ID, v.Session = session.ConversationID(b.id()), s.ID
				if s.ID != "" {
					v.Project = s.Project
				}
				c := session.Change{Conversation: &v}
				want := *c.Stamped(b.commit(c)).Conversation
				b.same("conversation", b.load(session.Address{Conversation: v.ID}).Conversation, want)
			}
		}},
		{"tombstone-every-field", "Every field of a tombstone is kept as it was buried, and as it was marked.", func(b *storeBench) {
			var t sandbox.Tombstone
			b.filled(&t, "tombstone")
			t.Delay, t.Absent = 0, false
			c := session.Change{Bury: []sandbox.Tombstone{t}}
			b.commit(c)
			b.same("outbox", b.outbox(t.Host), []sandbox.Tombstone{t})

			t.Attempts++
			t.LastError, t.AbsentSince = "what went wrong: ü", t.AbsentSince.Add(time.Hour)
			b.commit(session.Change{Mark: []sandbox.Tombstone{t}})
			b.same("outbox, marked", b.outbox(t.Host), []sandbox.Tombstone{t})
		}},
		{"copies", "Memory is never shared: neither what was committed nor what was loaded changes with the caller's.", func(b *storeBench) {
			env := []string{"A=1"}
			r := b.room(func(c *session.Change) { c.Sandbox.Spec.Env = env })
			env[0] = "A=2"
			c := b.tombstone(alice)
			bury := []sandbox.Tombstone{c}
			b.commit(session.Change{Bury: bury})
			bury[0].LastError = "changed"
			got := b.load(r.address())
			if got.Sandbox.Spec.Env[0] != "A=1" {
				b.Errorf("the stored environment changed with the committed one")
			}
			got.Sandbox.Spec.Env[0] = "A=3"
			if again := b.load(r.address()); again.Sandbox.Spec.Env[0] != "A=1" {
				b.Errorf("the stored environment changed with the loaded one")
			}
			b.same("outbox", b.outbox(), []sandbox.Tombstone{c})
			page, err := b.store.List(b.Context(), session.ListQuery{Owner: alice, Limit: 1})
			if err != nil || len(page.Items) != 1 || len(page.Items[0].Conversations) != 1 {
				b.Fatalf("List: got %+v, %v", page, err)
			}
			page.Items[0].Conversations[0].Title = "changed"
			got = b.load(session.Address{Conversation: r.conversation.ID})
			b.same("conversation", got.Conversation, r.conversation)
		}},
		{"text", "Ids of 256 bytes and names of 120 characters of four bytes each are kept whole.", func(b *storeBench) {
			long := strings.Repeat("ñ", access.MaxID/2)
			name := strings.Repeat("🛏", access.MaxName)
			r := b.room(func(c *session.Change) {
				placed(access.ProjectID(long), access.UserID(long))(c)
				c.Session.Name, c.Conversation.Title, c.Conversation.Agent = name, name, access.AgentID(long)
				c.Sandbox.Payer = access.UserID(long)
			})
			got := b.load(session.Address{Session: r.session.ID, Conversation: r.conversation.ID})
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: r.session, Sandbox: r.sandbox, Conversation: r.conversation})
			page, err := b.store.List(b.Context(), session.ListQuery{Project: access.ProjectID(long), Owner: access.UserID(long), Limit: 1})
			if err != nil || len(page.Items) != 1 {
				b.Fatalf("List: got %+v, %v", page, err)
			}
			b.same("listed", page.Items[0].Session, r.session)
		}},
	}
}
