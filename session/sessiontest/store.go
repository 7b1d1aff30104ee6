package sessiontest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// TestStore runs the suite of session.Store. open returns a fresh, empty store
// that goes by clock, and cleans up with t.Cleanup. opts may be nil.
func TestStore(t *testing.T, open func(t *testing.T, clock *Clock) session.Store, opts *Options) {
	t.Helper()
	runAll(t, storeChecks(), opts, func(t *testing.T, b bench) *storeBench {
		return &storeBench{b, open(t, b.clock)}
	})
}

func storeChecks() []check[*storeBench] {
	return slices.Concat(loadChecks(), rowChecks(), stampChecks(), versionChecks(), amendChecks(), refusalChecks(), outboxChecks(),
		deleteChecks(), limitChecks(), listChecks(), dueChecks(), dueLiveChecks(), waitedChecks(), touchChecks(), raceChecks(),
		environmentChecks(), environmentListChecks(), borrowedChecks(), knownChecks(), namesChecks(), missingChecks(), storedChecks(), ownedChecks())
}

// storeBench is where a store is checked.
type storeBench struct {
	bench
	store session.Store
}

// The names that checks use where any would do.
const (
	alice = access.UserID("alice")
	bob   = access.UserID("bob")
	host  = "host-1"
)

// commit commits c, which must succeed, and returns the store's clock.
func (b *storeBench) commit(c session.Change) time.Time {
	b.Helper()
	clock, err := b.store.Commit(b.Context(), c)
	if err != nil {
		b.Fatalf("Commit: %v", err)
	}
	return clock
}

// refuses commits c, which must fail with an error that is want and names each of the subjects.
func (b *storeBench) refuses(c session.Change, want error, subjects ...string) {
	b.Helper()
	_, err := b.store.Commit(b.Context(), c)
	if !errors.Is(err, want) {
		b.Fatalf("Commit: got error %v, want %v", err, want)
	}
	for _, s := range subjects {
		if !strings.Contains(err.Error(), s) {
			b.Errorf("Commit: error %q does not name its subject %s", err, s)
		}
	}
}

// load loads a, which must be there.
func (b *storeBench) load(a session.Address) session.Snapshot {
	b.Helper()
	s, err := b.store.Load(b.Context(), a)
	if err != nil {
		b.Fatalf("Load(%+v): %v", a, err)
	}
	return s
}

// missing expects that nothing is at a.
func (b *storeBench) missing(a session.Address) {
	b.Helper()
	if s, err := b.store.Load(b.Context(), a); !errors.Is(err, session.ErrNotFound) {
		b.Fatalf("Load(%+v): got %+v and error %v, want ErrNotFound", a, s, err)
	}
}

// room is a session with its sandbox and its first conversation, as stored.
type room struct {
	session      session.Session
	sandbox      sandbox.Row
	conversation session.Conversation
}

func (r room) address() session.Address { return session.Address{Session: r.session.ID} }

// room opens a personal session of alice in one commit, after edit (which may be nil) has had its way.
func (b *storeBench) room(edit func(*session.Change)) room {
	b.Helper()
	c := b.spawn(edit)
	c = c.Stamped(b.commit(c))
	return room{*c.Session, *c.Sandbox, *c.Conversation}
}

// spawn is the change that opens a room.
func (b *storeBench) spawn(edit func(*session.Change)) session.Change {
	s := session.Session{ID: session.ID(b.id()), Owner: alice, Name: "room"}
	c := session.Change{
		Session:      &s,
		Sandbox:      &sandbox.Row{ID: sandbox.ID(b.id()), Session: s.ID},
		Conversation: b.thread(s),
	}
	if edit != nil {
		edit(&c)
	}
	return c
}

// thread is a conversation to insert, bound to s; unbound where s is zero.
func (b *storeBench) thread(s session.Session) *session.Conversation {
	return &session.Conversation{
		ID: session.ConversationID(b.id()), Session: s.ID, Project: s.Project, Owner: cmp.Or(s.Owner, alice),
	}
}

// owned makes a room's session owner's.
func owned(owner access.UserID) func(*session.Change) {
	return func(c *session.Change) { c.Session.Owner, c.Conversation.Owner = owner, owner }
}

// placed puts a room into a project of owner's.
func placed(project access.ProjectID, owner access.UserID) func(*session.Change) {
	return func(c *session.Change) {
		owned(owner)(c)
		c.Session.Project, c.Conversation.Project = project, project
	}
}

// machine gives the room a machine in some state.
func machine(s sandbox.State, payer access.UserID) func(*session.Change) {
	return func(c *session.Change) {
		r := c.Sandbox
		r.State, r.Payer, r.Generation, r.Provider, r.Deployment = s, payer, 1, "p", "d"
		r.Key = sandbox.Key("bkr-" + r.ID)
		r.Name = sandbox.Name(r.Key, 1)
		if s == sandbox.Live || s == sandbox.Lost {
			r.Incarnation = sandbox.Incarnation("machine of " + r.ID)
		}
	}
}

// ended ends a room's session as it is opened.
func ended(c *session.Change) { c.End = true }

// both is several edits.
func both(edits ...func(*session.Change)) func(*session.Change) {
	return func(c *session.Change) {
		for _, e := range edits {
			e(c)
		}
	}
}

// tombstone is one to bury: generation 1 of a sandbox that payer pays for.
func (b *storeBench) tombstone(payer access.UserID) sandbox.Tombstone {
	return sandbox.Tombstone{
		TombstoneKey: sandbox.TombstoneKey{Sandbox: sandbox.ID(b.id()), Generation: 1, Incarnation: "gone"},
		Name:         "bkr-gone-g1", Provider: "p", Payer: payer, Deployment: "d", Origin: sandbox.OriginTornDown,
	}
}

// due collects what is due; host is always among the hosts asked for.
func (b *storeBench) due(kinds session.DueKind, hosts ...string) []session.Due {
	b.Helper()
	return b.dueUpTo(1000, kinds, append(hosts, host)...)
}

func (b *storeBench) dueUpTo(limit int, kinds session.DueKind, hosts ...string) []session.Due {
	b.Helper()
	var all []session.Due
	for d, err := range b.store.Due(b.Context(), session.DueQuery{Kinds: kinds, Hosts: hosts, Limit: limit}) {
		if err != nil {
			b.Fatalf("Due: %v", err)
		}
		all = append(all, d)
	}
	return all
}

// outbox returns all tombstones, sorted by their keys.
func (b *storeBench) outbox(hosts ...string) []sandbox.Tombstone {
	b.Helper()
	var all []sandbox.Tombstone
	for _, d := range b.due(session.DueTombstones, hosts...) {
		all = append(all, d.Tombstone)
	}
	sortTombstones(all)
	return all
}

func sortTombstones(all []sandbox.Tombstone) {
	slices.SortFunc(all, func(a, b sandbox.Tombstone) int {
		return cmp.Or(cmp.Compare(a.Sandbox, b.Sandbox), cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Incarnation, b.Incarnation))
	})
}

// picture is all that can be seen of some rooms and of the outbox, without the clock.
type picture struct {
	Rooms  []session.Snapshot
	Outbox []sandbox.Tombstone
}

func (b *storeBench) picture(rooms ...room) picture {
	b.Helper()
	var p picture
	for _, r := range rooms {
		s := b.load(session.Address{Session: r.session.ID, Conversation: r.conversation.ID})
		s.Now = time.Time{}
		p.Rooms = append(p.Rooms, s)
	}
	p.Outbox = b.outbox()
	return p
}
