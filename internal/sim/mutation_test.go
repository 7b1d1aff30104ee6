package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

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
	goTool, err := exec.LookPath("go")
	if err != nil {
		need.Missing(t, "go", err.Error())
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("none", func(t *testing.T) {
		if found, out := mutated(t, goTool, root, mutation{}); found != "" {
			t.Fatalf("without any mutation: %s\n%s", found, out)
		}
	})
	two := make(chan struct{}, 2) // at a time
	t.Run("rules", func(t *testing.T) {
		for _, m := range mutations {
			t.Run(m.rule, func(t *testing.T) {
				t.Parallel()
				two <- struct{}{}
				defer func() { <-two }()
				found, out := mutated(t, goTool, root, m)
				if found == "" {
					t.Errorf("no schedule misses the rule in %s: %s\n%s", m.file, m.old, out)
				}
				t.Log(found)
			})
		}
	})
}

var foundLine = regexp.MustCompile(`(?m)^\s+run_test\.go:\d+: (.*)\n\s*(world .*, seed \d+)`)

// mutated builds this package's tests with m in place of its file, plays some
// schedules, and returns what was found first.
func mutated(t *testing.T, goTool, root string, m mutation) (found, out string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	write := func(source, name, text string) {
		changed := filepath.Join(dir, name)
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[source] = changed
	}
	for name, text := range lean {
		write(filepath.Join(root, "internal", "sim", name), name, text)
	}
	if m.file != "" {
		source := filepath.Join(root, filepath.FromSlash(m.file))
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte(m.old)); n != 1 {
			t.Fatalf("%s holds the text of the rule %d times, want once: %s", m.file, n, m.old)
		}
		write(source, filepath.Base(m.file), string(bytes.Replace(text, []byte(m.old), []byte(m.new), 1)))
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutated.test")
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), goTool, "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("the mutation does not compile: %v\n%s", err, out)
	}
	n := m.within
	if n == 0 {
		n = usual
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run=^TestSchedules$", "-test.timeout=5m", "-sim.n="+strconv.Itoa(n))
	run.Env = append(os.Environ(), "BUNKROOM_SKIPS=")
	raw, err := run.CombinedOutput()
	out = string(raw)
	if lines := strings.SplitN(out, "\n", 30); len(lines) == 30 {
		out = strings.Join(lines[:29], "\n")
	}
	if hit := foundLine.FindStringSubmatch(string(raw)); hit != nil {
		return hit[1] + " (" + hit[2] + ")", out
	}
	if err != nil {
		t.Fatalf("the run broke: %v\n%s", err, out)
	}
	return "", out
}
