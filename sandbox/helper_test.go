package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Run copies what a command writes; where some is missing it says so, beside
// how the command has ended, unless nobody asked for what is missing.
func TestRunTellsOfLostOutput(t *testing.T) {
	out, errs := sandbox.Chunk{Stream: sandbox.Stdout, Data: []byte("out")}, sandbox.Chunk{Stream: sandbox.Stderr, Off: 3, Data: []byte("errs")}
	for what, c := range map[string]struct {
		of             []sandbox.Chunk
		exit           sandbox.Exit
		stdout, stderr bool // is asked for
		lost           bool
	}{
		"all is there":                    {[]sandbox.Chunk{out, errs}, sandbox.Exit{Stdout: 3, Stderr: 4}, true, true, false},
		"some of stdout is missing":       {[]sandbox.Chunk{out, errs}, sandbox.Exit{Stdout: 9, Stderr: 4}, true, true, true},
		"some of stderr is missing":       {[]sandbox.Chunk{out, errs}, sandbox.Exit{Stdout: 3, Stderr: 5}, true, true, true},
		"all of stderr is missing":        {[]sandbox.Chunk{out}, sandbox.Exit{Stdout: 3, Stderr: 4}, true, true, true},
		"what nobody wants is missing":    {[]sandbox.Chunk{out}, sandbox.Exit{Stdout: 3, Stderr: 4}, true, false, false},
		"the one that is wanted is there": {[]sandbox.Chunk{errs}, sandbox.Exit{Stdout: 3, Stderr: 4}, false, true, false},
		"nothing is wanted":               {nil, sandbox.Exit{Stdout: 3, Stderr: 4}, false, false, false},
	} {
		t.Run(what, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			to := func(asked bool, w io.Writer) io.Writer {
				if asked {
					return w
				}
				return nil
			}
			c.exit.Code = 7
			s := &scripted{chunks: c.of, exit: c.exit}
			exit, err := sandbox.Run(t.Context(), s, sandbox.Cmd{}, to(c.stdout, &stdout), to(c.stderr, &stderr))
			if exit != c.exit || errors.Is(err, sandbox.ErrOutputLost) != c.lost || err != nil && !c.lost {
				t.Errorf("%+v, %v", exit, err)
			}
			for _, chunk := range c.of {
				got, asked := &stdout, c.stdout
				if chunk.Stream == sandbox.Stderr {
					got, asked = &stderr, c.stderr
				}
				if asked && got.String() != string(chunk.Data) {
					t.Errorf("it has written %q, want %q", got, chunk.Data)
				}
			}
			if !s.closed {
				t.Error("it was not closed")
			}
		})
	}
}
