package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session"
)

// HostGone is an operator's word.
func (r *Replica) HostGone(c HostCall, a *HostAnswer) error {
	rep, err := r.service.HostGone(context.Background(), c.Host)
	a.Lost = rep.Lost
	return a.refused(err)
}

// While one process drains, the others work on; it takes on nothing new, stops
// what takes too long, with the reason, and gives back all that it holds.
func TestDrainOneOfTwo(t *testing.T) {
	need.Long(t, "it starts several processes and their machines")
	needBwrap(t)
	db, dsn := database(t)
	one, two := t.TempDir(), t.TempDir()
	a, b := start(t, onHost("a", dsn, filepath.Join(one, "root"))), start(t, onHost("b", dsn, filepath.Join(two, "root")))
	long, short, others := spawn(t, a), spawn(t, a), spawn(t, b)
	running, closing, other := open(t, a, long, 0), open(t, a, short, 0), open(t, b, others, 0)
	for _, w := range []*WorkAnswer{running, closing, other} {
		wantCode(t, "Open", w.Answer, "")
	}
	var ran, waited WorkAnswer
	sleeping := a.Go("Replica.Run", WorkCall{Work: running.Work, Script: "echo on >on; sleep 1000"}, &ran, nil)
	waiting := a.Go("Replica.Wait", WorkCall{Work: running.Work}, &waited, nil)
	eventually(t, "the script runs", func() bool { return sh(t, a, running.Work, "cat on 2>/dev/null || true") == "on\n" })

	var drained WorkAnswer
	draining := a.Go("Replica.Drain", WorkCall{Patience: 3 * time.Second}, &drained, nil)
	eventually(t, "new work is refused", func() bool {
		refused := open(t, a, short, 0)
		if refused.Code == "" { // the drain had not begun
			must(t, a, "Close", WorkCall{Work: refused.Work}, new(WorkAnswer))
		}
		return refused.Code == "draining"
	})
	if got := sh(t, a, closing.Work, "echo still"); got != "still\n" {
		t.Errorf("work that was open when the drain began: %q", got)
	}
	if rep := must(t, a, "Close", WorkCall{Work: closing.Work}, new(WorkAnswer)); rep.Cause != "" {
		t.Errorf("work that was closed in time was stopped: %s", rep.Cause)
	}
	wantCode(t, "Open in the other process", open(t, b, others, 0).Answer, "")

	if call := <-draining.Done; call.Error != nil || drained.Cause != "stopped" {
		t.Errorf("Drain: %v, %q", call.Error, drained.Cause)
	}
	if call := <-sleeping.Done; call.Error != nil || ran.Code != "draining" {
		t.Errorf("what ran too long ended with %v, %q (%s)", call.Error, ran.Code, ran.Text)
	}
	if call := <-waiting.Done; call.Error != nil || waited.Code != "draining" {
		t.Errorf("the work ended with %v, %q", call.Error, waited.Code)
	}
	for _, id := range []session.ID{long, short} {
		if l, err := db.Leases().Held(t.Context(), session.LeaseWork, string(id)); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("session %s is still worked in: %+v, %v", id, l, err)
		}
	}
	if left, err := db.Leases().Expired(t.Context(), 10); err != nil || len(left) > 0 {
		t.Errorf("works that were not given back: %+v, %v", left, err)
	}
	if got := sh(t, b, other.Work, "echo on"); got != "on\n" {
		t.Errorf("work of the other process: %q", got)
	}
	eventually(t, "nobody is sent to the process that drained", func() bool {
		there := open(t, b, long, 0).Answer
		wantCode(t, "Open of what is on the drained host", there, "elsewhere")
		return there.Replica == ""
	})
}
