package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// start starts a command and fails t where it does not start.
func start(t *testing.T, sb sandbox.Sandbox, c sandbox.Cmd) sandbox.Process {
	t.Helper()
	p, err := sb.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("Start(%q): %v", c.Argv, err)
	}
	return p
}

// wait waits for the end of p without a limit.
func wait(t *testing.T, p sandbox.Process) sandbox.Exit {
	t.Helper()
	exit, err := p.Wait(context.Background())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return exit
}

// How a command ends, whoever ends it, and what its function learns of it.
// A bubble ends only when every goroutine in it has: nothing leaks.
func TestProcessEnds(t *testing.T) {
	const grace, timeout = time.Second, time.Minute
	const killed = 100 * time.Millisecond // what a function is left after a kill
	cause := errors.New("the caller has gone")
	type world struct {
		boxes  *memory.Sandboxes
		sb     sandbox.Sandbox
		p      sandbox.Process
		cancel context.CancelCauseFunc
	}
	for _, c := range []struct {
		rule     string
		end      func(t *testing.T, w world)
		want     sandbox.Exit // of a function that heeds its context
		deaf     sandbox.Exit // of one that does not
		cause    error
		detached bool
		err      error
	}{
		{
			rule: "its time is up", end: func(*testing.T, world) {}, cause: context.DeadlineExceeded,
			want: sandbox.Exit{Code: 143, Reason: sandbox.TimedOut, Duration: timeout},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.TimedOut, Duration: timeout + grace},
		}, {
			rule: "its caller's context ends", end: func(_ *testing.T, w world) { w.cancel(cause) }, cause: cause,
			want: sandbox.Exit{Code: 143, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: grace},
		}, {
			rule: "a request to end, which the deaf outlive until their time is up",
			end:  func(t *testing.T, w world) { w.p.Signal(t.Context(), sandbox.SignalInt) }, cause: context.Canceled,
			want: sandbox.Exit{Code: 130, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.TimedOut, Duration: timeout + grace},
		}, {
			rule: "a kill", end: func(t *testing.T, w world) { w.p.Signal(t.Context(), sandbox.SignalKill) }, cause: context.Canceled,
			want: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: killed},
		}, {
			rule: "a request, then a kill", end: func(t *testing.T, w world) {
				w.p.Signal(t.Context(), sandbox.SignalTerm)
				w.p.Signal(t.Context(), sandbox.SignalKill)
			}, cause: context.Canceled,
			want: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: killed},
		}, {
			rule: "a kill while it is being stopped", end: func(t *testing.T, w world) {
				w.cancel(cause)
				synctest.Wait()
				w.p.Signal(t.Context(), sandbox.SignalKill)
			}, cause: cause,
			want: sandbox.Exit{Code: 143, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: killed},
		}, {
			rule: "it is closed", end: func(_ *testing.T, w world) { w.p.Close() }, cause: context.Canceled,
			want: sandbox.Exit{Code: 143, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: grace},
		}, {
			rule: "its handle is closed", end: func(_ *testing.T, w world) { w.sb.Close() }, cause: sandbox.ErrClosed,
			want: sandbox.Exit{Code: 143, Reason: sandbox.Cancelled},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.Cancelled, Duration: grace},
		}, {
			rule: "its machine is destroyed, though it is detached", detached: true,
			end: func(t *testing.T, w world) { w.boxes.Destroy(t.Context(), w.sb.Ref()) }, cause: sandbox.ErrGone,
			want: sandbox.Exit{Code: 137, Reason: sandbox.SandboxEnded},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.SandboxEnded, Duration: killed},
		}, {
			rule: "its machine vanishes: commands in flight end lost (lifecycle rule 15)", detached: true,
			end: func(_ *testing.T, w world) { w.boxes.Kill(w.sb.Ref().Incarnation) }, cause: sandbox.ErrLost, err: sandbox.ErrLost,
		}, {
			rule: "it is detached: neither its caller, its handle nor its own close ends it", detached: true,
			end: func(_ *testing.T, w world) {
				w.cancel(cause)
				w.p.Close()
				w.sb.Close()
			}, cause: context.DeadlineExceeded,
			want: sandbox.Exit{Code: 143, Reason: sandbox.TimedOut, Duration: timeout},
			deaf: sandbox.Exit{Code: 137, Reason: sandbox.TimedOut, Duration: timeout + grace},
		},
	} {
		for _, deaf := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deaf=%v", c.rule, deaf), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					boxes := memory.NewSandboxes(nil)
					letGo := make(chan struct{})
					returned := make(chan error, 1)
					boxes.Handle("wait", func(ctx context.Context, cmd *memory.Command) int {
						<-ctx.Done()
						if deaf {
							<-letGo
						}
						_, write := io.WriteString(cmd.Stdout, "late")
						file := sandbox.WriteFile(context.Background(), cmd.FS, "late", nil, nil)
						if deaf && (write == nil || file == nil) {
							t.Errorf("an abandoned function writes: %v, %v", write, file)
						}
						returned <- context.Cause(ctx)
						return 5
					})
					sb := mustOpen(t, boxes, "x")
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					p, err := sb.Start(ctx, sandbox.Cmd{Argv: []string{"wait"}, Timeout: timeout, KillGrace: grace, Detached: c.detached})
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					c.end(t, world{boxes, sb, p, cancel})
					exit, err := p.Wait(context.Background())
					wantErr(t, "Wait", err, c.err)
					want := c.want
					if deaf {
						want = c.deaf
					}
					if exit.Stdout != 0 && !deaf { // written between the request to end and the return
						exit.Stdout = 0
					}
					if diff := cmp.Diff(want, exit); diff != "" {
						t.Errorf("Exit (-want +got)\n%s", diff)
					}
					close(letGo)
					wantErr(t, "cause of the function's context", <-returned, c.cause)
					if err := p.Signal(t.Context(), sandbox.SignalKill); err != nil {
						t.Errorf("Signal after the end: %v", err)
					}
					if err := p.Close(); err != nil {
						t.Errorf("Close after the end: %v", err)
					}
					synctest.Wait()
					for _, m := range boxes.Machines() {
						if m.Processes != 0 {
							t.Errorf("%d processes still count", m.Processes)
						}
					}
				})
			})
		}
	}
}

// How a function ends by itself.
func TestProcessExits(t *testing.T) {
	for _, c := range []struct {
		rule   string
		f      memory.Handler
		want   sandbox.Exit
		stderr string
	}{
		{"its result is the exit code", func(context.Context, *memory.Command) int { return 3 }, sandbox.Exit{Code: 3, Reason: sandbox.Exited}, ""},
		{"of which eight bits count", func(context.Context, *memory.Command) int { return -1 }, sandbox.Exit{Code: 255, Reason: sandbox.Exited}, ""},
		{"a panic is 2", func(context.Context, *memory.Command) int { panic("boom") }, sandbox.Exit{Code: 2, Reason: sandbox.Exited, Stderr: 12}, "panic: boom\n"},
		{
			"so is the end of its goroutine", func(context.Context, *memory.Command) int { runtime.Goexit(); return 0 },
			sandbox.Exit{Code: 2, Reason: sandbox.Exited, Stderr: 33}, "the function ended its goroutine\n",
		},
		{
			"it can die of a signal", func(_ context.Context, c *memory.Command) int { return c.Killed(sandbox.SignalKill) },
			sandbox.Exit{Code: 137, Reason: sandbox.Signalled}, "",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			boxes := memory.NewSandboxes(nil)
			boxes.HandleRest(c.f)
			var stdout, stderr bytes.Buffer
			got, err := sandbox.Run(t.Context(), mustOpen(t, boxes, "x"), sandbox.Cmd{Argv: []string{"any"}}, &stdout, &stderr)
			if err != nil {
				t.Fatalf("%s: %v", c.rule, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", c.rule, diff)
			}
			if stderr.String() != c.stderr {
				t.Errorf("%s: stderr %q, want %q", c.rule, &stderr, c.stderr)
			}
		})
	}
}

// What can't start says why, and starts nothing.
func TestProcessNotStarted(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	boxes.Handle("true", memory.Coreutils()["true"])
	sb := mustOpen(t, boxes, "x")
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "file", nil, nil); err != nil {
		t.Fatal(err)
	}
	yes := []string{"true"}
	for _, c := range []struct {
		rule string
		cmd  sandbox.Cmd
		want error
		text string
	}{
		{"an unknown program", sandbox.Cmd{Argv: []string{"rm"}}, sandbox.ErrNotStarted, "no such program: rm"},
		{"a directory that is not there", sandbox.Cmd{Argv: yes, Dir: "nowhere"}, sandbox.ErrNotStarted, "no such directory: nowhere"},
		{"a directory that is a file", sandbox.Cmd{Argv: yes, Dir: "file"}, sandbox.ErrNotStarted, "no such directory: file"},
		{"a directory outside", sandbox.Cmd{Argv: yes, Dir: "/etc"}, sandbox.ErrNotStarted, "no such directory: /etc"},
		{"no program", sandbox.Cmd{}, sandbox.ErrInvalid, "Argv"},
		{"an empty program", sandbox.Cmd{Argv: []string{""}}, sandbox.ErrInvalid, "Argv"},
		{"a NUL byte in an argument", sandbox.Cmd{Argv: []string{"true", "\x00"}}, sandbox.ErrInvalid, "Argv"},
		{"a NUL byte in the directory", sandbox.Cmd{Argv: yes, Dir: "\x00"}, sandbox.ErrInvalid, "Dir"},
		{"a variable without a name", sandbox.Cmd{Argv: yes, Env: []string{"=1"}}, sandbox.ErrInvalid, "Env"},
		{"a negative timeout", sandbox.Cmd{Argv: yes, Timeout: -1}, sandbox.ErrInvalid, "Timeout"},
		{"a negative grace", sandbox.Cmd{Argv: yes, KillGrace: -1}, sandbox.ErrInvalid, "KillGrace"},
		{"a negative limit", sandbox.Cmd{Argv: yes, OutputLimit: -1}, sandbox.ErrInvalid, "OutputLimit"},
	} {
		_, err := sb.Start(t.Context(), c.cmd)
		wantErr(t, c.rule, err, c.want)
		if err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: error %q does not say %q", c.rule, err, c.text)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sb.Start(over, sandbox.Cmd{Argv: yes})
	wantErr(t, "a caller that has gone", err, context.Canceled)
	wantErr(t, "an unknown signal", start(t, sb, sandbox.Cmd{Argv: yes}).Signal(t.Context(), 9), sandbox.ErrInvalid)
	if _, err := sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"/usr/bin/true"}}); err != nil {
		t.Errorf("a program named by its path: %v", err)
	}
	boxes.Handle("true", nil)
	_, err = sb.Start(t.Context(), sandbox.Cmd{Argv: yes})
	wantErr(t, "a program that was taken away", err, sandbox.ErrNotStarted)
}

// What a function is called with.
func TestCommand(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	var got memory.Command
	var in string
	var home, dir, abs string
	boxes.HandleRest(func(_ context.Context, c *memory.Command) int {
		data, err := io.ReadAll(c.Stdin)
		if err != nil {
			t.Errorf("ReadAll: %v", err)
		}
		in = string(data)
		got = memory.Command{Argv: c.Argv, Env: c.Env, Dir: c.Dir}
		home, dir, abs = c.Getenv("HOME"), c.Path("a"), c.Path("/b")
		return 0
	})
	m, err := boxes.Create(t.Context(), sandbox.CreateRequest{Name: "x", Spec: sandbox.Spec{Env: []string{"A=1", "B=2"}}})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := boxes.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if err := sb.FS().Mkdir(t.Context(), "sub"); err != nil {
		t.Fatal(err)
	}
	wait(t, start(t, sb, sandbox.Cmd{
		Argv: []string{"p", "q"}, Dir: "sub", Env: []string{"B=3", "C=4", "C=5=6"}, Stdin: strings.NewReader("input"),
	}))
	want := memory.Command{Argv: []string{"p", "q"}, Env: []string{"A=1", "B=3", "C=5=6"}, Dir: "/workspace/sub"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(memory.Command{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if in != "input" || home != "" || dir != "/workspace/sub/a" || abs != "/b" {
		t.Errorf("stdin %q, HOME %q, paths %q and %q", in, home, dir, abs)
	}
	wait(t, start(t, sb, sandbox.Cmd{Argv: []string{"p"}}))
	if in != "" || got.Dir != "/workspace" {
		t.Errorf("by default stdin %q, dir %q", in, got.Dir)
	}
}

// A function that waits for input that never comes ends with its context.
func TestProcessStdinEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boxes := memory.NewSandboxes(nil)
		boxes.Handle("cat", memory.Coreutils()["cat"])
		r, w := io.Pipe()
		p := start(t, mustOpen(t, boxes, "x"), sandbox.Cmd{Argv: []string{"cat"}, Stdin: r, Timeout: time.Minute})
		if _, err := io.WriteString(w, "some"); err != nil {
			t.Fatal(err)
		}
		want := sandbox.Exit{Code: 143, Reason: sandbox.TimedOut, Duration: time.Minute, Stdout: 4}
		got := wait(t, p)
		got.Stderr = 0 // cat says why
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		w.Close()
	})
}

// Limits can't be held by functions, in any meaning: each is refused by its name.
func TestSandboxesRefuseLimits(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	handlePrograms(t, boxes)
	sb, err := boxes.Open(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	for name, limits := range map[string]sandbox.Limits{
		"ProcessCPUTime": {ProcessCPUTime: time.Second}, "TreeMemory": {TreeMemory: 1}, "UserProcesses": {UserProcesses: 1},
	} {
		_, err := sb.Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}, Limits: limits})
		var refused *sandbox.LimitError
		if !errors.As(err, &refused) || refused.Limit != name || !errors.Is(err, sandbox.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
