package arch

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// maxLines is the most lines a file may have.
const maxLines = 500

// The rules on the text of every file.
const (
	whyLeftover = "a note to oneself is read by everybody and done by nobody: do it, or leave it out"
	whyLong     = "a file has one subject, and one that is too long to be read at a sitting has two"
	whyPlaces   = "the repository works wherever it is cloned, and says nothing of the machine it was written on or of where that gets its packages"
)

// leftover matches notes to oneself. It is put together here, so as not to match itself.
var leftover = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}, "|") + `)\b`)

// registries are hosts that packages come from.
var registries = []string{
	"proxy.golang" + ".org", "sum.golang" + ".org", "goproxy" + ".io",
	"registry.npmjs" + ".org", "registry.yarnpkg" + ".com",
	"deb.debian" + ".org", "security.debian" + ".org", "archive.ubuntu" + ".com",
	"pypi" + ".org", "files.pythonhosted" + ".org",
}

func TestText(t *testing.T) {
	banned := append(machinePlaces(t), registries...)
	banned = append(banned, ourRegistries(t)...)
	for _, name := range tracked(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue // not text
		}
		if !generated(name) {
			report(t, whyLeftover, leftoverRule(name, string(text)))
			report(t, whyLong, longRule(name, string(text)))
		}
		report(t, whyPlaces, placesRule(name, string(text), banned))
	}
}

// generated reports whether a tool writes the file.
func generated(name string) bool {
	switch filepath.Base(name) {
	case "go.sum", "package-lock.json":
		return true
	}
	return false
}

// tracked are the files that git keeps, and those it would if they were added now.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		need.Missing(t, need.Git, fmt.Sprintf("git must tell which files it keeps in %s: %v", root, err))
	}
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	if len(names) == 0 {
		t.Fatal("git keeps no file here")
	}
	return names
}

// machinePlaces are files and folders that only this machine has: the module,
// what lies beside it, and what is in the home of whoever runs the test.
func machinePlaces(t *testing.T) []string {
	t.Helper()
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	places := []string{here}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
	}
	for _, dir := range []string{filepath.Dir(here), home} {
		if dir == "/" || dir == filepath.Clean(os.TempDir()) {
			continue // what is there is on every machine
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // and then nobody names what is there
		}
		for _, e := range entries {
			places = append(places, filepath.Join(dir, e.Name()))
		}
	}
	return places
}

// ourRegistries are the hosts this machine's go command asks.
func ourRegistries(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, proxy := range strings.FieldsFunc(string(out), func(r rune) bool { return strings.ContainsRune(",|\n", r) }) {
		if u, err := url.Parse(proxy); err == nil && u.Host != "" {
			hosts = append(hosts, u.Host)
		}
	}
	return hosts
}

func leftoverRule(name, text string) []finding {
	var all []finding
	for i, line := range strings.Split(text, "\n") {
		if word := leftover.FindString(line); word != "" {
			all = append(all, finding{fmt.Sprintf("%s:%d", name, i+1), "has the word " + word})
		}
	}
	return all
}

func longRule(name, text string) []finding {
	if n := strings.Count(text, "\n"); n > maxLines {
		return []finding{{name, fmt.Sprintf("has %d lines, more than %d", n, maxLines)}}
	}
	return nil
}

// placesRule finds the banned words, where they don't stand in the middle of a longer name.
func placesRule(name, text string, banned []string) []finding {
	var all []finding
	for i, line := range strings.Split(text, "\n") {
		for _, word := range banned {
			if _, rest, ok := strings.Cut(line, word); ok && (rest == "" || !inName(rest[0])) {
				all = append(all, finding{fmt.Sprintf("%s:%d", name, i+1), "names " + word})
			}
		}
	}
	return all
}

func inName(b byte) bool {
	return b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

func TestTextRules(t *testing.T) {
	expect(t, leftoverRule("a.go", "package a\n// TO"+"DO: later\n"), "a.go:2: has the word TO"+"DO")
	expect(t, leftoverRule("a.md", "see FIX"+"ME and XX"+"X\n"), "a.md:1: has the word FIX"+"ME")
	expect(t, leftoverRule("a.go", "ctx := context.TO"+"DO()"), "a.go:1")
	expect(t, leftoverRule("a.sh", "mktemp -d /tmp/a.XXXXXX # todos\n"))
	expect(t, longRule("a.go", strings.Repeat("\n", maxLines)))
	expect(t, longRule("a.go", strings.Repeat("\n", maxLines+1)), "a.go: has 501 lines")
	banned := []string{"/srv/us/bunkroom", "/home/me/go", "packages.example" + ".org"}
	expect(t, placesRule("a.go", "x := `/srv/us/bunkroom/session`\n", banned), "a.go:1: names /srv/us/bunkroom")
	expect(t, placesRule("a.go", "\n// /home/me/go/pkg\n", banned), "a.go:2: names /home/me/go")
	expect(t, placesRule("a.sh", "curl https://packages.example"+".org/x", banned), "a.sh:1: names packages.example")
	expect(t, placesRule("a.go", "/srv/us/bunkrooms /home/me/gone packages.example"+".organisation", banned))
}
