//go:build linux

package mount_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

// sim is one schedule: processes of the host over one root, one store of rows
// and one bucket, in a bubble. Every call that leaves a process (to the store, the
// bucket, the kernel, a sandbox, what serves a folder) stops and waits for its
// turn; one scheduler, the only one to throw dice, decides which goes on and what
// befalls it. Manager, Host, Renewer, Collector, Purger and Files are the real ones.
//
// What a folder holds is what the bucket holds: a write is acknowledged once
// it is there. What befalls a file system, a process or the minter of
// credentials is drawn too. After every step, and once the faults are over, what there
// is is compared with the rules.
type sim struct {
	testing.TB
	rnd    *rand.Rand // the scheduler's alone
	seed   uint64
	began  time.Time
	root   string
	store  mount.Store
	bucket *blob.Bucket

	mu     sync.Mutex
	parked []*simCall
	calls  int
	ids    int
	ended  bool
	over   chan struct{} // closed at the end: what waits goes home
	broken string        // the first violation
	lines  []string
	sum    uint64
	events int
	ops    map[string]*simProcess
	ends   []string // what has ended since everything was last at rest
	tally  map[string]int
	calm   bool

	born      int
	started   int
	processes []*simProcess
	old       []*simProcess // that died or were closed
	due       []simDue
	table     []*simMounted
	servings  []*simServing
	mounts    int               // ever
	places    map[string]string // what a process's directory is called in the trace

	private     bool // this user may mount
	killable    bool // what serves a folder is a process of its own
	life        time.Duration
	tableBroken time.Time // the kernel's list can't be read until then
	outage      time.Time // the bucket can't be reached until then
	noMinter    time.Time // nor the minter
	minterWay   int       // how it fails then
	minterBad   time.Time // when it last failed
	owners      map[access.AgentID]*simOwner
	closing     map[access.ProjectID]bool
	works       map[string]*simWork
	kept        map[mount.ID]map[string]bool // files that were acknowledged, of mounts that have a row
	purged      map[mount.ID]mount.Prefix
	strays      map[string]bool      // what was written where nothing was mounted
	listed      map[string]time.Time // when a directory was last listed
}

// simOwner is whether an agent is there, and since when.
type simOwner struct {
	project access.ProjectID
	gone    bool
	since   time.Time
}

// simWork is a work whose folder was said to be mounted, until it begins to give it up.
type simWork struct {
	p       *simProcess
	mount   mount.ID
	serving *simServing // what served it then
	carried time.Time
}

// simVerdict is what befalls a call. The zero value is nothing.
type simVerdict struct {
	fail error         // answered, and nothing is done
	lose bool          // done, and its reply is lost
	deaf bool          // it looks at no context
	late time.Duration // of what is served: it is mounted so much later
}

func (v simVerdict) String() string {
	text := ""
	if v.fail != nil {
		return fmt.Sprintf(" FAILS (%v)", v.fail)
	}
	if v.lose {
		text += " reply LOST"
	}
	if v.deaf {
		text += " DEAF"
	}
	if v.late > 0 {
		text += fmt.Sprintf(" mounted %v LATER", v.late)
	}
	return text
}

type simCall struct {
	p                *simProcess
	op, method, what string
	seq              int
	turn             chan simVerdict
}

type simDue struct {
	at time.Time
	do func()
}

var (
	errSimDead   = errors.New("sim: this process is dead")
	errSimOutage = errors.New("sim: no connection")
	errSimLost   = errors.New("sim: the reply was lost")
)

// simGrace is how long a folder whose owner is gone waits, and what no work takes.
const simGrace = 10 * time.Minute

func newSim(t testing.TB, seed uint64, root string) *sim {
	s := &sim{
		TB: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x6d6f_756e)), began: time.Now(), root: root, over: make(chan struct{}),
		ops: map[string]*simProcess{}, tally: map[string]int{}, places: map[string]string{}, owners: map[access.AgentID]*simOwner{},
		closing: map[access.ProjectID]bool{}, works: map[string]*simWork{}, kept: map[mount.ID]map[string]bool{},
		purged: map[mount.ID]mount.Prefix{}, strays: map[string]bool{}, listed: map[string]time.Time{},
		private: seed%2 == 0, killable: seed%3 != 0, bucket: memblob.OpenBucket(nil),
	}
	s.life = []time.Duration{90 * time.Second, 4 * time.Minute, 15 * time.Minute}[s.rnd.IntN(3)]
	s.store = memory.New(&memory.Options{Now: s.clock}).Mounts()
	for agent, project := range map[access.AgentID]access.ProjectID{"ada": "web", "bob": "web", "cy": "old"} {
		s.owners[agent] = &simOwner{project: project, since: s.clock()}
	}
	return s
}

func (s *sim) clock() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func (s *sim) upTo(most time.Duration) time.Duration {
	return time.Duration(s.rnd.Int64N(int64(most/time.Millisecond)+1)) * time.Millisecond
}

func (s *sim) chance(percent int) bool { return s.rnd.IntN(100) < percent }

// add is log for who holds mu.
func (s *sim) add(format string, args ...any) {
	line := fmt.Sprintf("%9.3f  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, args...)
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %s", s.sum, line)
	s.sum = h.Sum64()
	s.events++
	s.lines = append(s.lines, line)
}

func (s *sim) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(format, args...)
}

// note is log for what runs beside others: of several, which came first is up to Go. mu is held.
func (s *sim) note(format string, args ...any) { s.ends = append(s.ends, fmt.Sprintf(format, args...)) }

// violate notes that a rule was broken; the first one counts. mu is held.
func (s *sim) violate(rule, format string, args ...any) {
	if s.ended {
		return
	}
	what := rule + ": " + fmt.Sprintf(format, args...)
	s.add("!!! %s", what)
	if s.broken == "" {
		s.broken = what
	}
}

func (s *sim) violated(rule, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violate(rule, format, args...)
}

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

// park lets a call wait for its turn. Where its caller gives up first it is not made.
func (p *simProcess) park(ctx context.Context, method, what string) (simVerdict, error) {
	op, _ := ctx.Value(simOp{}).(string)
	switch method {
	case "serve", "serving late", "stop":
		op = "" // for whom of several a folder is served is up to Go
	}
	c := &simCall{p: p, op: op, method: method, what: what, turn: make(chan simVerdict, 1)}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return simVerdict{}, errSimDead
	}
	p.calls++
	c.seq = p.calls
	p.parked = append(p.parked, c)
	p.mu.Unlock()
	select {
	case v := <-c.turn:
		return v, nil
	case <-ctx.Done():
		p.mu.Lock()
		dead := p.dead
		p.parked = slices.DeleteFunc(p.parked, func(other *simCall) bool { return other == c })
		p.mu.Unlock()
		if dead { // nobody hears of it
			<-p.over
			return simVerdict{}, errSimDead
		}
		return simVerdict{}, context.Cause(ctx)
	case <-p.over:
		return simVerdict{}, errSimDead
	}
}

type simOp struct{}

// alive waits for ever where the process is dead.
func (p *simProcess) alive() error {
	p.mu.Lock()
	dead, ended := p.dead, p.ended
	p.mu.Unlock()
	if dead && !ended {
		<-p.over
	}
	return nil
}

// eligible are the calls that may go on, in a fixed order.
func (s *sim) eligible() []*simCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.parked), func(c *simCall) bool { return c.p.dead })
	slices.SortFunc(all, func(a, b *simCall) int {
		return cmp.Or(cmp.Compare(a.p.n, b.p.n), cmp.Compare(len(a.op), len(b.op)), cmp.Compare(a.op, b.op),
			cmp.Compare(a.method, b.method), cmp.Compare(a.what, b.what), cmp.Compare(a.seq, b.seq))
	})
	return all
}

// release lets a call go on, with what befalls it.
func (s *sim) release(c *simCall, v simVerdict) {
	s.mu.Lock()
	s.parked = slices.DeleteFunc(s.parked, func(p *simCall) bool { return p == c })
	s.add("%v %s: %s %s%v", c.p, c.op, c.method, c.what, v)
	s.mu.Unlock()
	c.turn <- v
	s.wait()
}

// begin starts something that a process does.
func (s *sim) begin(p *simProcess, what string, do func(context.Context) error) {
	s.started++
	name := fmt.Sprintf("%s%d", what, s.started)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), simOp{}, name))
	s.mu.Lock()
	s.ops[name] = p
	s.add("%v begins %s", p, name)
	s.mu.Unlock()
	go func() {
		defer cancel()
		err := do(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ops, name)
		s.note("%v %s ends: %s", p, name, simClass(err))
	}()
	s.wait()
}

// wait lets everything come to rest, and looks whether the rules hold.
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

// later has something happen after a while, between two steps.
func (s *sim) later(d time.Duration, do func()) {
	s.due = append(s.due, simDue{time.Now().Add(d), do})
	slices.SortStableFunc(s.due, func(a, b simDue) int { return a.at.Compare(b.at) })
}

// advance lets time pass, and what is due happen in it.
func (s *sim) advance(d time.Duration) {
	for until := time.Now().Add(d); ; {
		s.mu.Lock()
		next, do := until, func() {}
		last := len(s.due) == 0 || s.due[0].at.After(until)
		if !last {
			next, do = s.due[0].at, s.due[0].do
			s.due = s.due[1:]
		}
		s.mu.Unlock()
		time.Sleep(time.Until(next))
		synctest.Wait()
		do()
		if last {
			break
		}
	}
	s.wait()
}

// finish lets everything under way go on without accidents until it is done.
func (s *sim) finish(patience time.Duration) {
	for deadline := time.Now().Add(patience); !s.failed(); {
		s.wait()
		time.Sleep(simBlink)
		if all := s.eligible(); len(all) > 0 {
			s.release(all[0], simVerdict{})
			continue
		}
		var left []string
		s.mu.Lock()
		for name, p := range s.ops {
			if !p.dead {
				left = append(left, name)
			}
		}
		s.mu.Unlock()
		if len(left) == 0 {
			return
		}
		if !time.Now().Before(deadline) {
			s.violated("progress", "%s is not done after %v", slices.Min(left), patience)
			return
		}
		s.advance(500 * time.Millisecond)
	}
}

// simBlink sets the steps apart, so that no two timers fire at the same moment.
const simBlink = 3 * time.Microsecond

// simClass is what of an error is the same in every run: it may name directories, which are not.
func simClass(err error) string {
	if err == nil {
		return "ok"
	}
	for _, known := range []struct {
		err  error
		word string
	}{
		{errSimDead, "dead"}, {errSimLost, "lost"}, {errSimOutage, "outage"}, {mount.ErrNotFound, "not found"}, {mount.ErrUnavailable, "unavailable"},
		{context.Canceled, "cancelled"}, {context.DeadlineExceeded, "too late"},
	} {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	return fmt.Sprintf("%T", err)
}

// simProcess is one process of the host.
type simProcess struct {
	*sim
	n         int
	host      *mount.Host // nil until it has started
	manager   *mount.Manager
	collector *mount.Collector
	purger    *mount.Purger
	locks     []interface{ Close() error }
	machines  map[access.SessionID]*simMachine

	// Guarded by sim.mu.
	dead, drains bool
}

func (p *simProcess) String() string { return fmt.Sprintf("p%d", p.n) }

func (p *simProcess) newID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	return fmt.Sprintf("%08x-0000-7000-8000-%012x", p.n, p.ids)
}

// process starts a process, which clears what dead ones have left before it works.
func (s *sim) process() *simProcess {
	s.born++
	p := &simProcess{sim: s, n: s.born, machines: map[access.SessionID]*simMachine{}}
	s.begin(p, "start", func(ctx context.Context) error {
		h, err := mount.NewHostIn(ctx, mount.HostConfig{Server: simServer{p}, Root: s.root},
			mount.Limits{Probe: 5 * time.Second, FirstDelay: time.Second, MaxDelay: 30 * time.Second}, simKernel{p})
		if err != nil {
			return err
		}
		return p.furnish(h)
	})
	return p
}

func (p *simProcess) furnish(h *mount.Host) error {
	store := simStore{p.store, p}
	manager, err := mount.New(mount.Config{Store: store, Mounter: h, NewID: p.newID})
	if err != nil {
		return err
	}
	all, err := files.New(files.Config{Bucket: p.bucket, SoleWriter: true, NewID: p.newID})
	if err != nil {
		return err
	}
	purger, err := mount.NewPurger(mount.PurgerConfig{Store: store, Remove: func(ctx context.Context, t mount.Tombstone) error {
		return p.remove(ctx, all, t)
	}})
	if err != nil {
		return err
	}
	collector, err := mount.NewCollector(mount.CollectorConfig{Store: store, Purger: purger, Grace: simGrace, Gone: p.gone, Now: p.clock})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.host, p.manager, p.collector, p.purger = h, manager, collector, purger
	return nil
}

// ready are the processes that work.
func (s *sim) ready() []*simProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.processes), func(p *simProcess) bool { return p.dead || p.drains || p.manager == nil })
}

// kill ends a process as kill -9 does, and all that it served with it.
func (s *sim) kill(p *simProcess) {
	s.mu.Lock()
	p.dead = true
	s.add("%v DIES", p)
	for name, w := range s.works {
		if w.p == p {
			delete(s.works, name)
		}
	}
	for _, f := range p.locks {
		_ = f.Close() // one that was let go of already
	}
	p.locks = nil
	var mine []*simServing
	for _, v := range s.servings {
		if v.p == p {
			mine = append(mine, v)
		}
	}
	s.old = append(s.old, p)
	s.mu.Unlock()
	for _, v := range mine {
		v.die(errSimDead)
		go func() { _ = v.renewer.Stop(context.Background()) }()
	}
	s.wait()
}

func (s *sim) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.over)
	synctest.Wait()
	for _, v := range s.servings {
		v.let(true)
		v.die(errSimDead)
		_ = v.renewer.Stop(context.Background())
	}
	for _, p := range slices.Concat(s.processes, s.old) {
		if p.host != nil {
			_ = p.host.Close(context.Background())
		}
	}
	time.Sleep(10 * time.Minute) // what retries or waits gives up before
}

// tail is the end of what has happened.
func (s *sim) tail(n int) string { return strings.Join(s.lines[max(0, len(s.lines)-n):], "\n") }
