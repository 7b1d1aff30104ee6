// Package mutanttest takes rules out of the source, one by one, for tests that
// show that each is missed: what a suite or a simulation does not notice it does not check.
//
// The source itself is not touched: the compiler is told of other texts in place of its files.
package mutanttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// Tree is a source in which some files have another text, by their absolute
// path. One that is empty is left out.
type Tree map[string]string

// Without takes a rule out of a file of the tree: old, which stands there
// once, becomes other. Else it ends t.
func (tree Tree) Without(t testing.TB, file, old, other string) {
	t.Helper()
	source, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(old)); n != 1 {
		t.Fatalf("%s holds the text of the rule %d times, want once: %s", file, n, old)
	}
	tree[source] = strings.Replace(string(text), old, other, 1)
}

// Run compiles the tests of the package in the working directory, with the
// files of the tree, and runs them. It returns all that they print, and the error of
// the run; where they don't compile it ends t. What they skip is no skip of t's run.
func (tree Tree) Run(t testing.TB, env []string, args ...string) (out []byte, err error) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		need.Missing(t, "go", err.Error())
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for source, text := range tree {
		replace[source] = ""
		if text == "" {
			continue
		}
		replace[source] = filepath.Join(dir, fmt.Sprint(len(replace))+"_"+filepath.Base(source))
		if err := os.WriteFile(replace[source], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutated.test")
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), goTool, "test", "-c", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutation does not compile: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), binary, args...)
	run.Env = append(append(os.Environ(), "BUNKROOM_SKIPS="), env...)
	return run.CombinedOutput()
}

// Each runs one test for each mutation, two at a time.
func Each[M any](t *testing.T, mutations []M, rule func(M) string, test func(*testing.T, M)) {
	two := make(chan struct{}, 2)
	t.Run("rules", func(t *testing.T) {
		for _, m := range mutations {
			t.Run(rule(m), func(t *testing.T) {
				t.Parallel()
				two <- struct{}{}
				defer func() { <-two }()
				test(t, m)
			})
		}
	})
}

// Head is how what was printed begins, for a message.
func Head(out []byte, lines int) string {
	all := strings.SplitN(string(out), "\n", lines+1)
	return strings.Join(all[:min(lines, len(all))], "\n")
}
