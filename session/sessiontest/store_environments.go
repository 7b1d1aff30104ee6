package sessiontest

import (
	"errors"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// project is the project that environments and those who borrow them are in.
const project = "project"

// shared is an environment with its sandbox, as stored.
type shared struct {
	environment session.Environment
	sandbox     sandbox.Row
}

func (e shared) address() session.Address {
	return session.Address{Environment: e.environment.ID}
}

// shared opens an environment of project in one commit, after edit (which may be nil) has had its way.
func (b *storeBench) shared(edit func(*session.Change)) shared {
	b.Helper()
	c := b.open(edit)
	c = c.Stamped(b.commit(c))
	return shared{*c.Environment, *c.Sandbox}
}

// open is the change that opens an environment.
func (b *storeBench) open(edit func(*session.Change)) session.Change {
	e := session.Environment{ID: session.EnvironmentID(b.id()), Project: project, CreatedBy: bob, Name: "environment"}
	c := session.Change{Environment: &e, Sandbox: &sandbox.Row{ID: sandbox.ID(b.id()), Environment: e.ID}}
	if edit != nil {
		edit(&c)
	}
	return c
}

// borrower opens a session of alice that borrows e. Its room has e's sandbox.
func (b *storeBench) borrower(e shared, edit func(*session.Change)) room {
	b.Helper()
	c := b.spawn(both(placed(project, alice), borrows(e)))
	if edit != nil {
		edit(&c)
	}
	c = c.Stamped(b.commit(c))
	return room{*c.Session, e.sandbox, *c.Conversation}
}

// borrows has a room borrow e, in place of a sandbox of its own.
func borrows(e shared) func(*session.Change) {
	return func(c *session.Change) { c.Session.Environment, c.Sandbox = e.environment.ID, nil }
}

// seen is what is at a, without the clock.
func (b *storeBench) seen(a session.Address) session.Snapshot {
	b.Helper()
	s := b.load(a)
	s.Now = time.Time{}
	return s
}

// inEveryState are the states a sandbox can be in.
var inEveryState = []sandbox.State{sandbox.None, sandbox.Creating, sandbox.Live, sandbox.Lost, sandbox.Destroying}

func environmentChecks() []check[*storeBench] {
	return []check[*storeBench]{
		{"environment-every-field", "Every field of an environment is kept as it was committed, and so is its sandbox's.", func(b *storeBench) {
			var e session.Environment
			b.filled(&e, "environment")
			e.ID, e.Version = session.EnvironmentID(b.id()), 0
			row := b.filledRow(room{sandbox: sandbox.Row{ID: sandbox.ID(b.id())}}, "row")
			row.Environment = e.ID
			c := session.Change{Environment: &e, Sandbox: &row}
			want := c.Stamped(b.commit(c))
			a := session.Address{Environment: e.ID}
			b.same("snapshot", b.seen(a), session.Snapshot{Environment: *want.Environment, Sandbox: *want.Sandbox})

			e = *want.Environment
			e.Name, e.DeletedAt = "another", time.Time{}
			c = session.Change{Environment: &e}
			b.same("environment, replaced", stampedEnvironment(c, b.commit(c)), b.load(a).Environment)
		}},
		{"environment-replace", "Of a replaced environment only Name and DeletedAt change: not its project, its maker or its age.", func(b *storeBench) {
			e := b.shared(nil)
			b.clock.Step(time.Hour)
			next := e.environment
			next.Project, next.CreatedBy, next.CreatedAt = "elsewhere", alice, next.CreatedAt.Add(-time.Hour)
			next.Name = "another"
			c := session.Change{Environment: &next, Retire: true}
			clock := b.commit(c)
			want := e.environment
			want.Name, want.Version, want.DeletedAt = "another", 2, clock
			b.same("environment", b.load(e.address()).Environment, want)
			b.same("environment of its project", b.environments(project), []session.EnvironmentSummary(nil))
			b.same("environment of another", b.environments("elsewhere"), []session.EnvironmentSummary(nil))
		}},
		{"environment-version", "An environment is replaced only at the version it was read at; every write raises that by one.", func(b *storeBench) {
			e := b.shared(nil)
			if e.environment.Version != 1 {
				b.Fatalf("an inserted environment has version %d, want 1", e.environment.Version)
			}
			next := e.environment
			next.Name = "second"
			b.commit(session.Change{Environment: &next})
			before := b.seen(e.address())
			if before.Environment.Version != 2 || before.Sandbox.Version != 1 {
				b.Errorf("after one write of the environment it has version %d, want 2; its sandbox %d, want 1", before.Environment.Version, before.Sandbox.Version)
			}
			for _, v := range []int64{1, 3} {
				next.Version, next.Name = v, "stale"
				b.refuses(session.Change{Environment: &next, Retire: true}, session.ErrStale, string(next.ID))
			}
			next.ID = session.EnvironmentID(b.id()) // not there
			b.refuses(session.Change{Environment: &next}, session.ErrStale, string(next.ID))
			b.same("what is stored", b.seen(e.address()), before)
			b.missing(session.Address{Environment: next.ID})
		}},
		{"environment-exists", "A taken environment id is ErrExists, in whatever project, and what came with it is not written.", func(b *storeBench) {
			e := b.shared(nil)
			for _, p := range []access.ProjectID{project, "another project"} {
				c := session.Change{
					Environment:  &session.Environment{ID: e.environment.ID, Project: p, Name: "usurper"},
					Conversation: b.thread(session.Session{}),
				}
				b.refuses(c, session.ErrExists, string(e.environment.ID))
				b.missing(session.Address{Conversation: c.Conversation.ID})
			}
			b.same("what is stored", b.seen(e.address()), session.Snapshot{Environment: e.environment, Sandbox: e.sandbox})
		}},
		{"environment-retire", "Retire stamps DeletedAt with the store's clock, as Commit returns it; without Retire nothing does.", func(b *storeBench) {
			e := b.shared(nil)
			next := e.environment
			b.clock.Step(time.Hour)
			c := session.Change{Environment: &next}
			next = stampedEnvironment(c, b.commit(c))
			if got := b.load(e.address()).Environment; got.Deleted() {
				b.Errorf("deleted at %v, though nobody asked for that", got.DeletedAt)
			}
			b.clock.Step(time.Hour)
			c = session.Change{Environment: &next, Retire: true}
			clock := b.commit(c)
			got := b.load(e.address())
			b.same("environment", got.Environment, stampedEnvironment(c, clock))
			if at := got.Environment.DeletedAt; !at.Equal(clock) || at.Before(e.environment.CreatedAt.Add(2*time.Hour)) || at.After(got.Now) {
				b.Errorf("deleted at %v by a commit at %v", at, clock)
			}
		}},
		{"environment-load", "Load shows an environment and its sandbox: without a session where it is asked for, with the session to whoever borrows it. (S-05)", func(b *storeBench) {
			b.shared(nil)
			e := b.shared(machine(sandbox.Live, alice))
			one, two := b.borrower(e, nil), b.borrower(e, nil)
			b.same("by environment", b.seen(e.address()), session.Snapshot{Environment: e.environment, Sandbox: e.sandbox})
			for _, r := range []room{one, two} {
				want := session.Snapshot{Session: r.session, Environment: e.environment, Sandbox: e.sandbox}
				b.same("by session", b.seen(r.address()), want)
				want.Conversation = r.conversation
				b.same("by conversation", b.seen(session.Address{Conversation: r.conversation.ID}), want)
				b.same("by both", b.seen(session.Address{Session: r.session.ID, Conversation: r.conversation.ID}), want)
			}
			own := b.room(placed(project, alice))
			b.same("who borrows nothing", b.seen(own.address()), session.Snapshot{Session: own.session, Sandbox: own.sandbox})

			row := e.sandbox // one row, whichever way it is had
			row.State = sandbox.Destroying
			c := session.Change{Sandbox: &row}
			row = *c.Stamped(b.commit(c)).Sandbox
			for _, a := range []session.Address{e.address(), one.address(), two.address()} {
				b.same("the sandbox, written", b.load(a).Sandbox, row)
			}
		}},
		{"environment-not-found", "An environment that is not there is ErrNotFound, and the error names it; another kind's id is none. (T-03)", func(b *storeBench) {
			e := b.shared(nil)
			r := b.borrower(e, nil)
			for _, a := range []session.Address{
				{Environment: session.EnvironmentID(b.id())},
				{Environment: session.EnvironmentID(r.session.ID)}, {Environment: session.EnvironmentID(e.sandbox.ID)},
				{Session: session.ID(e.environment.ID)}, {Conversation: session.ConversationID(e.environment.ID)},
			} {
				b.missing(a)
				_, err := b.store.Load(b.Context(), a)
				if id := string(a.Session) + string(a.Conversation) + string(a.Environment); !strings.Contains(err.Error(), id) {
					b.Errorf("Load(%+v): error %q does not name %s", a, err, id)
				}
			}
		}},
		{"environment-list-machine", "A session that borrows is listed with the state of the environment's machine.", func(b *storeBench) {
			for _, s := range inEveryState {
				e := b.shared(machine(s, alice))
				for range 2 {
					r := b.borrower(e, nil)
					p := b.list(session.ListQuery{Project: project, Session: r.session.ID, Limit: 1})
					b.same("page", p, session.Page{Items: []session.Summary{{
						Session: r.session, Machine: s, Conversations: []session.Conversation{r.conversation},
					}}})
				}
			}
		}},
		{"environment-dangling", "A session borrows an environment of its own project that is there, or is not written.", func(b *storeBench) {
			e := b.shared(nil)
			gone := shared{environment: session.Environment{ID: session.EnvironmentID(b.id())}}
			for what, edit := range map[string]func(*session.Change){
				"a personal session":                borrows(e),
				"a session of another project":      both(placed("another project", alice), borrows(e)),
				"of an environment that is not one": both(placed(project, alice), borrows(gone)),
			} {
				c := b.spawn(edit)
				if _, err := b.store.Commit(b.Context(), c); err == nil {
					b.Errorf("%s: written", what)
				}
				b.missing(session.Address{Session: c.Session.ID})
				b.missing(session.Address{Conversation: c.Conversation.ID})
			}
			b.borrower(e, nil)
		}},
		{"environment-for-good", "A session borrows what it was opened with for good.", func(b *storeBench) {
			one, two := b.shared(nil), b.shared(nil)
			r, own := b.borrower(one, nil), b.room(placed(project, alice))
			for _, s := range []session.Session{r.session, own.session} {
				for _, id := range []session.EnvironmentID{"", two.environment.ID} {
					v := s
					v.Name, v.Environment = "moved", id
					_, err := b.store.Commit(b.Context(), session.Change{Session: &v})
					if got := b.load(session.Address{Session: s.ID}); got.Session.Environment != s.Environment || got.Sandbox.Environment != s.Environment {
						b.Errorf("a session that borrowed %q has %q and a sandbox of %q (Commit answered %v)", s.Environment, got.Session.Environment, got.Sandbox.Environment, err)
					}
					s = b.load(session.Address{Session: s.ID}).Session
				}
			}
		}},
		{"environment-sandbox", "An environment that is there has at most one sandbox, which is its own for good: a second one is ErrStale.", func(b *storeBench) {
			e, other := b.shared(nil), b.shared(nil)
			r := b.room(placed(project, alice))
			second := sandbox.Row{ID: sandbox.ID(b.id()), Environment: e.environment.ID}
			b.refuses(session.Change{Sandbox: &second}, session.ErrStale, string(e.environment.ID))
			nowhere := sandbox.Row{ID: sandbox.ID(b.id()), Environment: session.EnvironmentID(b.id())}
			if _, err := b.store.Commit(b.Context(), session.Change{Sandbox: &nowhere}); err == nil {
				b.Errorf("a sandbox was given to an environment that is not there")
			}
			b.commit(session.Change{Expect: []session.Guard{{Sandbox: second.ID}, {Sandbox: nowhere.ID}}}) // neither is there

			for _, edit := range []func(*sandbox.Row){
				func(row *sandbox.Row) { row.Environment = other.environment.ID },
				func(row *sandbox.Row) { row.Environment, row.Session = "", r.session.ID },
			} {
				row := b.load(e.address()).Sandbox
				edit(&row)
				_, err := b.store.Commit(b.Context(), session.Change{Sandbox: &row})
				if got := b.load(e.address()).Sandbox; got.Environment != e.environment.ID || got.Session != "" {
					b.Errorf("the sandbox moved to %q%q (Commit answered %v)", got.Environment, got.Session, err)
				}
			}
			b.same("the other environment's sandbox", b.load(other.address()).Sandbox, other.sandbox)
			b.same("the session's sandbox", b.load(r.address()).Sandbox, r.sandbox)
		}},
		{"environment-guard", "A change is written only if every environment that it expects has the expected version; 0 = is not there.", func(b *storeBench) {
			e := b.shared(nil)
			next := e.environment
			b.commit(session.Change{Environment: &next, Retire: true}) // now at version 2
			nowhere := session.EnvironmentID(b.id())
			before := b.seen(e.address())
			for _, x := range []struct {
				guard session.Guard
				holds bool
			}{
				{session.Guard{Environment: e.environment.ID, Version: 2}, true}, {session.Guard{Environment: nowhere}, true},
				{session.Guard{Environment: e.environment.ID}, false}, {session.Guard{Environment: e.environment.ID, Version: 1}, false},
				{session.Guard{Environment: e.environment.ID, Version: 3}, false}, {session.Guard{Environment: nowhere, Version: 1}, false},
			} {
				c := session.Change{Conversation: b.thread(session.Session{}), Expect: []session.Guard{x.guard}}
				_, err := b.store.Commit(b.Context(), c)
				_, absent := b.store.Load(b.Context(), session.Address{Conversation: c.Conversation.ID})
				switch {
				case x.holds && (err != nil || absent != nil):
					b.Errorf("with %+v expected: refused with %v", x.guard, err)
				case !x.holds && (!errors.Is(err, session.ErrStale) || !errors.Is(absent, session.ErrNotFound)):
					b.Errorf("with %+v expected: got error %v, want ErrStale and nothing written (%v)", x.guard, err, absent)
				case !x.holds && !strings.Contains(err.Error(), string(x.guard.Environment)):
					b.Errorf("error %q does not name %s", err, x.guard.Environment)
				}
			}
			b.same("what is stored", b.seen(e.address()), before)
		}},
		{"environment-limits", "An environment's machine counts once against its payer, however many borrow it.", func(b *storeBench) {
			e := b.shared(machine(sandbox.Live, alice))
			b.shared(machine(sandbox.Lost, alice))
			b.shared(machine(sandbox.Destroying, alice))
			for range 3 {
				b.borrower(e, nil)
			}
			b.counts(session.MachinesPerPayer, string(alice), 2)
			b.counts(session.SessionsPerOwner, string(alice), 3)
			b.counts(session.SessionsPerOwner, string(bob), 0) // who only opened the environment
		}},
	}
}

// stampedEnvironment is c's environment as it is stored at clock.
func stampedEnvironment(c session.Change, clock time.Time) session.Environment {
	return *c.Stamped(clock).Environment
}
