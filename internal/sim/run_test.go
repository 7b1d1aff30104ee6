package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
)

var (
	flagSeed  = flag.Uint64("sim.seed", 0, "the seed that TestReplay plays, and the first one of TestSchedules")
	flagWorld = flag.String("sim.world", "u", "the world of TestReplay: u, n, d, h or i")
	flagStore = flag.String("sim.store", "memory", "the store of TestReplay: memory, sqlite or postgres")
	flagN     = flag.Int("sim.n", 0, "how many schedules TestSchedules plays; 0 = as many as is usual")
)

// steps is how long a schedule is before the faults stop.
const steps = 500

// opener opens an empty store that goes by now. It is called in the bubble.
type opener func(t *testing.T, now func() time.Time) base

func inMemory(_ *testing.T, now func() time.Time) base {
	db := memory.New(&memory.Options{Now: now})
	return base{store: db.Sessions(), leases: db.Leases(), ledger: db.Ledger()}
}

// outcome is what a schedule came to.
type outcome struct {
	broken string
	hash   string
	events int
	lines  []string
	tally  map[string]int
}

// play plays one schedule.
func play(t *testing.T, w world, seed uint64, open opener) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, w, seed, func(now func() time.Time) base { return open(t, now) })
		s.run(steps)
		synctest.Wait()
		out = outcome{s.broken, s.hash(), s.count, s.latest(), s.tally}
	})
	return out
}

// report fails the test where a rule was broken, with all that it takes to see why.
func (o outcome) report(t *testing.T, w world, seed uint64, store string, lines int) {
	t.Helper()
	if o.broken == "" {
		return
	}
	tail := o.lines[max(0, len(o.lines)-lines):]
	t.Errorf("%s\nworld %s, seed %d, %d events, trace %s; the latest:\n%s\nplay it again with: go test ./internal/sim -run TestReplay -v -sim.world=%s -sim.seed=%d -sim.store=%s",
		o.broken, w.name, seed, o.events, o.hash, strings.Join(tail, "\n"), w.name, seed, store)
}

// totals are what many schedules came to.
type totals struct {
	mu        sync.Mutex
	schedules int
	events    int
	tally     map[string]int
}

func (s *totals) add(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tally == nil {
		s.tally = map[string]int{}
	}
	s.schedules++
	s.events += o.events
	for what, n := range o.tally {
		s.tally[what] += n
	}
}

func (s *totals) String() string {
	text := fmt.Sprintf("%d schedules, %d events", s.schedules, s.events)
	for _, what := range slices.Sorted(maps.Keys(s.tally)) {
		text += fmt.Sprintf("\n  %7d %s", s.tally[what], what)
	}
	return text
}

// playAll plays n schedules from a seed on, of all worlds in turn, two at a time. It stops at the first violation.
func playAll(t *testing.T, first uint64, n int, store string, open opener) *totals {
	all := new(totals)
	const atOnce = 2
	t.Run("of", func(t *testing.T) {
		for lane := range atOnce {
			t.Run(fmt.Sprint(lane+1), func(t *testing.T) {
				t.Parallel()
				for at := lane; at < n && !t.Failed(); at += atOnce {
					w, seed := worlds[at%len(worlds)], first+uint64(at/len(worlds))
					out := play(t, w, seed, open)
					out.report(t, w, seed, store, 60)
					all.add(out)
				}
			})
		}
	})
	return all
}

// All rules hold at every step, in every world, whatever goes wrong within
// what its provider declares; and when the faults stop, all comes to agree.
func TestSchedules(t *testing.T) {
	n := *flagN
	switch {
	case n > 0:
	case testing.Short():
		n = 100
	default:
		n = 2000
	}
	all := playAll(t, *flagSeed, n, "memory", inMemory)
	t.Log(all)
	if t.Failed() || n < 1000 {
		return
	}
	// A simulation in which nothing happens finds nothing.
	for _, what := range []string{
		"none to creating", "creating to live", "creating to destroying", "creating to none", "creating to creating",
		"live to lost", "lost to creating", "live to destroying", "destroying to creating", "destroying to none",
		"deleted while creating", "deleted while live", "deleted while destroying", "tombstone proven",
		"commit stale", "commit limit of machines per payer", "opened", "started", "reaped", "orphan swept", "stray",
		"work stopped: fenced", "work stopped: ended", "work stopped: environment gone", "work stopped: out of credit", "work stopped: refused",
		"idle stop", "host given up", "granted", "debt", "hold expired", "exported again", "refused: too many in flight", "refused: in debt",
		"refused: out of credit", "refused: daily cap reached", "renewal refused: hold ended", "renewal refused: out of credit", "renewal refused: in debt",
	} {
		all.want(t, what)
	}
}

// want wants that something has happened.
func (s *totals) want(t *testing.T, what string) {
	t.Helper()
	if s.tally[what] == 0 {
		t.Errorf("in %d schedules it never came to %q", s.schedules, what)
	}
}

// A seed is a schedule: played again it is the same, call by call.
func TestSameSeedSameTrace(t *testing.T) {
	for _, w := range worlds {
		for seed := range uint64(6) {
			one, two := play(t, w, seed, inMemory), play(t, w, seed, inMemory)
			if one.hash == two.hash {
				continue
			}
			for i := range min(len(one.lines), len(two.lines)) {
				if one.lines[i] != two.lines[i] {
					t.Errorf("world %s, seed %d: trace %s, then %s. After\n%s\ncame\n%s\nand then\n%s", w.name, seed, one.hash, two.hash,
						strings.Join(one.lines[max(0, i-5):i], "\n"), one.lines[i], two.lines[i])
					break
				}
			}
		}
	}
	if a, b := play(t, worlds[0], 1, inMemory), play(t, worlds[0], 2, inMemory); a.hash == b.hash {
		t.Error("two seeds have one trace")
	}
}

// TestReplay plays one schedule and, with -v, shows all of it.
func TestReplay(t *testing.T) {
	w, ok := worldNamed(*flagWorld)
	if !ok {
		t.Fatalf("there is no world %q", *flagWorld)
	}
	open, ok := stores[*flagStore]
	if !ok {
		t.Fatalf("there is no store %q", *flagStore)
	}
	out := play(t, w, *flagSeed, open(t))
	if testing.Verbose() {
		t.Logf("\n%s\ntrace %s, %d events", strings.Join(out.lines, "\n"), out.hash, out.events)
	}
	out.report(t, w, *flagSeed, *flagStore, 0)
}
