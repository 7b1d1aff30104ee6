package memory_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// What the ready-made programs do, and how they fail.
func TestCoreutils(t *testing.T) {
	exit := func(code int) sandbox.Exit { return sandbox.Exit{Code: code, Reason: sandbox.Exited} }
	for _, c := range []struct {
		rule        string
		cmd         sandbox.Cmd
		want        sandbox.Exit
		out, errors string
	}{
		{"true", sandbox.Cmd{Argv: []string{"true"}}, exit(0), "", ""},
		{"false", sandbox.Cmd{Argv: []string{"false"}}, exit(1), "", ""},
		{"echo", sandbox.Cmd{Argv: []string{"echo", "a", "b c"}}, exit(0), "a b c\n", ""},
		{"pwd", sandbox.Cmd{Argv: []string{"pwd"}}, exit(0), "/workspace\n", ""},
		{"cat of its input", sandbox.Cmd{Argv: []string{"cat"}, Stdin: strings.NewReader("in")}, exit(0), "in", ""},
		{
			"cat goes on after what it can't read", sandbox.Cmd{Argv: []string{"cat", "f", "none", "f"}}, exit(1),
			"text" + "text", "cat: open /workspace/none: file does not exist\n",
		},
		{"sleep", sandbox.Cmd{Argv: []string{"sleep", "90m"}}, sandbox.Exit{Reason: sandbox.Exited, Duration: 90 * time.Minute}, "", ""},
		{"sleep of no duration", sandbox.Cmd{Argv: []string{"sleep"}}, exit(1), "", "sleep: time: invalid duration \"\"\n"},
		{
			"sleep for too long", sandbox.Cmd{Argv: []string{"sleep", "2s"}, Timeout: time.Second},
			sandbox.Exit{Code: 143, Reason: sandbox.TimedOut, Duration: time.Second}, "", "sleep: timeout of 1s: context deadline exceeded\n",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			boxes := memory.NewSandboxes(nil)
			for name, h := range memory.Coreutils() {
				boxes.Handle(name, h)
			}
			sb := mustOpen(t, boxes, "x")
			if err := sandbox.WriteFile(t.Context(), sb.FS(), "f", []byte("text"), nil); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr strings.Builder
			got, err := sandbox.Run(t.Context(), sb, c.cmd, &stdout, &stderr)
			if err != nil {
				t.Fatalf("%s: %v", c.rule, err)
			}
			c.want.Stdout, c.want.Stderr = int64(len(c.out)), int64(len(c.errors))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", c.rule, diff)
			}
			if stdout.String() != c.out || stderr.String() != c.errors {
				t.Errorf("%s: wrote %q and %q, want %q and %q", c.rule, &stdout, &stderr, c.out, c.errors)
			}
		})
	}
}
