//go:build linux

package transcript_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/sessiontest"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// terminals are those of a work or of a turn.
func terminals(t *testing.T, sb sandbox.Sandbox) sandbox.TerminalStarter {
	t.Helper()
	power, has := sandbox.As[sandbox.TerminalStarter](sb)
	if !has {
		t.Fatal("it has no terminals")
	}
	return power
}

// shows reads what a terminal prints until that ends with text.
func shows(t *testing.T, of sandbox.Process, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all strings.Builder
	for c, err := range of.Output(ctx, 0) {
		if err != nil {
			t.Fatalf("it shows %q, then %v", all.String(), err)
		}
		if all.Write(c.Data); strings.HasSuffix(all.String(), text) {
			return
		}
	}
	t.Fatalf("it shows %q, and has ended", all.String())
}

// read reads an output, and returns what ends that.
func read(output iter.Seq2[sandbox.Chunk, error]) error {
	for _, err := range output {
		if err != nil {
			return err
		}
	}
	return nil
}

// An agent leaves a terminal running in its turn; a person takes it up in a shell of the same session, types, and leaves. It
// ends as whatever else the turn has started once that is taken over, and neither turn nor work starts another afterwards.
func TestTerminalIsTakenUp(t *testing.T) {
	machines, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { machines.Close() })
	clock := sessiontest.NewClock()
	h := newHost(t, &memory.Options{Now: clock.Now})
	s := h.sessions(machines)
	room, v := h.spawned(t, s)
	ends := func(c *transcript.TurnsConfig) { c.EndProcesses = s.EndTurns }
	turn, err := h.runner(ends).Begin(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	open := func(q session.WorkRequest) *session.Work { return opens(context.Background(), t, s, q) }
	agents := open(session.WorkRequest{Conversation: v.ID, Turn: turn.Fence()})
	size := sandbox.TerminalSize{Columns: 80, Rows: 24}
	script := sandbox.Cmd{Argv: []string{"sh", "-c", "stty -echo; stty size; printf 'your name? '; read name; printf 'good day, %s' \"$name\"; exec sleep 1000"}, Detached: true}
	left, err := terminals(t, turn.Sandbox(agents.Sandbox())).StartTerminal(t.Context(), script, size)
	if err != nil {
		t.Fatal(err)
	}
	shows(t, left, "24 80\r\nyour name? ")

	shell := open(session.WorkRequest{Session: room.ID})
	list, has := sandbox.As[sandbox.ProcessLister](shell.Sandbox())
	if !has {
		t.Fatal("a work lists no processes")
	}
	if _, has := sandbox.As[sandbox.ProcessLister](turn.Sandbox(agents.Sandbox())); !has {
		t.Error("a turn lists no processes")
	}
	var found []sandbox.ProcessInfo
	for p, err := range list.Processes(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, p)
	}
	if len(found) != 1 || found[0].Tag != agents.ID() || !found[0].Terminal || !found[0].Running || found[0].ID != left.ID() {
		t.Fatalf("there is %+v, want the terminal of work %s", found, agents.ID())
	}
	p, err := list.Process(t.Context(), found[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	again, is := p.(sandbox.Terminal)
	if !is {
		t.Fatal("what was taken up is no terminal")
	}
	if _, err := again.Write([]byte("Ann\n")); err != nil {
		t.Fatal(err)
	}
	shows(t, again, "your name? good day, Ann")
	if _, err := shell.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := terminals(t, shell.Sandbox()).StartTerminal(t.Context(), script, size); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("a work that is closed starts another: %v", err)
	}
	if _, err := again.Write([]byte("Bob\n")); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("who has closed the shell still types: %v", err)
	}
	for what, err := range map[string]error{
		"resizes": again.Resize(t.Context(), size), "ends": again.Signal(t.Context(), sandbox.SignalKill), "reads": read(again.Output(context.Background(), 0)),
		"is lent what is read of": read(sandbox.LentOutput(context.Background(), again, 0)),
	} {
		if !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("who has closed the shell still %s it: %v", what, err)
		}
	}
	if exit, done := ended(left, 50*time.Millisecond); done {
		t.Fatalf("with the shell it has ended: %+v", exit)
	}

	shared := open(session.WorkRequest{Session: room.ID})
	own, err := terminals(t, shared.Sandbox()).StartTerminal(t.Context(), sandbox.Cmd{Argv: []string{"cat"}}, size)
	if err != nil {
		t.Fatal(err)
	}
	finds, _ := sandbox.As[sandbox.ProcessLister](turn.Sandbox(agents.Sandbox()))
	p, err = finds.Process(t.Context(), own.ID())
	if err != nil {
		t.Fatal(err)
	}
	taken := p.(sandbox.Terminal)
	if _, err := taken.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	shows(t, own, "hello\r\nhello\r\n")

	clock.Step(turnLease)
	next, err := h.runner(ends).Begin(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, done := ended(left, time.Minute); !done {
		t.Error("the turn was handed out, and the terminal of the one before runs")
	}
	if _, err := terminals(t, turn.Sandbox(agents.Sandbox())).StartTerminal(t.Context(), script, size); err == nil {
		t.Error("the old turn starts another")
	}
	for what, of := range map[string]sandbox.Terminal{"its own": left, "what it has taken up": taken} {
		if _, err := of.Write([]byte("rm *\n")); err == nil {
			t.Errorf("the old turn types to %s", what)
		}
	}
	_, _ = turn.Close(t.Context(), nil)
	closeTurn(t, next)
}
