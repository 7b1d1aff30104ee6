package session_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Who is who in every test: project "p" is ann's, who pays for it; bob is a
// member, ada an admin, eve nobody. "builder" and "tester" are its agents,
// "mute" one that may not run code; "spy" is an agent of eve's project "q".
var (
	ann = access.Actor{User: "ann"}
	bob = access.Actor{User: "bob"}
	ada = access.Actor{User: "ada"}
	eve = access.Actor{User: "eve"}
)

func newDirectory() *memory.Directory {
	d := memory.NewDirectory()
	d.AddProject("p", "ann", "pro")
	d.AddProject("q", "eve", "pro")
	d.AddMember("p", "bob", access.RoleMember)
	d.AddMember("p", "ada", access.RoleAdmin)
	for _, u := range []access.UserID{"ann", "bob", "ada"} {
		d.SetCode(u, "p", true)
		d.SetCode(u, "", true)
	}
	d.SetCode("eve", "q", true)
	d.SetCode("eve", "", true)
	d.AddAgent("p", "builder", true)
	d.AddAgent("p", "tester", true)
	d.AddAgent("p", "mute", false)
	d.AddAgent("q", "spy", true)
	return d
}

var secret = []byte("0123456789abcdef0123456789abcdef")

// world is everything outside a replica: a database, a provider, the host's
// directory, the payers' accounts. It watches what every replica asks of the provider.
type world struct {
	testing.TB
	db     *memory.DB
	boxes  *memory.Sandboxes
	dir    *memory.Directory
	gate   *gate
	limits session.Limits

	mu           sync.Mutex
	events       []access.Event
	sessions     map[session.ID]bool // all that were ever asked to be written
	environments map[session.EnvironmentID]bool
	borrowers    map[session.ID]bool // those of sessions that have no sandbox of their own
}

// inWorld runs f as a subtest on a fake clock, in a world whose provider has these caps.
func inWorld(t *testing.T, rule string, caps sandbox.Caps, f func(t *testing.T, w *world)) {
	t.Run(rule, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, caps)) })
	})
}

func newWorld(t testing.TB, caps sandbox.Caps) *world {
	w := &world{
		TB: t, db: memory.New(nil), dir: newDirectory(), gate: &gate{t: t, holds: map[string]*hold{}},
		boxes: memory.NewSandboxes(&memory.SandboxOptions{Caps: &caps}), sessions: map[session.ID]bool{},
		environments: map[session.EnvironmentID]bool{}, borrowers: map[session.ID]bool{},
	}
	for name, h := range memory.Coreutils() {
		w.boxes.Handle(name, h)
	}
	return w
}

// The kinds of provider: one that hides nothing, one that says nothing of itself, one in between.
var (
	immediate = sandbox.Caps{
		ShellConfined: true, BindsPerProcess: true, UniqueNames: true, KillBy: sandbox.KillByIncarnation,
		CreateHorizon: sandbox.Immediate, VisibilityLag: sandbox.Immediate,
	}
	unknown = sandbox.Caps{KillBy: sandbox.KillByIncarnation}
	lagging = sandbox.Caps{KillBy: sandbox.KillByIncarnation, CreateHorizon: 2 * time.Minute, VisibilityLag: time.Minute}
)

// replica is one process of the host: a Service, and the wire to all that it calls.
type replica struct {
	*session.Service
	*wire
	w *world
}

// replica starts a process. change may alter its configuration.
func (w *world) replica(change ...func(*session.Config)) *replica {
	w.Helper()
	line := newWire()
	c := session.Config{
		Store: &wiredStore{w.db.Sessions(), line, w}, Leases: wiredLeases{w.db.Leases(), line},
		Directory: wiredDirectory{w.dir, line}, Gate: wiredGate{w.gate, line},
		Sandboxes: []sandbox.Provider{wiredProvider{w.boxes, line, w}}, KeySecret: secret, Deployment: "bunkroom", Hold: 2 * time.Minute,
		Limits: func(access.Plan) session.Limits { return w.limits },
		Audit: func(_ context.Context, e access.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := session.New(c)
	if err != nil {
		w.Fatalf("New: %v", err)
	}
	return &replica{s, line, w}
}

// spawn opens a session of project "p" with a first conversation with "builder".
func (r *replica) spawn(a access.Actor) (session.Session, session.Conversation) {
	r.w.Helper()
	s, v, err := r.Spawn(r.w.Context(), a, session.Spawn{Project: "p", Agent: "builder", Name: "n", Title: "t"})
	if err != nil {
		r.w.Fatalf("Spawn: %v", err)
	}
	return s, v
}

func (r *replica) add(a access.Actor, id session.ID, agent access.AgentID) session.Conversation {
	r.w.Helper()
	v, err := r.AddConversation(r.w.Context(), a, session.AddConversation{Session: id, Agent: agent})
	if err != nil {
		r.w.Fatalf("AddConversation: %v", err)
	}
	return v
}

// work opens work that ends with the test at the latest.
func (r *replica) work(ctx context.Context, a access.Actor, q session.WorkRequest) (*session.Work, error) {
	wk, err := r.Open(ctx, a, q)
	if err == nil {
		r.w.Cleanup(func() { wk.Close(context.Background()) })
	}
	return wk, err
}

func (r *replica) mustWork(a access.Actor, q session.WorkRequest) *session.Work {
	r.w.Helper()
	wk, err := r.work(r.w.Context(), a, q)
	if err != nil {
		r.w.Fatalf("Open(%+v): %v", q, err)
	}
	synctest.Wait() // until it is noted that work has begun
	return wk
}

// inSession and inConversation ask for work, and for a machine where there is none.
func inSession(id session.ID) session.WorkRequest {
	return session.WorkRequest{Session: id, Ensure: true}
}

func inConversation(id session.ConversationID) session.WorkRequest {
	return session.WorkRequest{Conversation: id, Ensure: true}
}

func (r *replica) end(a access.Actor, id session.ID) session.EndReport {
	r.w.Helper()
	rep, err := r.End(r.w.Context(), a, id)
	if err != nil {
		r.w.Fatalf("End: %v", err)
	}
	return rep
}

func (r *replica) reclaim() session.ReclaimReport {
	r.w.Helper()
	rep, err := r.Reclaim(r.w.Context(), session.ReclaimOptions{})
	if err != nil {
		r.w.Fatalf("Reclaim: %v", err)
	}
	return rep
}

// snap is what the database holds of a session, past every replica.
func (w *world) snap(id session.ID) session.Snapshot {
	w.Helper()
	s, err := w.db.Sessions().Load(context.Background(), session.Address{Session: id})
	if err != nil {
		w.Fatalf("Load %s: %v", id, err)
	}
	return s
}

// all are the snapshots of all sessions that exist, in no particular order.
func (w *world) all() (found []session.Snapshot) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.sessions))
	w.mu.Unlock()
	for _, id := range ids {
		s, err := w.db.Sessions().Load(context.Background(), session.Address{Session: id})
		if err == nil {
			found = append(found, s)
		} else if !errors.Is(err, session.ErrNotFound) {
			w.Errorf("Load %s: %v", id, err)
		}
	}
	return found
}

// allEnvironments are the snapshots of all environments that exist, deleted ones included.
func (w *world) allEnvironments() (found []session.Snapshot) {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.environments))
	w.mu.Unlock()
	for _, id := range ids {
		s, err := w.db.Sessions().Load(context.Background(), session.Address{Environment: id})
		if err == nil {
			found = append(found, s)
		} else if !errors.Is(err, session.ErrNotFound) {
			w.Errorf("Load %s: %v", id, err)
		}
	}
	return found
}

// outbox is the outbox, oldest first.
func (w *world) outbox() (found []sandbox.Tombstone) {
	q := session.DueQuery{Kinds: session.DueTombstones, Hosts: []string{w.boxes.Info().Host}, Limit: 1000}
	for due, err := range w.db.Sessions().Due(context.Background(), q) {
		if err != nil {
			w.Errorf("Due: %v", err)
		}
		found = append(found, due.Tombstone)
	}
	return found
}

// audited are the events since the last call of audited.
func (w *world) audited() []access.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// created is how many machines were asked for.
func (w *world) created() int { return w.asked(memory.OpCreate) }

func (w *world) asked(op memory.Op) (n int) {
	for _, c := range w.boxes.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}

// on makes a script that meddles with the nth call of op only.
func on(op memory.Op, nth int, f memory.Fault) func(memory.Call) memory.Fault {
	return func(c memory.Call) memory.Fault {
		if c.Op == op && c.Nth == nth {
			return f
		}
		return memory.Fault{}
	}
}

// always makes a script that meddles with every call of op.
func always(op memory.Op, f memory.Fault) func(memory.Call) memory.Fault {
	return func(c memory.Call) memory.Fault {
		if c.Op == op {
			return f
		}
		return memory.Fault{}
	}
}

// letRun lets every machine run that is starting.
func (w *world) letRun() {
	for _, m := range w.boxes.Machines() {
		if m.Status == sandbox.StatusStarting {
			w.boxes.SetStatus(m.Incarnation, sandbox.StatusRunning)
		}
	}
}

// latch is shut until the test opens it, or ends.
func latch(t testing.TB) *memory.Latch {
	l := new(memory.Latch)
	t.Cleanup(l.Open)
	return l
}

// wantErr fails the test where err is not, or does not wrap, want.
func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantType fails the test where err is no T, and returns it.
func wantType[T error](t testing.TB, what string, err error) T {
	t.Helper()
	e, ok := errors.AsType[T](err)
	if !ok {
		t.Fatalf("%s: error %v (%T), want a %T", what, err, err, e)
	}
	return e
}

// wantField fails the test where err does not name a field.
func wantField(t testing.TB, what string, err error, field string) {
	t.Helper()
	if e := wantType[*access.FieldError](t, what, err); e.Field != field {
		t.Errorf("%s: names field %q, want %q", what, e.Field, field)
	}
}

// whereHandler is a program that tells which folder its agent has.
func whereHandler(dir *string) memory.Handler {
	return func(_ context.Context, c *memory.Command) int {
		*dir = c.Getenv("BUNKROOM_AGENT_DIR")
		return 0
	}
}
