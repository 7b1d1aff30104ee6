//go:build linux

package crash

import (
	"slices"
	"strings"
)

// theTurn is the story of a turn that has started something through a session's work.
const theTurn = "turn"

// sleepers are the processes of this world that the turn has started.
func (w *world) sleepers(except int) []string {
	w.t.Helper()
	return slices.DeleteFunc(w.processes(except), func(p string) bool { return !strings.Contains(p, "sleep") })
}

// leftRunning fails the test where a turn that died has left nothing, though it had started something, and was not about to stop it.
func (w *world) leftRunning(before play) {
	w.t.Helper()
	starts := before.passed("start 1") && !slices.Contains(before.places, "stop 1 before")
	if runs := w.sleepers(0); starts && len(runs) == 0 {
		w.t.Error("nothing outlives the process, so that there is nothing to end")
	}
}

// takenOver waits until the next process has the turn. By then nothing of the turn before runs (lifecycle §2).
func (w *world) takenOver(p *process) {
	w.t.Helper()
	m, ok := w.listen(p)
	if !ok || !m.TakenOver {
		p.wait()
		w.t.Fatalf("the turn was not taken over: %s", p.errs.String())
	}
	if runs := w.sleepers(p.cmd.Process.Pid); len(runs) > 0 {
		w.t.Errorf("the turn was handed out, and of the one before there run %q", runs)
	}
	p.tell(true)
}
