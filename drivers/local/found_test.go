//go:build linux

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// starter is the part of another process of the host: it starts what is
// detached, with a child in a session of its own, and what is not.
func starter(t *testing.T) {
	mode, root, ok := strings.Cut(os.Getenv(roleVar), ":")
	if !ok {
		return
	}
	p := openAt(t, root, mode == "unconfined")
	sb := attach(t, p, create(t, p, "m-g1"))
	start(t, sb, sandbox.Cmd{Detached: true, Tag: "t"}, "setsid sh -c '"+beating+"' & "+beating)
	start(t, sb, sandbox.Cmd{}, "echo ready; exec sleep 1000")
	fmt.Println("started")
	select {}
}

// processes are what a handle finds.
func processes(t *testing.T, sb sandbox.Sandbox) (all []sandbox.ProcessInfo) {
	t.Helper()
	l, _ := sandbox.As[sandbox.ProcessLister](sb)
	for info, err := range l.Processes(deadline(t)) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, info)
	}
	return all
}

// What another process of the host has started Detached, and is dead since or
// only stopped, is found, can be waited for and ended with all that it has
// started. Its output and its outcome are ErrLost, and never invented.
func TestFoundAgain(t *testing.T) {
	starter(t)
	for _, mode := range []string{"confined", "unconfined"} {
		for how, sig := range map[string]syscall.Signal{"Killed": syscall.SIGKILL, "Stopped": syscall.SIGSTOP} {
			t.Run(mode+how, func(t *testing.T) {
				root := t.TempDir()
				p := openAt(t, root, mode == "unconfined")
				sb := attach(t, p, create(t, p, "m-g1")) // so that the init is ours, and outlives the other
				sh(t, sb, "true")
				began := time.Now()
				if err := another(t, root, mode).Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				var info sandbox.ProcessInfo
				n := 0
				for _, i := range processes(t, sb) {
					if i.Running {
						info, n = i, n+1
					}
				}
				if n != 1 || info.Tag != "t" || !info.Detached || len(info.Argv) != 3 || info.StartedAt.Before(began) || info.Terminal {
					t.Fatalf("%d are listed, the last of them %+v", n, info)
				}
				l, _ := sandbox.As[sandbox.ProcessLister](sb)
				found, err := l.Process(deadline(t), info.ID)
				if err != nil || found.ID() != info.ID {
					t.Fatal(found, err)
				}
				var last error
				for c, err := range found.Output(deadline(t), 7) {
					if last = err; len(c.Data) > 0 {
						t.Errorf("output: %+v", c)
					}
				}
				if !errors.Is(last, sandbox.ErrLost) {
					t.Errorf("the output ends with %v", last)
				}
				short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				if _, err := found.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("wait: %v", err)
				}
				if err := found.Close(); err != nil {
					t.Error(err)
				}
				beat := filepath.Join(root, "machines", "m-g1", "workspace", "beat")
				eventually(t, "it beats", func() bool { return beats(beat) })
				ended := make(chan error, 1)
				go func() {
					_, err := found.Wait(context.Background())
					ended <- err
				}()
				if err := found.Signal(deadline(t), sandbox.SignalKill); err != nil {
					t.Fatal(err)
				}
				if err := <-ended; !errors.Is(err, sandbox.ErrLost) {
					t.Errorf("wait: %v", err)
				}
				if beats(beat) {
					t.Error("something of it lives on")
				}
				if _, err := l.Process(deadline(t), info.ID); !errors.Is(err, sandbox.ErrNoProcess) {
					t.Errorf("afterwards: %v", err)
				}
				if err := found.Signal(deadline(t), sandbox.SignalTerm); err != nil {
					t.Errorf("signal after the end: %v", err)
				}
			})
		}
	}
}

// Of what has ended no more is kept than there may be: the oldest goes first.
func TestPastIsBounded(t *testing.T) {
	p := open(t, true)
	sb := attach(t, p, create(t, p, "m-g1"))
	run := func(n int, argv ...string) {
		for range n {
			if _, err := sandbox.Run(deadline(t), sb, sandbox.Cmd{Argv: argv}, &bytes.Buffer{}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(70, "true")
	if all := processes(t, sb); len(all) != 64 {
		t.Errorf("of 70 that have ended %d are listed", len(all))
	}
	run(10, "head", "-c", "1048576", "/dev/zero")
	all := processes(t, sb)
	for _, i := range all {
		if i.Exit.Stdout != 1<<20 {
			t.Errorf("before those with much output %+v was forgotten", i)
		}
	}
	if len(all) != 2 {
		t.Errorf("of 10 with 1 MiB each %d are listed", len(all))
	}
}
