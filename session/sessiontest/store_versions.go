package sessiontest

import (
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func versionChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"version-of-session", "A session is replaced only at the version it was read at; every write raises that by one.", func(b *storeBench) {
			r := b.room(nil)
			if r.session.Version != 1 {
				b.Fatalf("an inserted session has version %d, want 1", r.session.Version)
			}
			s := r.session
			s.Name = "second"
			b.commit(session.Change{Session: &s})
			if v := b.load(r.address()).Session.Version; v != 2 {
				b.Errorf("a replaced session has version %d, want 2", v)
			}
			before := b.picture(r)
			for _, v := range []int64{1, 3} {
				s.Version, s.Name = v, "stale"
				b.refuses(session.Change{Session: &s}, session.ErrStale, string(s.ID))
			}
			s.ID = session.ID(b.id()) // not there
			b.refuses(session.Change{Session: &s}, session.ErrStale, string(s.ID))
			b.same("what is stored", b.picture(r), before)
		}},
		{"version-of-sandbox", "A sandbox is replaced only at the version it was read at; every write raises that by one.", func(b *storeBench) {
			r := b.room(nil)
			row := r.sandbox
			row.Nonce = "second"
			b.commit(session.Change{Sandbox: &row})
			if v := b.load(r.address()).Sandbox.Version; v != 2 {
				b.Errorf("a replaced sandbox has version %d, want 2", v)
			}
			if v := b.load(r.address()).Session.Version; v != 1 {
				b.Errorf("a write of the sandbox raised its session's version to %d", v)
			}
			before := b.picture(r)
			for _, v := range []int64{1, 3} {
				row.Version, row.Nonce = v, "stale"
				b.refuses(session.Change{Sandbox: &row}, session.ErrStale, string(row.ID))
			}
			row.ID = sandbox.ID(b.id())
			b.refuses(session.Change{Sandbox: &row}, session.ErrStale, string(row.ID))
			b.same("what is stored", b.picture(r), before)
		}},
		{"version-of-parent", "To insert a conversation does not raise its session's version.", func(b *storeBench) {
			r := b.room(nil)
			v := b.thread(r.session)
			b.commit(session.Change{Conversation: v, Expect: []session.Guard{{Session: r.session.ID, Version: 1}}})
			if got := b.load(r.address()).Session.Version; got != 1 {
				b.Errorf("the session's version is %d, want 1", got)
			}
		}},
		{"guard", "A change is written only if every row that it expects has the expected version; 0 = is not there. Expected rows stay as they are.", func(b *storeBench) {
			r := b.room(nil)
			row := r.sandbox
			b.commit(session.Change{Sandbox: &row}) // now at version 2
			none := sandbox.ID(b.id())
			nobody := session.ID(b.id())
			holds := []session.Guard{
				{Session: r.session.ID, Version: 1}, {Sandbox: r.sandbox.ID, Version: 2},
				{Session: nobody, Version: 0}, {Sandbox: none, Version: 0},
			}
			before := b.picture(r)
			c := b.tombstone(alice)
			b.commit(session.Change{Expect: holds, Bury: []sandbox.Tombstone{c}})
			before.Outbox = []sandbox.Tombstone{c}
			b.same("what is stored", b.picture(r), before)
			for _, g := range []session.Guard{
				{Session: r.session.ID, Version: 0}, {Session: r.session.ID, Version: 2},
				{Sandbox: r.sandbox.ID, Version: 0}, {Sandbox: r.sandbox.ID, Version: 1}, {Sandbox: r.sandbox.ID, Version: 3},
				{Session: nobody, Version: 1}, {Sandbox: none, Version: 1},
			} {
				late := session.Change{Expect: append(holds[:len(holds):len(holds)], g), Bury: []sandbox.Tombstone{b.tombstone(alice)}}
				if _, err := b.store.Commit(b.Context(), late); !errors.Is(err, session.ErrStale) {
					b.Errorf("with %+v expected: got error %v, want ErrStale", g, err)
				}
			}
			b.same("what is stored", b.picture(r), before)
		}},
		{"end-or-ensure", "Of an end that saw no machine and an ensure that saw no end only the first is written. (T-14, T-15)", func(b *storeBench) {
			for _, endFirst := range []bool{true, false} {
				r := b.room(nil)
				s, row := r.session, r.sandbox
				row.State, row.Generation = sandbox.Creating, 1
				end := session.Change{Session: &s, End: true, Expect: []session.Guard{{Sandbox: row.ID, Version: row.Version}}}
				ensure := session.Change{Sandbox: &row, Expect: []session.Guard{{Session: s.ID, Version: s.Version}}}
				first, second := ensure, end
				if endFirst {
					first, second = end, ensure
				}
				b.commit(first)
				b.refuses(second, session.ErrStale)
				if got := b.load(r.address()); got.Session.Ended() == (got.Sandbox.State == sandbox.Creating) {
					b.Errorf("session ended at %v, sandbox %v", got.Session.EndedAt, got.Sandbox.State)
				}
			}
		}},
		{"all-or-nothing", "A change of which one part is refused leaves no trace of any other.", allOrNothing},
	}
}

// allOrNothing commits a change with every part it can have, each part being
// the one that is refused in turn, and in the end the whole that is not.
func allOrNothing(b *storeBench) {
	r, doomed, bystander := b.room(nil), b.room(machine(sandbox.Live, alice)), b.room(nil)
	marked, proven, fresh, absent := b.tombstone(bob), b.tombstone(bob), b.tombstone(bob), b.tombstone(bob)
	b.commit(session.Change{Bury: []sandbox.Tombstone{marked, proven}})
	e, lent, void := b.shared(nil), b.shared(machine(sandbox.Live, alice)), b.shared(machine(sandbox.Live, alice))
	tenant, loan := b.borrower(e, nil), b.borrower(lent, nil) // e shows with tenant
	rooms := []room{r, doomed, bystander, tenant, loan}

	whole := func() session.Change {
		s, row, m := r.session, r.sandbox, marked
		s.Name, row.Nonce, m.Attempts = "written", "written", 1
		row.State, row.Payer, row.Incarnation = sandbox.Live, alice, "free"
		shared := e.environment
		shared.Name = "written"
		return session.Change{
			Session: &s, End: true, Sandbox: &row, Stamps: sandbox.Stamps{Live: true},
			Environment: &shared, Retire: true,
			Conversation: b.thread(r.session),
			Expect: []session.Guard{
				{Session: bystander.session.ID, Version: 1}, {Sandbox: bystander.sandbox.ID, Version: 1}, {Environment: lent.environment.ID, Version: 1},
			},
			Bury: []sandbox.Tombstone{fresh}, Mark: []sandbox.Tombstone{m}, Prove: []sandbox.Tombstone{proven},
			Unclaimed: "free", Waited: []sandbox.ID{bystander.sandbox.ID},
			Delete: []session.Address{{Session: doomed.session.ID}, void.address(), thread(loan.conversation)},
			Limits: []session.Limit{{Kind: session.SessionsPerOwner, Scope: string(alice), Max: 5}},
		}
	}
	taken := sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: r.sandbox.ID, Generation: 7, Incarnation: "claimed"}}
	b.commit(session.Change{Bury: []sandbox.Tombstone{taken}})

	isLimit := func(err error) bool { return errors.As(err, new(*session.LimitError)) }
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	stale, exists := is(session.ErrStale), is(session.ErrExists)
	before := b.picture(rooms...)
	for _, part := range []struct {
		name  string
		spoil func(c *session.Change)
		want  func(error) bool
	}{
		{"Session", func(c *session.Change) { c.Session.Version = 9 }, stale},
		{"Session, taken", func(c *session.Change) { c.Session.Version = 0 }, exists},
		{"Sandbox", func(c *session.Change) { c.Sandbox.Version = 9 }, stale},
		{"Sandbox, a second", func(c *session.Change) { c.Sandbox.ID, c.Sandbox.Version = sandbox.ID(b.id()), 0 }, stale},
		{"Environment", func(c *session.Change) { c.Environment.Version = 9 }, stale},
		{"Environment, taken", func(c *session.Change) { c.Environment.Version = 0 }, exists},
		{"Conversation, taken", func(c *session.Change) { c.Conversation.ID = bystander.conversation.ID }, exists},
		{"Expect, session", func(c *session.Change) { c.Expect[0].Version = 9 }, stale},
		{"Expect, sandbox", func(c *session.Change) { c.Expect[1].Version = 9 }, stale},
		{"Expect, environment", func(c *session.Change) { c.Expect[2].Version = 2 }, stale},
		{"Expect, absent", func(c *session.Change) { c.Expect[0].Version = 0 }, stale},
		{"Mark, attempts", func(c *session.Change) { c.Mark[0].Attempts = 2 }, stale},
		{"Mark, absent", func(c *session.Change) { c.Mark = append(c.Mark, absent); c.Mark[1].Attempts = 1 }, stale},
		{"Prove, attempts", func(c *session.Change) { c.Prove[0].Attempts = 1 }, stale},
		{"Prove, absent", func(c *session.Change) { c.Prove = append(c.Prove, absent) }, stale},
		{"Unclaimed", func(c *session.Change) { c.Unclaimed = "claimed" }, is(session.ErrClaimed)},
		{"Delete, borrowed", func(c *session.Change) { c.Delete = append(c.Delete, lent.address()) }, stale},
		{"Limits", func(c *session.Change) { c.Limits[0].Max = 0 }, isLimit},
	} {
		b.clock.Step(time.Second)
		c := whole()
		part.spoil(&c)
		if _, err := b.store.Commit(b.Context(), c); !part.want(err) {
			b.Errorf("%s refused: got error %v", part.name, err)
		}
		if d := diff(b.picture(rooms...), before); d != "" {
			b.Errorf("%s refused, and yet this changed:\n%s", part.name, d)
		}
		if c.Conversation.ID != bystander.conversation.ID {
			if _, err := b.store.Load(b.Context(), session.Address{Conversation: c.Conversation.ID}); !errors.Is(err, session.ErrNotFound) {
				b.Errorf("%s refused, and yet the conversation: %v", part.name, err)
			}
		}
		b.same(part.name+" refused, and yet the environment", b.seen(void.address()), session.Snapshot{Environment: void.environment, Sandbox: void.sandbox})
		if b.Failed() { // what follows rests on nothing having been written
			return
		}
	}

	c := whole()
	c = c.Stamped(b.commit(c))
	got := b.load(session.Address{Session: r.session.ID, Conversation: c.Conversation.ID})
	b.same("the whole", got, session.Snapshot{Now: got.Now, Session: *c.Session, Sandbox: *c.Sandbox, Conversation: *c.Conversation})
	b.same("the environment", b.seen(e.address()), session.Snapshot{Environment: *c.Environment, Sandbox: e.sandbox})
	for _, a := range []session.Address{doomed.address(), void.address(), thread(loan.conversation)} {
		b.missing(a)
	}
	want := []sandbox.Tombstone{must(doomed.sandbox.Buried()), must(void.sandbox.Buried()), fresh, c.Mark[0], taken}
	sortTombstones(want)
	b.same("outbox", b.outbox(), want)
}
