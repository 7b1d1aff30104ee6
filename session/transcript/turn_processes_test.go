//go:build linux

package transcript_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// machine is one of the local driver, with a handle on it.
func machine(t *testing.T) (*local.Provider, sandbox.Ref, sandbox.Sandbox) {
	t.Helper()
	p, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "m-g1"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Close()
		if err := p.Destroy(context.Background(), m.Ref); err != nil {
			t.Error(err)
		}
	})
	return p, m.Ref, sb
}

// runs starts what runs on and on, and returns once it does.
func runs(t *testing.T, sb sandbox.Sandbox, c sandbox.Cmd) sandbox.Process {
	t.Helper()
	c.Argv = []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}
	p, err := sb.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Signal(context.Background(), sandbox.SignalKill) })
	for chunk, err := range p.Output(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(chunk.Data, []byte("ready")) {
			return p
		}
	}
	t.Fatal("it has ended")
	return nil
}

// ended reports how a process has ended, if it has within some time.
func ended(p sandbox.Process, within time.Duration) (sandbox.Exit, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	exit, err := p.Wait(ctx)
	return exit, err == nil
}

// Cases 3 and 5 with real processes: once a turn is taken over, nothing runs of the one before, not what
// was to outlive it and heeds no request to end; what is another conversation's runs on.
func TestTakeoverEndsProcesses(t *testing.T) {
	provider, ref, sb := machine(t)
	clock := sessiontest.NewClock()
	h := newHost(t, &memory.Options{Now: clock.Now})
	h.create()
	ending := func(c *transcript.TurnsConfig) {
		c.EndProcesses = func(ctx context.Context, c access.ConversationID, last int64) error {
			return transcript.EndOlder(ctx, provider, ref, c, last)
		}
	}
	late, next := h.runner(ending), h.runner(ending)
	old, err := late.Begin(t.Context(), talk)
	if err != nil {
		t.Fatal(err)
	}
	left := []sandbox.Process{runs(t, old.Sandbox(sb), sandbox.Cmd{}), runs(t, old.Sandbox(sb), sandbox.Cmd{Detached: true, Tag: "overruled"})}
	others := []sandbox.Process{runs(t, sb, sandbox.Cmd{Detached: true, Tag: transcript.TagOf("another", old.Fence())}), runs(t, sb, sandbox.Cmd{Detached: true})}
	if _, err := next.Begin(t.Context(), talk); !errors.As(err, new(*session.HeldError)) {
		t.Fatalf("while it is another's: %v", err)
	}
	clock.Step(turnLease) // whose process hangs, and does not know that it is late
	turn, err := next.Begin(t.Context(), talk)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range left {
		if exit, done := ended(p, time.Minute); !done {
			t.Errorf("process %d runs", i)
		} else if exit.Reason == sandbox.Exited {
			t.Errorf("process %d ended by itself: %+v", i, exit)
		}
	}
	for i, p := range others {
		if exit, done := ended(p, 50*time.Millisecond); done {
			t.Errorf("process %d, which was none of its business, has ended: %+v", i, exit)
		}
	}
	if _, err := old.Commit(t.Context(), transcript.Change{Append: []transcript.NewEntry{question("late")}}); !errors.Is(err, transcript.ErrFenced) {
		t.Errorf("the old one, late: %v", err)
	}
	if cause := context.Cause(old.Context()); !errors.Is(cause, session.ErrFenced) {
		t.Errorf("being told that it was late, it goes on: %v", cause)
	}
	if _, err := old.Sandbox(sb).Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, transcript.ErrFenced) {
		t.Errorf("it starts something: %v", err)
	}
	_, _ = old.Close(t.Context(), nil)
	closeTurn(t, turn)
}

// What a turn has started stops as it ends, and nothing starts any more.
func TestTurnSandbox(t *testing.T) {
	_, _, sb := machine(t)
	h := newHost(t, nil)
	h.create()
	for what, end := range map[string]func(*transcript.Turn) error{
		"Finish": func(turn *transcript.Turn) error {
			_, err := turn.Finish(t.Context())
			return err
		},
		"Close": func(turn *transcript.Turn) error {
			_, err := turn.Close(t.Context(), nil)
			return err
		},
	} {
		turn := h.begins(h.runner())
		mine := turn.Sandbox(sb)
		p := runs(t, mine, sandbox.Cmd{KillGrace: time.Millisecond})
		if err := end(turn); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(t.Context()); err != nil {
			t.Errorf("%s: it runs: %v", what, err)
		}
		if _, err := mine.Start(t.Context(), sandbox.Cmd{Argv: []string{"true"}}); !errors.Is(err, transcript.ErrFenced) {
			t.Errorf("%s: Start: %v", what, err)
		}
		if _, err := sandbox.ReadFile(t.Context(), mine.FS(), "none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: its files: %v", what, err)
		}
	}
	turn := h.begins(h.runner())
	if _, err := turn.Sandbox(sb).Start(t.Context(), sandbox.Cmd{Argv: []string{"no such program"}}); !errors.Is(err, sandbox.ErrNotStarted) {
		t.Errorf("what is not there: %v", err)
	}
	_, has := sandbox.As[sandbox.Symlinker](turn.Sandbox(sb))
	if _, had := sandbox.As[sandbox.Symlinker](sb); has != had {
		t.Errorf("it can make links: %v, want %v", has, had)
	}
	_, has = sandbox.As[sandbox.AttrSetter](turn.Sandbox(sb))
	if _, had := sandbox.As[sandbox.AttrSetter](sb); has != had {
		t.Errorf("it can set modes: %v, want %v", has, had)
	}
	_, has = sandbox.As[sandbox.Watcher](turn.Sandbox(sb))
	if _, had := sandbox.As[sandbox.Watcher](sb); has != had {
		t.Errorf("it can watch: %v, want %v", has, had)
	}
	closeTurn(t, turn)
}

// A tag is one whatever the conversation is called, and says of which it is.
func TestTagOf(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range []access.ConversationID{"a", "b", "A", "ä/ö \n", access.ConversationID(strings.Repeat("x", access.MaxID))} {
		for _, fence := range []int64{1, 2, 1<<63 - 1} {
			tag := transcript.TagOf(c, fence)
			if err := sandbox.CheckTag(tag); err != nil || seen[tag] {
				t.Errorf("%q: %v", tag, err)
			}
			seen[tag] = true
		}
	}
}

// marked counts the processes of this host that bear a tag.
func marked(t *testing.T, tag string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if env, err := os.ReadFile(path); err == nil && bytes.Contains(env, []byte(tag)) { // else it is gone, or somebody else's
			n++
		}
	}
	return n
}

// The process of a runner is killed; another process of the host takes over what it has left.
func TestTakeoverOfAKilledProcess(t *testing.T) {
	const role = "BUNKROOM_TEST_TURN"
	if root, part := os.LookupEnv(role); part {
		p, err := local.New(local.Config{Root: root, Unconfined: true})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "m-g1"})
		if err != nil {
			t.Fatal(err)
		}
		sb, err := p.Attach(t.Context(), m.Ref)
		if err != nil {
			t.Fatal(err)
		}
		runs(t, sb, sandbox.Cmd{Detached: true, Tag: transcript.TagOf(talk, 41)})
		_, _ = os.Stdout.WriteString("started\n")
		select {}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	other := exec.Command(exe, "-test.run=^TestTakeoverOfAKilledProcess$", "-test.v")
	other.Env = append(os.Environ(), role+"="+root)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var said []byte
	for chunk := make([]byte, 256); !bytes.Contains(said, []byte("started")); {
		n, err := out.Read(chunk)
		if err != nil {
			t.Fatalf("%q: %v", said, err)
		}
		said = append(said, chunk[:n]...)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	p, err := local.New(local.Config{Root: root, Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	found, err := p.Inspect(t.Context(), sandbox.Ref{Name: "m-g1"})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	ref := sandbox.Ref{Name: "m-g1", Incarnation: found[0].Incarnation}
	t.Cleanup(func() {
		if err := p.Destroy(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	for _, fence := range []int64{40, 41} {
		before := marked(t, transcript.TagOf(talk, 41))
		if err := transcript.EndOlder(t.Context(), p, ref, talk, fence); err != nil {
			t.Fatal(err)
		}
		after := marked(t, transcript.TagOf(talk, 41))
		if before == 0 || (fence == 40) != (after > 0) {
			t.Errorf("turn %d was ended: of turn 41 there ran %d processes, and run %d", fence, before, after)
		}
	}
}
