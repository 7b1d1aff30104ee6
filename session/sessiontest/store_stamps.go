package sessiontest

import (
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func stampChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"stamps-clock", "Commit returns the store's clock, in UTC, and what Load shows is the change stamped with it.", func(b *storeBench) {
			before := b.load(b.room(nil).address()).Now
			b.clock.Step(2 * time.Hour)
			c := b.spawn(nil)
			clock := b.commit(c)
			got := b.load(session.Address{Session: c.Session.ID, Conversation: c.Conversation.ID})
			if clock.Before(before.Add(2*time.Hour)) || got.Now.Before(clock) {
				b.Errorf("Commit returned %v; two hours before it was %v, afterwards %v", clock, before, got.Now)
			}
			if _, offset := clock.Zone(); offset != 0 {
				b.Errorf("the clock is not in UTC: %v", clock)
			}
			c = c.Stamped(clock)
			b.same("snapshot", got, session.Snapshot{Now: got.Now, Session: *c.Session, Sandbox: *c.Sandbox, Conversation: *c.Conversation})
		}},
		{"stamps-session", "A session's moments are the store's: callers' own are never written over them.", func(b *storeBench) {
			old := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
			r := b.room(func(c *session.Change) {
				c.Session.CreatedAt, c.Session.LastActiveAt = old, old
				c.Conversation.CreatedAt, c.Conversation.LastActiveAt = old, old
			})
			got := b.load(session.Address{Conversation: r.conversation.ID})
			for name, at := range map[string]time.Time{
				"Session.CreatedAt": got.Session.CreatedAt, "Session.LastActiveAt": got.Session.LastActiveAt,
				"Conversation.CreatedAt": got.Conversation.CreatedAt, "Conversation.LastActiveAt": got.Conversation.LastActiveAt,
			} {
				if at.Year() == old.Year() {
					b.Errorf("%s is the caller's", name)
				}
			}
			b.clock.Step(time.Hour)
			s := r.session
			c := session.Change{Session: &s, End: true}
			want := *c.Stamped(b.commit(c)).Session
			b.same("ended session", b.load(r.address()).Session, want)
			if !want.EndedAt.After(want.CreatedAt) {
				b.Errorf("EndedAt %v is not after CreatedAt %v", want.EndedAt, want.CreatedAt)
			}
			s = want
			s.EndedAt = time.Time{}
			b.commit(session.Change{Session: &s})
			if got := b.load(r.address()).Session; got.Ended() {
				b.Errorf("reopened, it has still ended at %v", got.EndedAt)
			}
		}},
		{"stamps-sandbox", "Each of a change's Stamps sets its moment from the store's clock, and no other.", func(b *storeBench) {
			r := b.room(nil)
			row := b.filledRow(r, "moments")
			b.commit(session.Change{Sandbox: &row})
			for _, s := range []sandbox.Stamps{
				{},
				{Deadline: time.Minute}, {MaxDeadline: time.Hour}, {NotBefore: 90 * time.Second},
				{Absent: true}, {Live: true}, {Destroyed: true},
				{Deadline: time.Minute, MaxDeadline: time.Hour, NotBefore: time.Second, Absent: true, Live: true, Destroyed: true},
			} {
				b.clock.Step(time.Minute)
				now := b.load(r.address())
				row := now.Sandbox
				c := session.Change{Sandbox: &row, Stamps: s}
				clock := b.commit(c)
				if clock.Before(now.Now) {
					b.Errorf("Commit is dated %v, the Load before it %v", clock, now.Now)
				}
				b.same("sandbox", b.load(r.address()).Sandbox, *c.Stamped(clock).Sandbox)
			}
		}},
		{"stamps-tombstone", "Of a tombstone, buried or marked, Delay and Absent are stored as moments on the store's clock; what has neither stays as given.", func(b *storeBench) {
			given, stamped := b.tombstone(alice), b.tombstone(alice)
			given.NotBefore = b.clock.Now().Truncate(b.precision)
			given.AbsentSince = given.NotBefore.Add(-time.Hour)
			stamped.NotBefore, stamped.Delay = given.NotBefore, time.Hour
			c := session.Change{Bury: []sandbox.Tombstone{given, stamped}}
			want := c.Stamped(b.commit(c)).Bury
			b.same("outbox", b.outbox(), want)

			b.clock.Step(time.Minute)
			for i := range want {
				want[i].Attempts++
			}
			want[1].Absent = true
			c = session.Change{Mark: want}
			want = c.Stamped(b.commit(c)).Mark
			b.same("outbox, marked", b.outbox(), want)
		}},
	}
}
