//go:build linux

package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// What the host's program says; see there.
type message struct {
	Scene     *scene
	At        string
	When      time.Time
	Told      *told
	Done      bool
	TakenOver bool
	Recovered bool
	Used      []visit
	Fault     string
}

type scene struct {
	Sessions      []session.ID             `json:"sessions,omitempty"`
	Conversations []session.ConversationID `json:"conversations,omitempty"`
	Environments  []session.EnvironmentID  `json:"environments,omitempty"`
}

type visit struct {
	Session session.ID
	Gone    bool
	Lived   bool
	Kept    string
}

// process is a host's program that runs.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	said *json.Decoder
	// Of wait: what it says is wrong, and its standard error, which is not to be read before the end.
	fault string
	errs  bytes.Buffer
}

func start(t testing.TB, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), program, args...)}
	p.cmd.Stderr = &p.errs
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.said = json.NewDecoder(out)
	return p
}

// next is what it says next; false once it has ended.
func (p *process) next() (m message, ok bool) {
	err := p.said.Decode(&m)
	p.fault = m.Fault
	return m, err == nil && m.Fault == ""
}

func (p *process) tell(v any) {
	p.t.Helper()
	if err := json.NewEncoder(p.in).Encode(v); err != nil {
		p.t.Errorf("the process does not listen: %v", err)
	}
}

// wait waits for its end, and reports whether that was a SIGKILL.
func (p *process) wait() (killed bool) {
	p.t.Helper()
	err := p.cmd.Wait()
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	if err != nil && !killed {
		p.t.Errorf("the process ended with %v: %s\n%s", err, p.fault, p.errs.String())
	}
	return killed
}

// play is what a process has done of a story.
type play struct {
	scene  scene
	places []string // that it has passed, or died at
	done   bool     // to the end
	killed bool
}

// passed reports whether a call was made and answered.
func (p play) passed(call string) bool { return slices.Contains(p.places, call+" after") }

// play plays a story in the world, and dies at a place; empty = nowhere.
// watch, which may be nil, hears of every place as it is passed.
func (w *world) play(story, die string, watch func(p *process, place string)) play {
	w.t.Helper()
	args := append([]string{"-play", story, "-die", die, "-root", w.root, "-events", w.events}, w.database...)
	var got play
	var at, heard time.Time // of the last place: on the clock of the rows, and here
	p := start(w.t, w.program, args...)
	for {
		m, ok := p.next()
		if !ok {
			break
		}
		switch {
		case m.Scene != nil:
			got.scene = *m.Scene
		case m.Told != nil:
			w.hear(m.Told)
		case m.At != "":
			got.places = append(got.places, m.At)
			at, heard = m.When, time.Now()
			if watch != nil {
				watch(p, m.At)
			}
		}
		got.done = got.done || m.Done
	}
	got.killed = p.wait()
	// Not before the last place it has passed, and not after now.
	w.died(latest(at.Add(time.Since(heard)), time.Now()), die)
	if len(got.scene.Sessions) == 0 && story != "sweep" {
		w.t.Fatalf("no scene was set: %s", p.errs.String())
	}
	return got
}

// recover has the next process clean up and then work on. In between, and at the end, the world is looked at.
func (w *world) recover(story string, before play) []visit {
	w.t.Helper()
	args := append([]string{"-recover", story, "-root", w.root, "-events", w.events}, w.database...)
	p := start(w.t, w.program, args...)
	p.tell(before.scene)
	if story == theTurn {
		w.takenOver(p)
	}
	m, ok := w.listen(p)
	if !ok || !m.Recovered {
		p.wait()
		w.t.Fatalf("nothing was recovered: %s", p.errs.String())
	}
	w.nothingLeft(story, before.scene, p.cmd.Process.Pid)
	if w.t.Failed() { // what is left would only be waited for
		_ = p.cmd.Process.Kill()
		p.wait()
		w.t.FailNow()
	}
	p.tell(true)
	m, ok = w.listen(p)
	if !ok {
		p.wait()
		w.t.Fatalf("nothing works any more: %s", p.errs.String())
	}
	if killed := p.wait(); killed {
		w.t.Fatal("the next process was killed")
	}
	w.nothingLeft(story, before.scene, 0)
	return m.Used
}

// listen is what the process says next that is not of a work.
func (w *world) listen(p *process) (message, bool) {
	for {
		m, ok := p.next()
		if !ok || m.Told == nil {
			return m, ok
		}
		w.hear(m.Told)
	}
}

func (v visit) String() string {
	return fmt.Sprintf("{gone %v, lived %v, kept %q}", v.Gone, v.Lived, v.Kept)
}
