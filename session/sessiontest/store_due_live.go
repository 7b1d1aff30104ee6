package sessiontest

import (
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// after collects what q yields; host is always among its hosts.
func (b *storeBench) after(q session.DueQuery) []session.Due {
	b.Helper()
	q.Hosts = append(slices.Clone(q.Hosts), host)
	if q.Limit == 0 {
		q.Limit = 100
	}
	var all []session.Due
	for d, err := range b.store.Due(b.Context(), q) {
		if err != nil {
			b.Fatalf("Due(%+v): %v", q, err)
		}
		all = append(all, d)
	}
	return all
}

// only collects what is due on hosts and nowhere else.
func (b *storeBench) only(kinds session.DueKind, hosts ...string) (all []session.Due) {
	b.Helper()
	for d, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: kinds, Hosts: hosts, OnlyHosts: true, Limit: 100}) {
		if err != nil {
			b.Fatalf("Due: %v", err)
		}
		all = append(all, d)
	}
	return all
}

func dueLiveChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"due-live", "A live sandbox is due when it was neither written nor looked at for Unseen, whoever it belongs to, and nothing else is.", func(b *storeBench) {
			for _, s := range inEveryState {
				if s != sandbox.Live {
					b.room(machine(s, alice))
				}
			}
			r := b.room(machine(sandbox.Live, alice))
			b.clock.Step(time.Minute)
			e := b.shared(machine(sandbox.Live, alice))
			b.clock.Step(time.Minute)
			done := b.room(both(machine(sandbox.Live, alice), ended)) // wrongly so; it is looked at all the same
			q := session.DueQuery{Kinds: session.DueLive, Unseen: time.Hour}
			b.yields("at once", b.after(q))
			b.yields("at once, of all", b.after(session.DueQuery{Kinds: session.DueLive}), r.sandbox.ID, e.sandbox.ID, done.sandbox.ID)
			b.clock.Step(time.Hour - 90*time.Second)
			b.yields("an hour after the first", b.after(q), r.sandbox.ID)
			b.clock.Step(time.Hour)
			due := b.after(q)
			b.yields("two hours later", due, r.sandbox.ID, e.sandbox.ID, done.sandbox.ID)
			b.same("a session's", due[0], session.Due{Kind: session.DueLive,
				Snapshot: session.Snapshot{Now: due[0].Snapshot.Now, Session: r.session, Sandbox: r.sandbox}})
			b.same("an environment's", due[1], session.Due{Kind: session.DueLive,
				Snapshot: session.Snapshot{Now: due[1].Snapshot.Now, Environment: e.environment, Sandbox: e.sandbox}})
			if now := due[0].Snapshot.Now; now.Before(r.session.CreatedAt.Add(2 * time.Hour)) {
				b.Errorf("two hours after %v Now is %v", r.session.CreatedAt, now)
			}

			b.touch(r.address()) // use is no look
			b.wait(e.sandbox.ID)
			row := done.sandbox
			b.commit(session.Change{Sandbox: &row})
			b.yields("after one has waited and one was written", b.after(q), r.sandbox.ID)
			b.clock.Step(time.Hour)
			b.yields("an hour after that", b.after(q), r.sandbox.ID, e.sandbox.ID, done.sandbox.ID)
		}},
		{"due-idle", "A live sandbox of a session that has not ended is due as idle when the session was last active Idle ago; what an environment has never is.", func(b *storeBench) {
			for _, s := range inEveryState {
				if s != sandbox.Live {
					b.room(machine(s, alice))
				}
			}
			b.room(both(machine(sandbox.Live, alice), ended))
			e := b.shared(machine(sandbox.Live, alice))
			b.borrower(e, nil)
			one := b.room(machine(sandbox.Live, alice))
			b.clock.Step(time.Second)
			two := b.room(machine(sandbox.Live, alice))
			q := session.DueQuery{Kinds: session.DueIdle, Idle: time.Hour}
			b.yields("at once", b.after(q))
			b.clock.Step(30 * time.Minute)
			b.touch(session.Address{Conversation: two.conversation.ID})
			row := one.sandbox // a write of the sandbox is no use of the session
			b.commit(session.Change{Sandbox: &row})
			b.clock.Step(30 * time.Minute)
			due := b.after(q)
			b.yields("an hour after the first", due, one.sandbox.ID)
			row.Version++
			b.same("item", due[0], session.Due{Kind: session.DueIdle,
				Snapshot: session.Snapshot{Now: due[0].Snapshot.Now, Session: one.session, Sandbox: row}})
			b.clock.Step(30 * time.Minute)
			b.yields("an hour after the touch, the longest unwritten first", b.after(q), two.sandbox.ID, one.sandbox.ID)

			end := one.session
			b.commit(session.Change{Session: &end, End: true})
			b.yields("once the first has ended", b.after(q), two.sandbox.ID)
		}},
		{"due-live-hosts", "What is live on a host is due there only, to be looked at as to be stopped, and Limit bounds each kind.", func(b *storeBench) {
			var rooms []room
			for _, h := range []string{"", "here", "there"} {
				rooms = append(rooms, b.room(both(machine(sandbox.Live, alice), bound(h))))
				b.clock.Step(time.Second)
			}
			b.clock.Step(time.Hour)
			free, here, there := rooms[0].sandbox.ID, rooms[1].sandbox.ID, rooms[2].sandbox.ID
			for _, kind := range []session.DueKind{session.DueLive, session.DueIdle} {
				for _, x := range []struct {
					hosts []string
					want  []sandbox.ID
				}{{nil, []sandbox.ID{free}}, {[]string{"here"}, []sandbox.ID{free, here}}, {[]string{"there", "here"}, []sandbox.ID{free, here, there}}, {[]string{"her"}, []sandbox.ID{free}}} {
					b.yields("due", b.after(session.DueQuery{Kinds: kind, Hosts: x.hosts}), x.want...)
				}
			}
			all := b.after(session.DueQuery{Kinds: session.DueLive | session.DueIdle, Hosts: []string{"here", "there"}, Limit: 2})
			n := map[session.DueKind]int{}
			for _, d := range all {
				n[d.Kind]++
			}
			if len(all) != 4 || n[session.DueLive] != 2 || n[session.DueIdle] != 2 {
				b.Errorf("of three of each kind at most two: got %v", n)
			}
		}},
		{"due-only-hosts", "With OnlyHosts what is bound to no host is left out, and a create is due before its deadline: on a host that is gone nobody is creating anything any more.", func(b *storeBench) {
			states := map[session.DueKind]func(*session.Change){
				session.DueCreating: creating(time.Hour), session.DueDestroying: machine(sandbox.Destroying, alice), session.DueLive: machine(sandbox.Live, alice),
			}
			for kind, state := range states {
				b.room(state)
				gone := b.room(both(state, bound("gone")))
				b.room(both(state, bound("there")))
				b.yields("due", b.only(kind, "gone"), gone.sandbox.ID)
			}
			free, there := b.tombstone(alice), b.tombstone(alice)
			free.Host, there.Host = "", "gone"
			b.commit(session.Change{Bury: []sandbox.Tombstone{free, there}})
			b.yields("outbox", b.only(session.DueTombstones, "gone"), there.Sandbox)
			b.yields("nowhere", b.only(session.DueCreating|session.DueDestroying|session.DueLive|session.DueTombstones))
		}},
		{"due-environments", "What an environment has is due as what a session has, and comes with the environment in place of a session.", func(b *storeBench) {
			making := b.shared(creating(time.Minute))
			b.clock.Step(time.Second)
			dying := b.shared(both(machine(sandbox.Destroying, alice), func(c *session.Change) { c.Retire = true }))
			b.borrower(making, nil)
			b.clock.Step(time.Hour)
			for kind, e := range map[session.DueKind]shared{session.DueCreating: making, session.DueDestroying: dying} {
				due := b.due(kind)
				b.yields("due", due, e.sandbox.ID)
				b.same("item", due[0], session.Due{Kind: kind,
					Snapshot: session.Snapshot{Now: due[0].Snapshot.Now, Environment: e.environment, Sandbox: e.sandbox}})
			}
			grave := b.tombstone(alice)
			grave.Sandbox = making.sandbox.ID
			b.commit(session.Change{Bury: []sandbox.Tombstone{grave}})
			due := b.due(session.DueTombstones)
			b.yields("outbox", due, grave.Sandbox)
			b.same("row of the tombstone", due[0].Snapshot.Sandbox, making.sandbox)
		}},
	}
}
