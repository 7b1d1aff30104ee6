package sim

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/bunkroom/bunkroom/internal/mutanttest"
	"github.com/bunkroom/bunkroom/internal/need"
)

// mutation takes one load-bearing rule out of a source file of the product.
type mutation struct {
	rule     string
	file     string // below the module
	old, new string
	within   int // schedules, over all worlds in turn, among which one must break a rule; 0 = usual
}

// usual is within how many schedules a missing rule is found.
const usual = 300

// lean is what stands in for the files of this package that open databases:
// a mutated program needs none, and is built in a fraction of the time.
var lean = map[string]string{
	"stores_test.go":      "package sim\n\nimport \"testing\"\n\nvar stores = map[string]func(*testing.T) opener{}\n",
	"told_test.go":        "package sim\n",
	"told_ledger_test.go": "package sim\n",
}

// TestMutations takes the rules out of the product one by one. Each time the
// simulation must find that something is wrong, within a stated number of schedules.
func TestMutations(t *testing.T) {
	need.Long(t, "each rule is taken out of the source, which is compiled and simulated")
	t.Run("none", func(t *testing.T) {
		if found, out := mutated(t, mutation{}); found != "" {
			t.Fatalf("without any mutation: %s\n%s", found, out)
		}
	})
	mutanttest.Each(t, mutations, func(m mutation) string { return m.rule }, func(t *testing.T, m mutation) {
		found, out := mutated(t, m)
		if found == "" {
			t.Errorf("no schedule misses the rule in %s: %s\n%s", m.file, m.old, out)
		}
		t.Log(found)
	})
}

var foundLine = regexp.MustCompile(`(?m)^\s+run_test\.go:\d+: (.*)\n\s*(world .*, seed \d+)`)

// mutated plays some schedules without a rule, and returns what was found first.
func mutated(t *testing.T, m mutation) (found, out string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tree := mutanttest.Tree{}
	for name, text := range lean {
		tree[filepath.Join(here, name)] = text
	}
	if m.file != "" {
		tree.Without(t, filepath.Join("..", "..", filepath.FromSlash(m.file)), m.old, m.new)
	}
	raw, err := tree.Run(t, nil, "-test.run=^TestSchedules$", "-test.timeout=5m", fmt.Sprint("-sim.n=", cmp.Or(m.within, usual)))
	if hit := foundLine.FindSubmatch(raw); hit != nil {
		return fmt.Sprintf("%s (%s)", hit[1], hit[2]), mutanttest.Head(raw, 29)
	}
	if err != nil {
		t.Fatalf("the run broke: %v\n%s", err, mutanttest.Head(raw, 29))
	}
	return "", mutanttest.Head(raw, 29)
}
