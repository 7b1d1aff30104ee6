package files

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// mounts trap 33, and section 3.2.
func TestIgnoreFiles(t *testing.T) {
	for _, c := range []struct {
		rule, text, path string
		folder, want     bool
	}{
		{"a name matches at any depth", "*.log", "a/b/x.log", false, true},
		{"a slash ties a pattern to its directory", "/x.log", "a/x.log", false, false},
		{"so does a slash in the middle", "a/x.log", "b/a/x.log", false, false},
		{"a slash at the end is for directories", "build/", "build", false, false},
		{"and hides them", "build/", "build", true, true},
		{"the last pattern that matches decides", "*.log\n!keep.log", "keep.log", false, false},
		{"two stars are any directories", "a/**/z", "a/b/c/z", false, true},
		{"or none", "a/**/z", "a/z", false, true},
		{"a comment is none", "#x", "#x", false, false},
		{"unless escaped", `\#x`, "#x", false, true},
		{"spaces at the end don't count", "x  ", "x", false, true},
		{"unless escaped", `x\ `, "x ", false, true},
		{"lines may end in CR LF", "x\r\ny\r\n", "x", false, true},
		{"a byte order mark is skipped", "\ufeffx", "x", false, true},
		{"an empty line matches nothing", "\n\n", "x", false, false},
		{"a pattern does not hide the ignore file itself", ".*", ".gitignore", false, false},
		{"nor one in a directory below", ".*", "a/.gitignore", false, false},
		{"a malformed class matches nothing", "[a", "[a", false, false},
	} {
		if got := ignored([]rules{parseIgnore("", c.text)}, c.path, c.folder); got != c.want {
			t.Errorf("%s: %q ignores %q: %v", c.rule, c.text, c.path, got)
		}
	}
}

// mounts trap 33: a directory that is ignored is never looked into, however deep what it holds.
func TestIgnoredDirectoriesAreNotListed(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	raw(t, d, ".gitignore", "node_modules\n.*\n")
	raw(t, d, "web/.gitignore", "dist/\n!node_modules\n")
	fill(t, d, "a.txt", ".env", "web/index.ts", "web/dist/out.js", "node_modules/p/node_modules/q/i.js",
		"web/node_modules/.pnpm/x/node_modules/y/i.js", ".git/HEAD", "web/.git/HEAD", ".bunkroom-x/y", "web/.bunkroom-z")
	var mu sync.Mutex
	var listed []string
	s.fail = func(op, key string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == "list" && (strings.Contains(key, "node_modules") || strings.Contains(key, ".git/")) {
			listed = append(listed, key)
		}
		return nil
	}
	l, err := d.List(t.Context(), "", &ListOptions{View: ViewGit})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "git view", paths(l.Entries), []string{".gitignore", "a.txt", "web/.gitignore", "web/index.ts"})
	same(t, "lists of ignored directories", listed, nil)

	if l, err = d.List(t.Context(), "", &ListOptions{View: ViewGitIgnored}); err != nil {
		t.Fatal(err)
	}
	same(t, "with what is ignored", paths(l.Entries), []string{".env", ".gitignore", "a.txt", "node_modules/p/node_modules/q/i.js", "web/.gitignore",
		"web/dist/out.js", "web/index.ts", "web/node_modules/.pnpm/x/node_modules/y/i.js"})

	for dir, want := range map[string][]string{
		"web":                {"web/.gitignore", "web/index.ts"},
		"web/dist":           {},
		"node_modules/p":     {},
		".git":               {},
		"web/.git":           {},
		".bunkroom-x":        {},
		"web/node_modules/x": {},
	} {
		l, err := d.Level(t.Context(), dir, &LevelOptions{View: ViewGit})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "level "+dir, paths(l.Entries), want)
	}
}

func TestIgnoreFilesAreBounded(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket()})
	for i := range maxIgnoreFiles + 5 {
		dir := string(rune('a'+i/26)) + string(rune('a'+i%26))
		raw(t, d, dir+"/.gitignore", "x")
		raw(t, d, dir+"/x", "")
	}
	l, err := d.List(t.Context(), "", &ListOptions{View: ViewGit})
	if err != nil {
		t.Fatal(err)
	}
	if want := maxIgnoreFiles + 5 + 5; l.Total != want {
		t.Errorf("%d files, want %d: the ignore files and 5 that no more were read for", l.Total, want)
	}
	// One that is too long, unreadable or gone does not count, and is no failure.
	big := open(t, Config{Bucket: newStore().bucket()})
	raw(t, big, ".gitignore", "x\n"+strings.Repeat("#\n", maxIgnoreBytes))
	fill(t, big, "x")
	if n, _, err := big.Count(t.Context(), "", ViewGit); n != 2 || err != nil {
		t.Errorf("with an ignore file that is too long: %d, %v", n, err)
	}
	s.fail = func(op, key string) error {
		if op == "read" {
			return errBroke
		}
		return nil
	}
	if n, _, err := d.Count(t.Context(), "", ViewGit); n != 2*(maxIgnoreFiles+5) || err != nil {
		t.Errorf("with unreadable ignore files: %d, %v", n, err)
	}
}

// Patterns are written by agents: none takes long.
func TestPatternsTakeNoTime(t *testing.T) {
	begun := time.Now()
	for _, p := range []string{strings.Repeat("*a", 500) + "b", strings.Repeat("**/", 300) + "b", "x/" + strings.Repeat("**/a*/", 150) + "b"} {
		g := compile(p, true)
		if g.match(strings.Repeat("a/a", 300)) {
			t.Errorf("%.20s… matches", p)
		}
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAnyPatternIsReadAndMatchedWithoutPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab/*?[]!\\-^: .#\n\r[:alpha:]é"))).Draw(t, "text")
		r := parseIgnore("", text)
		path := rapid.StringMatching(`[ab.é \-]{1,4}(/[ab.:\[\]]{1,4}){0,3}`).Draw(t, "path")
		// Whoever has only positive patterns ignores at least as much with more of them.
		if !strings.Contains(text, "!") && r.ignores(path, true) {
			more := parseIgnore("", text+"\nzzz")
			if !more.ignores(path, true) {
				t.Fatalf("%q no longer ignores %q with one more pattern", text, path)
			}
		}
	})
}
