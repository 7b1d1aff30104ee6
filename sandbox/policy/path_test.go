package policy_test

import (
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

func TestPath(t *testing.T) { // T-96
	for _, c := range []struct {
		rule, in, out string
		want          policy.Reason
	}{
		{"a relative path is kept", "src/main.go", "src/main.go", ""},
		{"one below the root is made relative", "/workspace/src/main.go", "src/main.go", ""},
		{"the root is the root", "/workspace", ".", ""},
		{"with a slash too", "/workspace//", ".", ""},
		{"what only begins as the root is another", "/workspacefoo", "", policy.AbsolutePath},
		{"repeated slashes mean one", "a//b/", "a/b", ""},
		{"odd names are names", "a b/ü☕/...", "a b/ü☕/...", ""},
		{"a backslash within is part of a name", `a\b`, `a\b`, ""},
		{"nothing is no path", "", "", policy.EmptyPath},
		{"nor are blanks", "  ", "", policy.EmptyPath},
		{"nor is a NUL byte", "\x00", "", policy.EmptyPath},
		{"NUL bytes are dropped", "a\x00b", "ab", ""},
		{"also those that are encoded", "a%00b", "ab", ""},
		{"what they hide is found", ".\x00./etc", "", policy.PathClimbs},
		{"another absolute path", "/etc/passwd", "", policy.AbsolutePath},
		{"of Windows", `C:\x`, "", policy.AbsolutePath},
		{"of Windows, with slashes", "c:/x", "", policy.AbsolutePath},
		{"a digit is no drive", "1:30.txt", "1:30.txt", ""},
		{"of a share", `\\host\x`, "", policy.AbsolutePath},
		{"climbing", "../x", "", policy.PathClimbs},
		{"climbing out of the root", "/workspace/../etc", "", policy.PathClimbs},
		{"climbing back in", "a/../b", "", policy.PathClimbs},
		{"a dot", "./x", "", policy.PathClimbs},
		{"climbing as Windows has it", `a\..\b`, "", policy.PathClimbs},
		{"encoded once", "%2e%2e/x", "", policy.PathClimbs},
		{"encoded twice", "%252e%252e%252fx", "", policy.PathClimbs},
		{"encoded five times", "%252525252e%252525252e/x", "", policy.PathClimbs},
		{"encoded six times", "%25252525252e%25252525252e/x", "", policy.PathEncoding},
		{"an encoded slash", "%2fetc", "", policy.AbsolutePath},
		{"an encoding that is none", "100%", "", policy.PathEncoding},
		{"half of one", "a%2", "", policy.PathEncoding},
	} {
		out, err := policy.Path("/workspace", c.in)
		if got := reason(t, err); got != c.want || out != c.out {
			t.Errorf("%s: Path(%q) = %q, %q; not %q, %q", c.rule, c.in, out, got, c.out, c.want)
		}
	}
}

// Whatever passes lies in the working directory, in its text, and means itself when it is asked for again.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "/workspace/a", "%2e", `\`, "a/./b", "%", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		out, err := policy.Path("/workspace", p)
		if err != nil {
			reason(t, err)
			return
		}
		full := "/workspace/" + out
		if out == "." {
			full = "/workspace"
		}
		if _, in := sandbox.PathWithin("/workspace", full); !in || strings.Contains("/"+out+"/", "/../") || strings.ContainsAny(out, "\x00%") {
			t.Errorf("Path(%q) = %q", p, out)
		}
		if again, err := policy.Path("/workspace", full); err != nil || again != out {
			t.Errorf("Path(%q) = %q, and that %q, %v", p, out, again, err)
		}
	})
}
