//go:build linux

package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// What a script runs has no file of the script open, and once it has ended
// nothing of it is left; nor where it was not started.
func TestScriptLeavesNothing(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, unconfined)
			sb := attach(t, p, create(t, p, "m-g1"))
			open := func(c sandbox.Cmd) int {
				var out bytes.Buffer
				if exit, err := sandbox.Run(deadline(t), sb, c, &out, nil); err != nil || exit.Code != 0 {
					t.Fatalf("%+v, %v", exit, err)
				}
				return strings.Count(out.String(), "\n")
			}
			if with, without := open(sandbox.Cmd{Script: "ls /proc/self/fd"}), open(sandbox.Cmd{Argv: []string{"ls", "/proc/self/fd"}}); with != without {
				t.Errorf("from a script a program has %d files, else %d", with, without)
			}
			if _, err := sb.Start(deadline(t), sandbox.Cmd{Script: "true", Dir: "no-such-dir"}); !errors.Is(err, sandbox.ErrNotStarted) {
				t.Errorf("start: %v", err)
			}
			if left, err := os.ReadDir(filepath.Join(root, "machines", "m-g1", "processes")); len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// The shell is the system's, whatever the PATH leads to; and $0 is a file that can be read again.
func TestScriptShell(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := open(t, unconfined)
			sb := attach(t, p, create(t, p, "m-g1"))
			sh(t, sb, "mkdir bin && printf '#!/bin/sh\\necho wrong\\n' >bin/sh && chmod +x bin/sh")
			var out bytes.Buffer
			c := sandbox.Cmd{Script: "test \"$1\" = again && echo again || /bin/sh \"$0\" again", Env: []string{"PATH=" + sb.Workdir() + "/bin:/usr/bin:/bin"}}
			if exit, err := sandbox.Run(deadline(t), sb, c, &out, nil); err != nil || out.String() != "again\n" {
				t.Errorf("%q, %+v, %v", out.String(), exit, err)
			}
			if exit, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{Script: "if"}, nil, nil); err != nil || exit.Code != 2 {
				t.Errorf("a syntax error: %+v, %v", exit, err)
			}
		})
	}
}
