//go:build linux

package mount_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/mutanttest"
	"github.com/bunkroom/bunkroom/internal/need"
)

// simMutation takes one load-bearing rule out of a source file of this package.
type simMutation struct {
	rule, file string
	old, new   string
	within     int // schedules, among which one must break a rule
}

// simMutations are the rules, and what their absence looks like. Those are left
// out that a second guard covers for: credentials that don't say when they expire have no lease either; a
// mount that came too late is released by the host as well as by the manager; a folder that somebody has
// used again has no time in the archive to count; and what is not empty the kernel does not remove. So is that a late unmounting takes nothing
// off, which hardly one of 1,000 schedules meets with: the test beside it shows that.
var simMutations = []simMutation{
	{"a release gives its own reference up, and no other", "reference.go",
		"if m.f.refs > 1 {", "if false {", 100},
	{"what begins to serve too late is waited for and ended", "serve.go",
		"if err := f.collect(ctx); err != nil {\n\t\treturn err\n\t}", "f.serves = nil", 200},
	{"nothing is removed without proof of detachment", "proof.go",
		"if inside := t.within(dir); len(inside) > 0 {", "if inside := t.within(dir); len(inside) > 0 && false {", 200},
	{"who fails to get a folder gives the reference up", "host.go",
		"h.unclaim(ctx, f)\n\t\treturn nil, fmt.Errorf", "return nil, fmt.Errorf", 100},
	{"what could not be taken down, and nobody holds, is tried again", "hosted.go",
		"if !h.closed {\n\t\t\ttime.AfterFunc", "if false {\n\t\t\ttime.AfterFunc", 500},
	{"what its work could not give up is given up later", "undo.go",
		"c.lingers.Do(func() { go c.linger(context.WithoutCancel(ctx), c.held.run) })", "", 100},
	{"what serves a folder has ended before anything is detached or removed", "serve.go",
		"if err := f.end(ctx, serving); err != nil {\n\t\t\treturn err\n\t\t}", "_ = f.end(ctx, serving)", 200},
	{"what is being stopped gets no new references", "host.go",
		"case f.state == stopping:", "case false:", 500},
	{"an owner is asked after again before anything is deleted", "collector.go",
		"if said = c.ask(ctx, who); said.gone != access.Yes {", "if false {", 1000},
	{"what was just put away is not deleted", "collector.go",
		"Target{ID: r.ID, Version: r.Version, Archived: c.grace}", "Target{ID: r.ID, Version: r.Version}", 100},
	{"the directory of a process that lives is left alone", "leftovers.go",
		"if lock == nil {\n\t\treturn nil\n\t}", "", 200},
	{"credentials are for the folder's own prefix", "renewloop.go",
		"case c.Prefix != r.grant.Prefix:", "case false:", 500},
	{"credentials are renewed before they expire", "decidelease.go",
		"Renew:    reported.Add(-lead),", "Renew:    expires.Add(lead),", 200},
	{"what a user has put away has not waited for as long", "collector.go",
		"case r.Archived() && !ours: // its time begins now", "case false:", 500},
	{"what a mount held is forgotten only once it is gone", "purger.go",
		"content of %s: %w\", t.ID, err))\n\t\t\tcontinue", "content of %s: %w\", t.ID, err))", 500},
}

// simLean stands in for the tests of this package that simulate nothing, so
// that a mutated program is built in a fraction of the time.
const simLean = `package mount_test

import (
	"os"
	"testing"
)

func hostRoot(t testing.TB) string {
	root, err := os.MkdirTemp(os.Getenv("BUNKROOM_SIM_ROOT"), "lean")
	if err != nil {
		t.Fatal(err)
	}
	return root
}
`

// TestSimMutations takes the rules out one by one. Each time the simulation must
// find that something is wrong, within a stated number of schedules.
func TestSimMutations(t *testing.T) {
	need.Long(t, "each rule is taken out of the source, which is compiled and simulated")
	root := hostRoot(t)
	t.Run("none", func(t *testing.T) {
		if found, out := simMutated(t, root, simMutation{within: 200}); found != "" {
			t.Fatalf("without any mutation: %s\n%s", found, out)
		}
	})
	mutanttest.Each(t, simMutations, func(m simMutation) string { return m.rule }, func(t *testing.T, m simMutation) {
		found, out := simMutated(t, root, m)
		if found == "" {
			t.Errorf("no schedule misses the rule in %s: %s\n%s", m.file, m.old, out)
		}
		t.Log(found)
	})
}

var simFound = regexp.MustCompile(`(?m)^\s+sim_run_test\.go:\d+: (.*)\n\s*(seed \d+)`)

// simMutated plays some schedules without a rule, and returns what was found first.
func simMutated(t *testing.T, root string, m simMutation) (found, out string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tree := mutanttest.Tree{}
	for _, name := range tests {
		switch {
		case name == "host_test.go":
			tree[filepath.Join(here, name)] = simLean
		case !strings.HasPrefix(name, "sim_") && !strings.HasPrefix(name, "export_"):
			tree[filepath.Join(here, name)] = ""
		}
	}
	if m.file != "" {
		tree.Without(t, m.file, m.old, m.new)
	}
	raw, err := tree.Run(t, []string{"BUNKROOM_SIM_ROOT=" + root}, "-test.run=^TestSimSchedules$", "-test.timeout=5m", fmt.Sprint("-sim.n=", m.within))
	if hit := simFound.FindSubmatch(raw); hit != nil {
		return fmt.Sprintf("%s (%s)", hit[1], hit[2]), mutanttest.Head(raw, 29)
	}
	if err != nil {
		t.Fatalf("the run broke: %v\n%s", err, mutanttest.Head(raw, 29))
	}
	return "", mutanttest.Head(raw, 29)
}
