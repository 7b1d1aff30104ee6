package sandbox_test

import (
	"errors"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/sandbox"
)

func TestResolvePath(t *testing.T) { // T-96
	for _, c := range []struct{ says, p, want string }{
		{"relative", "a/b.txt", "/workspace/a/b.txt"},
		{"the working directory", ".", "/workspace"},
		{"absolute", "/etc/passwd", "/etc/passwd"},
		{"dots within", "a/../b/./c", "/workspace/b/c"},
		{"dots that leave are resolved; PathWithin tells", "../workspacefoo/x", "/workspacefoo/x"},
		{"dots stop at the root", "../../../../etc/passwd", "/etc/passwd"},
		{"absolute dots", "/workspace/../etc", "/etc"},
		{"slashes", "a//b///", "/workspace/a/b"},
		{"leading slashes", "//workspace//a", "/workspace/a"},
		{"nothing is decoded", "%2e%2e/x", "/workspace/%2e%2e/x"},
		{"nothing is decoded twice", "%252e%252e%252fetc", "/workspace/%252e%252e%252fetc"},
		{"an encoded NUL is three characters", "a%00b", "/workspace/a%00b"},
		{"a backslash is a character", `..\..\etc`, `/workspace/..\..\etc`},
		{"a drive is a name", `C:\x`, `/workspace/C:\x`},
		{"three dots are a name", ".../x", "/workspace/.../x"},
		{"a newline is a character", "a\nb", "/workspace/a\nb"},
		{"spaces are characters", " . ", "/workspace/ . "},
		{"lookalike dots are characters", "․․/x", "/workspace/․․/x"},
	} {
		if got, err := sandbox.ResolvePath("/workspace", c.p); err != nil || got != c.want {
			t.Errorf("%s: %q is %q, %v; want %q", c.says, c.p, got, err, c.want)
		}
	}
	for _, p := range []string{"", "a\x00b", "\x00", "a\xffb", "/\xc0\xae\xc0\xae/etc"} {
		if got, err := sandbox.ResolvePath("/workspace", p); !errors.Is(err, sandbox.ErrInvalid) || got != "" {
			t.Errorf("%q is %q, %v; want ErrInvalid", p, got, err)
		}
	}
}

func TestPathWithin(t *testing.T) { // T-96
	for _, c := range []struct {
		root, p, rel string
		ok           bool
	}{
		{"/workspace", "/workspace", ".", true},
		{"/workspace", "/workspace/a/b", "a/b", true},
		{"/workspace", "/workspacefoo", "", false},
		{"/workspace", "/workspacefoo/a", "", false},
		{"/workspace", "/workspace-agent/notes", "", false},
		{"/workspace", "/", "", false},
		{"/workspace", "/work", "", false},
		{"/workspace", "/other/workspace", "", false},
		{"/workspace", "/WORKSPACE/a", "", false},
		{"/a/b", "/a/b/..b", "..b", true},
		{"/", "/", ".", true},
		{"/", "/etc", "etc", true},
	} {
		rel, ok := sandbox.PathWithin(c.root, c.p)
		if ok != c.ok || ok && rel != c.rel {
			t.Errorf("%s in %s: %q, %v; want %q, %v", c.p, c.root, rel, ok, c.rel, c.ok)
		}
	}
}

// TestPathTricksStayInside runs spellings that have escaped elsewhere through
// both functions, as every file system does.
func TestPathTricksStayInside(t *testing.T) { // T-96
	for _, p := range []string{
		"../x", "a/../../x", "/workspace/../x", "/workspacefoo/x", "/workspace/../workspacefoo", "..", "/", "//etc", "./../workspace/../x",
	} {
		abs, err := sandbox.ResolvePath("/workspace", p)
		if err != nil {
			t.Fatalf("%q: %v", p, err)
		}
		if rel, ok := sandbox.PathWithin("/workspace", abs); ok {
			t.Errorf("%q is %q, inside as %q", p, abs, rel)
		}
	}
}

func FuzzResolvePath(f *testing.F) {
	for _, p := range []string{
		"", ".", "..", "/", "a", "a/b", "../..", "/workspace/../x", "//x//y/", "%2e%2e%2f", "a\x00b", "\xff", "...", "a/./b/../c",
		"/workspacefoo", "\n", "․․/x", `\..\x`,
	} {
		f.Add("/workspace", p)
		f.Add("/", p)
	}
	f.Fuzz(func(t *testing.T, workdir, p string) {
		if !path.IsAbs(workdir) || path.Clean(workdir) != workdir || !plain(workdir) {
			return // a provider's own working directory is none of these
		}
		abs, err := sandbox.ResolvePath(workdir, p)
		if err != nil {
			if p != "" && plain(p) {
				t.Fatalf("%q is refused: %v", p, err)
			}
			return
		}
		if !path.IsAbs(abs) || path.Clean(abs) != abs {
			t.Fatalf("%q in %q is %q: not clean and absolute", p, workdir, abs)
		}
		if again, err := sandbox.ResolvePath("/elsewhere", abs); err != nil || again != abs {
			t.Fatalf("%q resolves to %q, %v", abs, again, err)
		}
		rel, ok := sandbox.PathWithin(workdir, abs)
		if ok != within(workdir, abs) {
			t.Fatalf("%q within %q: %v", abs, workdir, ok)
		}
		if ok && path.Join(workdir, rel) != abs {
			t.Fatalf("%q below %q is %q", rel, workdir, abs)
		}
	})
}

func plain(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// within goes by segments.
func within(root, p string) bool {
	segments := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == '/' }) }
	r, s := segments(root), segments(p)
	if len(s) < len(r) {
		return false
	}
	for i := range r {
		if r[i] != s[i] {
			return false
		}
	}
	return true
}
