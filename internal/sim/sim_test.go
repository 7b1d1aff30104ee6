package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

var (
	secret = []byte("0123456789abcdef0123456789abcdef")
	ann    = access.Actor{User: "ann"}
)

// sim is one schedule: replicas over one store and one provider, and the
// scheduler that lets one call go on at a time. But for the fields under mu
// nothing is touched by two goroutines at once: of all that runs in the
// bubble, one does something and the others wait.
type sim struct {
	testing.TB
	*trace
	seed  uint64
	world world
	rnd   *rand.Rand // the scheduler's alone

	store     session.Store
	leases    session.Leases
	offset    time.Duration // the store's clock is so much ahead of every replica's
	directory *memory.Directory
	limits    session.Limits
	lease     time.Duration

	mu     sync.Mutex
	parked []*call
	calls  int
	ended  bool
	over   chan struct{} // closed at the end: what waits goes home
	broken string        // the first violation
	ops    map[string]*op
	ends   []string // what has ended since everything was last at rest: of several, which came first is up to Go

	born     int // replicas, ever
	started  int // operations, ever
	replicas []*replica
	old      []*replica // that drain
	stop     []context.CancelFunc

	boxes     []*memory.Sandboxes
	machines  []*machine
	procs     []*running
	creates   map[birthplace]int // under way
	due       []due
	dues      int
	outage    time.Time
	throttled time.Time // the provider answers most calls with "too many requests" until then
	calm      bool
	goneName  map[string]sandbox.Incarnation // proven gone; the one that was spared
	goneOne   map[sandbox.Incarnation]bool

	ledger    billing.Ledger
	bank      *bank
	jobs      map[string]*job // by the work's id
	holding   time.Duration   // how long a hold lasts unless it is renewed
	open      bool            // the host lets work go on while the ledger can't be asked
	idleAfter time.Duration
	gone      int // the host that will never come back; -1 = none
	host      func(ctx context.Context, keep bool, do func(session.Store) error) error

	shadow map[leaseKey]session.Lease

	tally        map[string]int // how often what happened
	state        state
	sessions     []session.ID // that are there
	environments []session.EnvironmentID
	loans        map[session.ID]session.EnvironmentID
	projects     map[session.EnvironmentID]access.ProjectID
	owners       map[session.ID]access.ProjectID
}

// base is what replicas share.
type base struct {
	store  session.Store
	leases session.Leases
	ledger billing.Ledger
	// host does something in a transaction of the host's, and then keeps it or rolls it back. nil: there are none.
	host func(ctx context.Context, keep bool, do func(session.Store) error) error
}

// op is something that a client or a keeper does.
type op struct {
	name string
	r    *replica
}

func newSim(t testing.TB, w world, seed uint64, open func(now func() time.Time) base) *sim {
	s := &sim{
		TB: t, trace: newTrace(8000), seed: seed, world: w, rnd: rand.New(rand.NewPCG(seed, 0x6275_6e6b)),
		over: make(chan struct{}), ops: map[string]*op{}, jobs: map[string]*job{}, shadow: map[leaseKey]session.Lease{},
		tally: map[string]int{}, loans: map[session.ID]session.EnvironmentID{}, projects: map[session.EnvironmentID]access.ProjectID{},
		owners: map[session.ID]access.ProjectID{},
	}
	s.offset = s.between(-time.Hour, time.Hour)
	s.lease = []time.Duration{10 * time.Second, 30 * time.Second, 60 * time.Second}[s.rnd.IntN(3)]
	s.limits = session.Limits{Sessions: 6, Conversations: 4, Machines: 2 + s.rnd.IntN(4), Slots: 1 + s.rnd.IntN(3)}
	s.directory = memory.NewDirectory()
	for _, p := range projects {
		s.directory.AddProject(p.id, p.payer, p.plan)
		if p.payer != "ann" {
			s.directory.AddMember(p.id, "ann", access.RoleAdmin)
		}
		s.directory.SetCode("ann", p.id, true)
		s.directory.AddAgent(p.id, agentOf(p.id), true)
	}
	s.holding = max(s.lease, []time.Duration{s.lease, 2 * s.lease, 5 * s.lease, 15 * time.Minute}[s.rnd.IntN(4)])
	if s.chance(40) {
		s.idleAfter = s.between(time.Minute, 3*time.Minute)
	}
	s.gone, s.open = -1, seed%4 == 3
	s.newBank()
	s.newCloud()
	all := open(s.clock)
	s.store, s.leases, s.ledger, s.host = all.store, all.leases, all.ledger, all.host
	return s
}

// clock is the store's.
func (s *sim) clock() time.Time {
	return time.Now().Add(s.offset).UTC().Truncate(time.Microsecond)
}

func (s *sim) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rnd.Int64N(int64(most-least)/int64(time.Millisecond)+1))*time.Millisecond
}

func (s *sim) upTo(most time.Duration) time.Duration { return s.between(0, most) }

func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

func (s *sim) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(format, args...)
}

// violated notes that a rule was broken. The first one counts.
func (s *sim) violated(rule, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return // nobody is at work any more
	}
	what := rule + ": " + fmt.Sprintf(format, args...)
	s.add("!!! %s", what)
	if s.broken == "" {
		for _, c := range s.parked {
			s.add("!!!   waits: %v %s: %s %s", c.r, c.op, c.method, c.what)
		}
	}
	if s.broken == "" {
		s.broken = what
	}
}

// tell notes that something worth to be met with has happened.
func (s *sim) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally[what]++
}

func (s *sim) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != ""
}

// run plays the schedule.
func (s *sim) run(steps int) {
	defer s.end()
	s.arrange()
	for range steps {
		if s.failed() {
			return
		}
		s.step()
	}
	s.converge()
}

// arrange starts the replicas and opens a few sessions, without accidents.
func (s *sim) arrange() {
	for n := range 3 {
		s.replicas = append(s.replicas, s.replica(n%s.world.hosts))
	}
	s.calm = true
	r := s.replicas[0]
	for n := range 2 { // the third begins with nothing
		s.grant(r, n)
	}
	for _, p := range projects[:2] {
		s.begin(r, "spawn", func(ctx context.Context) error { return s.spawn(ctx, r, p.id, "") })
	}
	s.begin(r, "environment", func(ctx context.Context) error {
		e, err := r.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: "p"})
		if err != nil {
			return err
		}
		return s.spawn(ctx, r, "p", e.ID)
	})
	s.finish(time.Minute)
	s.calm = false
	s.refresh()
}

// wait lets everything come to rest, and looks whether all rules hold.
func (s *sim) wait() {
	synctest.Wait()
	s.mu.Lock()
	slices.Sort(s.ends)
	for _, line := range s.ends {
		s.add("%s", line)
	}
	s.ends = nil
	s.mu.Unlock()
	s.check()
}

// advance lets time pass, and what is due happen in it.
func (s *sim) advance(d time.Duration) {
	until := time.Now().Add(d)
	for {
		next, do := until, func() {}
		if len(s.due) > 0 && !s.due[0].at.After(until) {
			next, do = s.due[0].at, s.due[0].do
			s.due = s.due[1:]
		}
		time.Sleep(time.Until(next))
		synctest.Wait()
		do()
		if next.Equal(until) && (len(s.due) == 0 || s.due[0].at.After(until)) {
			break
		}
	}
	s.wait()
}

// blink sets the steps apart, so that no two timers ever fire at the same moment.
const blink = 3 * time.Microsecond

// release lets a call go on, with what befalls it.
func (s *sim) release(c *call, v verdict) {
	s.mu.Lock()
	s.parked = slices.DeleteFunc(s.parked, func(p *call) bool { return p == c })
	s.add("%v %s: %s %s%v", c.r, c.op, c.method, c.what, v)
	s.mu.Unlock()
	c.turn <- v
	s.wait()
}

// eligible are the calls that may go on, in a fixed order.
func (s *sim) eligible() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.parked), func(c *call) bool { return c.r.dead || c.r.resume != nil })
	slices.SortFunc(all, byPlace)
	return all
}

// begin starts something that a process does.
func (s *sim) begin(r *replica, what string, do func(context.Context) error) {
	s.started++
	o := &op{name: fmt.Sprintf("%s%d", what, s.started), r: r}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), opKey{}, o.name))
	s.stop = append(s.stop, cancel)
	s.mu.Lock()
	s.ops[o.name] = o
	s.add("%v begins %s", r, o.name)
	s.mu.Unlock()
	go func() {
		defer cancel()
		err := do(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ops, o.name)
		s.ends = append(s.ends, fmt.Sprintf("%v %s ends: %s", r, o.name, class(err)))
	}()
	s.wait()
}

// finish lets everything under way go on without accidents until it is done.
func (s *sim) finish(patience time.Duration) {
	deadline := time.Now().Add(patience)
	for !s.failed() {
		s.wait()
		time.Sleep(blink)
		if all := s.eligible(); len(all) > 0 {
			s.release(all[0], verdict{again: -1})
			continue
		}
		s.mu.Lock()
		left := ""
		for _, o := range s.ops {
			if !o.r.dead && (left == "" || o.name < left) {
				left = o.name
			}
		}
		s.mu.Unlock()
		if left == "" {
			return
		}
		if !time.Now().Before(deadline) {
			s.violated("progress", "%s is not done after %v", left, patience)
			return
		}
		s.advance(500 * time.Millisecond)
	}
}

// end sends everybody home.
func (s *sim) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.over)
	for _, stop := range s.stop {
		stop()
	}
	for _, boxes := range s.boxes {
		for _, m := range boxes.Machines() {
			boxes.Kill(m.Incarnation)
		}
	}
	time.Sleep(10 * time.Minute) // with the test time stands still: what retries or waits gives up before
}

func (s *sim) spawn(ctx context.Context, r *replica, p access.ProjectID, in session.EnvironmentID) error {
	_, _, err := r.Spawn(ctx, ann, session.Spawn{Project: p, Agent: agentOf(p), Environment: in})
	return err
}
