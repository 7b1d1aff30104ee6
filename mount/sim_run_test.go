//go:build linux

package mount_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	flagSimSeed = flag.Uint64("sim.seed", 0, "the seed that TestSimReplay plays, and the first one of TestSimSchedules")
	flagSimN    = flag.Int("sim.n", 0, "how many schedules TestSimSchedules plays; 0 = as many as is usual")
)

// simSteps is how long a schedule is before the faults stop.
const simSteps = 300

// simOutcome is what a schedule came to.
type simOutcome struct {
	broken string
	hash   string
	events int
	lines  []string
	tally  map[string]int
}

func simPlay(t *testing.T, seed uint64, root string) (out simOutcome) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, seed, root)
		s.run(simSteps)
		synctest.Wait()
		out = simOutcome{s.broken, fmt.Sprintf("%016x", s.sum), s.events, s.lines, s.tally}
	})
	if err := os.RemoveAll(root); err != nil {
		t.Error(err)
	}
	return out
}

func (o simOutcome) report(t *testing.T, seed uint64, lines int) {
	t.Helper()
	if o.broken != "" {
		t.Errorf("%s\nseed %d, %d events, trace %s; the latest:\n%s\nplay it again with: go test ./mount -run TestSimReplay -v -sim.seed=%d",
			o.broken, seed, o.events, o.hash, strings.Join(o.lines[max(0, len(o.lines)-lines):], "\n"), seed)
	}
}

// simRoot is a directory for the roots of many schedules.
func simRoot(t *testing.T) func(seed uint64) string {
	base := hostRoot(t)
	n := 0
	return func(seed uint64) string {
		n++
		return filepath.Join(base, fmt.Sprint(seed, "-", n))
	}
}

// All rules hold at every step, whatever goes wrong: no file is lost that was
// acknowledged, nothing is removed without proof of detachment, a folder has one
// owner in a process and nobody's teardown takes it from another, credentials
// are for their folder alone and are renewed in time, a purge leaves nothing,
// and in the end nothing is mounted that nobody uses.
func TestSimSchedules(t *testing.T) {
	n := *flagSimN
	switch {
	case n > 0:
	case testing.Short():
		n = 60
	default:
		n = 1000
	}
	tally, events, began := map[string]int{}, 0, time.Now()
	all := make(chan simOutcome)
	go func() {
		defer close(all)
		t.Run("of", func(t *testing.T) {
			const atOnce = 2
			for lane := range uint64(atOnce) {
				root := simRoot(t)
				t.Run(fmt.Sprint(lane+1), func(t *testing.T) {
					t.Parallel()
					for at := lane; at < uint64(n) && !t.Failed(); at += atOnce {
						seed := *flagSimSeed + at
						out := simPlay(t, seed, root(seed))
						out.report(t, seed, 60)
						all <- out
					}
				})
			}
		})
	}()
	for one := range all {
		events += one.events
		for what, n := range one.tally {
			tally[what] += n
		}
	}
	text := ""
	for _, what := range slices.Sorted(maps.Keys(tally)) {
		text += fmt.Sprintf("\n  %7d %s", tally[what], what)
	}
	t.Logf("%d schedules, %d events, %v%s", n, events, time.Since(began).Round(time.Second), text)
	if t.Failed() || n < 500 {
		return
	}
	// A simulation in which nothing happens finds nothing.
	for _, what := range []string{
		"carried: mounted", "carried: failed", "two works on one folder", "written", "stray", "served", "hung", "expired", "installed",
		"collected", "purged", "closed", "given up by its work",
	} {
		if tally[what] == 0 {
			t.Errorf("in %d schedules it never came to %q", n, what)
		}
	}
}

// A seed is a schedule: played again it is the same, call by call.
func TestSimSameSeedSameTrace(t *testing.T) {
	root := simRoot(t)
	for seed := range uint64(20) {
		one, two := simPlay(t, seed, root(seed)), simPlay(t, seed, root(seed))
		if one.hash == two.hash {
			continue
		}
		for i := range min(len(one.lines), len(two.lines)) {
			if one.lines[i] != two.lines[i] {
				t.Errorf("seed %d: trace %s, then %s. After\n%s\ncame\n%s\nand then\n%s", seed, one.hash, two.hash,
					strings.Join(one.lines[max(0, i-5):i], "\n"), one.lines[i], two.lines[i])
				break
			}
		}
	}
}

// TestSimReplay plays one schedule and, with -v, shows all of it.
func TestSimReplay(t *testing.T) {
	out := simPlay(t, *flagSimSeed, simRoot(t)(*flagSimSeed))
	if testing.Verbose() {
		t.Logf("\n%s\ntrace %s, %d events", strings.Join(out.lines, "\n"), out.hash, out.events)
	}
	out.report(t, *flagSimSeed, 0)
}
