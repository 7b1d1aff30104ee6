package files

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// ignoreCase is one directory with an ignore file and what it may ignore.
type ignoreCase struct {
	text  string
	files []string
}

// TestIgnoreAsGit compares with what git itself says, for patterns and paths
// that were chosen and for ones put together at random from a fixed seed.
func TestIgnoreAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		need.Missing(t, need.Git, "the git program on PATH: "+err.Error())
	}
	tree := []string{"a", "b", "ab", "a.log", "x/a", "x/b.log", "x/y/a", "x/y/z/a.log", "foo/bar/baz", "foo/barbaz", "foobar/baz", "foo.bar",
		"[a]", "a-c", "a]c", `a\b`, "a b", "a ", "#a", "!a", "-", "é", "x/é.log", "A", "c/b/a/a/b", "deep/er/and/deeper/a", "x/..y", "x/*", "q?"}
	var cases []ignoreCase
	for _, text := range []string{
		"a", "/a", "a/", "x/", "x/*", "x/**", "**/a", "**/x/a", "x/**/a", "a/**/b", "**", "*", "*/", "**/", "/**", "/*", "*.log", "!*.log", "*\n!a", "*\n!*/\n!*.log",
		"foo**/baz", "foo/**bar", "fo*", "foo*/baz", "foo/*/baz", "foo?bar/baz", "foo[/]bar/baz", "foo/bar*", "**foo", "foo**", "f**o/bar/baz", "***", "x/***/a", "**/**/a", "**/*",
		"[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[!]a]", "[a-]", "[-a]", "[a", "[[:alpha:]]", "[[:upper:]]", "[[:alpha:]", "[[:nope:]]", "[[:]", `[\]a]`, `[a\-c]`, "[a-c-e]", "a[-]c", "a[]]c", "[z-a]",
		`\a`, `a\`, `a\\b`, `\[a]`, `\#a`, `\!a`, "#a", "!a\n", `a\ `, "a ", "a   ", `x/\*`, `q\?`, "?", "??", "é", "x/é*", "\\é", " a", "x/..y", "x//a", "//a", "./a", "x/./a", "a\r", "x\r\n!x/a\r\n",
		"deep/er/**", "deep/**/a", "deep/*/and", "**/deeper/", "b/**/b", "b/a/**/b", "\ufeffa", "", "!", "/", "//", "\\", "**/a\n!x/a", "x\n!x/a", "x/*\n!x/a", "[x]/a", "x[/]a", "*/a", "*/*/a",
	} {
		cases = append(cases, ignoreCase{text, tree})
	}
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "x", "y", "foo", "bar", "/", "/", "*", "**", "?", "[a-c]", "[!x]", ".log", "!", "\\", "é", " ", "[[:alpha:]]", "-", "]", "[", "\n", "\n"}
	for range 500 {
		var b strings.Builder
		for range 1 + r.IntN(9) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		cases = append(cases, ignoreCase{b.String(), tree})
	}
	root := t.TempDir()
	var asked, answers []string // paths below root, and ours for those ignored
	for i, c := range cases {
		dir := fmt.Sprintf("case%d", i)
		full := filepath.Join(root, dir) // the files need not be there: git asks for what they would be
		if err := errors.Join(os.Mkdir(full, 0o700), os.WriteFile(filepath.Join(full, ignoreFile), []byte(c.text), 0o600)); err != nil {
			t.Fatal(err)
		}
		chain := []rules{parseIgnore(dir, c.text)}
		for _, file := range c.files {
			asked = append(asked, dir+"/"+file)
			if hiddenByAny(chain, dir, file) {
				answers = append(answers, dir+"/"+file)
			}
		}
	}
	run := func(stdin string, args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = root, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, complaints.String())
		}
		return string(out)
	}
	run("", "init", "-q")
	out := run(strings.Join(asked, "\x00"), "check-ignore", "--no-index", "--stdin", "-z")
	theirs, ours := set(strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")), set(answers)
	wrong := 0
	for i, path := range asked {
		if ours[path] != theirs[path] && wrong < 20 {
			wrong++
			t.Errorf("%q: %s: ignored %v, git says %v", cases[i/len(tree)].text, path, ours[path], theirs[path])
		}
	}
	if len(theirs) < 1000 {
		t.Errorf("git ignored %d of %d: the comparison says little", len(theirs), len(asked))
	}
}

// hiddenByAny asks for a path and every directory above it, as a walk does.
func hiddenByAny(chain []rules, dir, file string) bool {
	for i := range file {
		if file[i] == '/' && ignored(chain, dir+"/"+file[:i], true) {
			return true
		}
	}
	return ignored(chain, dir+"/"+file, false)
}

func set(all []string) map[string]bool {
	m := map[string]bool{}
	for _, s := range all {
		m[s] = true
	}
	return m
}
