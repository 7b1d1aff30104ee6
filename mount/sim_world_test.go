//go:build linux

package mount_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
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
	seen        map[string]time.Time // when a process last saw a folder list
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
	seen    time.Time // when its process last saw the folder list, before that
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
const simGrace = 4 * time.Minute

func newSim(t testing.TB, seed uint64, root string) *sim {
	s := &sim{
		TB: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x6d6f_756e)), began: time.Now(), root: root, over: make(chan struct{}),
		ops: map[string]*simProcess{}, tally: map[string]int{}, places: map[string]string{}, owners: map[access.AgentID]*simOwner{},
		closing: map[access.ProjectID]bool{}, works: map[string]*simWork{}, kept: map[mount.ID]map[string]bool{},
		purged: map[mount.ID]mount.Prefix{}, strays: map[string]bool{}, seen: map[string]time.Time{}, listed: map[string]time.Time{},
		private: seed%2 == 0, killable: seed%3 != 0, bucket: memblob.OpenBucket(nil),
	}
	s.life = []time.Duration{time.Minute, 90 * time.Second, 4 * time.Minute}[s.rnd.IntN(3)]
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
