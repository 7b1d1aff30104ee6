//go:build linux

package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var ordinary = sandbox.TerminalSize{Columns: 80, Rows: 24}

// onTerminal starts a script on a terminal.
func onTerminal(t testing.TB, sb sandbox.Sandbox, c sandbox.Cmd, script string) sandbox.Terminal {
	t.Helper()
	s, _ := sandbox.As[sandbox.TerminalStarter](sb)
	c.Argv = []string{"sh", "-c", script}
	term, err := s.StartTerminal(deadline(t), c, ordinary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { term.Close() })
	return term
}

// shows waits until text is printed.
func shows(t testing.TB, term sandbox.Process, text string) {
	t.Helper()
	var got strings.Builder
	for c, err := range term.Output(deadline(t), 0) {
		if err != nil {
			t.Fatalf("%v, after %q", err, got.String())
		}
		if got.Write(c.Data); strings.Contains(got.String(), text) {
			return
		}
	}
	t.Fatalf("it ended with %q, before %q", got.String(), text)
}

func both(t *testing.T, fn func(t *testing.T, sb sandbox.Sandbox)) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := open(t, unconfined)
			fn(t, attach(t, p, create(t, p, "m-g1")))
		})
	}
}

// A program may give all of its terminal up, and have it again by its name.
func TestTerminalReopened(t *testing.T) {
	both(t, func(t *testing.T, sb sandbox.Sandbox) {
		term := onTerminal(t, sb, sandbox.Cmd{}, "exec </dev/null >/dev/null 2>&1; sleep 0.1; echo again >/dev/tty")
		shows(t, term, "again\r\n")
		if exit := wait(t, term); exit.Code != 0 || exit.Stdout != int64(len("again\r\n")) {
			t.Errorf("%+v", exit)
		}
	})
}

// What is typed and nobody reads holds nobody up once the program has ended.
func TestTerminalWriteBlocks(t *testing.T) {
	both(t, func(t *testing.T, sb sandbox.Sandbox) {
		term := onTerminal(t, sb, sandbox.Cmd{}, "stty raw -echo; echo ready; exec sleep 1000")
		shows(t, term, "ready")
		written := make(chan error, 1)
		go func() {
			_, err := term.Write(make([]byte, 1<<20))
			written <- err
		}()
		select {
		case err := <-written:
			t.Fatalf("1 MiB was typed: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := term.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-written; !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("type: %v", err)
		}
	})
}

// A script on a terminal is read from its file, so that it can ask whoever types.
func TestTerminalScript(t *testing.T) {
	both(t, func(t *testing.T, sb sandbox.Sandbox) {
		s, _ := sandbox.As[sandbox.TerminalStarter](sb)
		term, err := s.StartTerminal(deadline(t), sandbox.Cmd{Script: "echo \"name, $1?\"; read n; echo \"it is $n\"", Argv: []string{"please"}}, ordinary)
		if err != nil {
			t.Fatal(err)
		}
		defer term.Close()
		shows(t, term, "name, please?")
		if _, err := term.Write([]byte("x y\n")); err != nil {
			t.Fatal(err)
		}
		shows(t, term, "it is x y")
		wait(t, term)
	})
}

// The environment of a terminal says what it can do, and can be cleared; the program leads its session.
func TestTerminalEnvironment(t *testing.T) {
	both(t, func(t *testing.T, sb sandbox.Sandbox) {
		term := onTerminal(t, sb, sandbox.Cmd{}, `echo "$TERM"; set -- $(cat /proc/$$/stat); test "$6" = $$ && echo leads`)
		shows(t, term, "xterm-256color\r\nleads")
		shows(t, onTerminal(t, sb, sandbox.Cmd{ClearEnv: true, Env: []string{"A=1"}}, `echo "${HOME-none} $A"`), "none 1")
	})
}

// A terminal ends with the process of the host that started it, though it is detached, and is then not found.
func TestTerminalEndsWithHost(t *testing.T) {
	if mode, root, ok := strings.Cut(os.Getenv(roleVar), ":"); ok {
		p := openAt(t, root, mode == "unconfined")
		shows(t, onTerminal(t, attach(t, p, create(t, p, "m-g1")), sandbox.Cmd{Detached: true}, "echo ready; exec sleep 1000"), "ready")
		fmt.Println("started")
		select {}
	}
	for _, mode := range []string{"confined", "unconfined"} {
		t.Run(mode, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, mode == "unconfined")
			sb := attach(t, p, create(t, p, "m-g1"))
			sh(t, sb, "true") // so that the init is ours
			if err := another(t, root, mode).Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "none runs", func() bool {
				n := 0
				for _, i := range processes(t, sb) {
					if i.Running {
						n++
					}
				}
				return n == 0
			})
		})
	}
}

// Terminals are for any number of goroutines, up to their end and after.
func TestTerminalConcurrent(t *testing.T) {
	both(t, func(t *testing.T, sb sandbox.Sandbox) {
		term := onTerminal(t, sb, sandbox.Cmd{KillGrace: 100 * time.Millisecond}, "stty -echo; echo ready; while read x; do echo $x; done")
		shows(t, term, "ready")
		l, _ := sandbox.As[sandbox.ProcessLister](sb)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 20 {
					term.Write([]byte("typed\n"))
					term.Resize(context.Background(), sandbox.TerminalSize{Columns: uint16(i + 1), Rows: uint16(n + 1)})
					if found, err := l.Process(context.Background(), term.ID()); err == nil {
						found.Close()
					}
					processes(t, sb)
					for range term.Output(context.Background(), int64(n)) {
						break
					}
					if i == 0 && n == 10 {
						term.Close()
					}
				}
			})
		}
		wg.Wait()
		if exit := wait(t, term); exit.Reason != sandbox.Cancelled {
			t.Errorf("%+v", exit)
		}
	})
}
