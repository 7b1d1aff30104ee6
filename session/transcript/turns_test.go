package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// leaves is what a runner that has died leaves: many open calls, a draft, and a process.
func (h *host) leaves(calls int) (r *runner, turn *transcript.Turn) {
	h.t.Helper()
	h.create()
	r = h.runner()
	turn = h.begins(r)
	answer := transcript.NewEntry{ID: "answer", Kind: transcript.KindAssistant}
	for i := range calls {
		answer.Parts = append(answer.Parts, transcript.Part{Type: transcript.PartCall, Call: &transcript.Call{
			ID: transcript.CallID(fmt.Sprint("c", i)), Name: "run", Arguments: json.RawMessage(`{}`),
		}})
	}
	ctx := context.Background()
	for _, c := range []transcript.Change{
		{Append: []transcript.NewEntry{answer}},
		{Start: []transcript.CallAddress{{Entry: "answer", Call: "c0"}}},
		{Draft: &transcript.Draft{NewEntry: transcript.NewEntry{ID: "draft", Kind: transcript.KindAssistant, Parts: []transcript.Part{transcript.TextPart("I am about to")}}}},
	} {
		if _, err := turn.Commit(ctx, c); err != nil {
			h.t.Fatal(err)
		}
	}
	_ = r.dies()
	return r, turn
}

// tidy fails the test unless nothing of older turns is left.
func (h *host) tidy(turn *transcript.Turn) {
	h.t.Helper()
	if row := h.row(); !row.InTurn || row.Fence != turn.Fence() {
		h.t.Errorf("turn %d was handed out, and it is in turn %d: %v", turn.Fence(), row.Fence, row.InTurn)
	}
	if open := h.open(); len(open.Calls) > 0 || open.Draft != nil {
		h.t.Errorf("turn %d was handed out with %d open calls, draft %v", turn.Fence(), len(open.Calls), open.Draft)
	}
	for _, fence := range h.runs() {
		if fence < turn.Fence() {
			h.t.Errorf("turn %d was handed out while something of turn %d ran", turn.Fence(), fence)
		}
	}
}

func closeTurn(t testing.TB, turn *transcript.Turn) {
	t.Helper()
	if _, err := turn.Close(context.Background(), nil); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // processes end, then the turn begins, then what is open is settled: lifecycle §2
		h := newHost(t, nil)
		_, old := h.leaves(450)
		time.Sleep(turnLease)
		r := h.runner()
		turn := h.begins(r)
		h.tidy(turn)
		if got, want := strings.Join(r.called(), ", "), "acquire, load, end processes, begin, unsettled, settle, settle, settle"; got != want {
			t.Errorf("it has called %s, want %s", got, want)
		}
		entries, err := r.store.Get(t.Context(), talk, "answer", "draft")
		if err != nil || len(entries) != 2 || !entries[1].Aborted {
			t.Fatalf("got %+v, %v", entries, err)
		}
		for _, p := range entries[0].Parts {
			if p.Call.Status != transcript.CallInterrupted {
				t.Errorf("call %s is %s", p.Call.ID, p.Call.Status)
			}
		}
		if cause := context.Cause(old.Context()); !errors.Is(cause, session.ErrFenced) {
			t.Errorf("the old turn's context ended with %v", cause)
		}
		closeTurn(t, turn)
	})
}

// Case 5: whichever of its calls a runner dies at, done or not, the next one takes over once the lease has run out, and completes it.
func TestTakeoverAfterACrashAtEveryCall(t *testing.T) {
	for _, done := range []bool{false, true} {
		for n := 1; ; n++ {
			survived := false
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, nil)
				h.leaves(250)
				time.Sleep(turnLease)
				r := h.runner()
				r.meet = func(_ string, nth int, after bool) error {
					if nth == n && after == done {
						return r.dies()
					}
					return nil
				}
				first, err := r.Begin(t.Context(), talk)
				if survived = err == nil; survived {
					r.meddle(nil)
					h.tidy(first)
					closeTurn(t, first)
					return
				}
				if !errors.Is(err, errDied) {
					t.Errorf("call %d: %v", n, err)
				}
				next := h.runner()
				turn, err := next.Begin(t.Context(), talk)
				if held := (*session.HeldError)(nil); errors.As(err, &held) {
					time.Sleep(time.Until(held.Until))
					turn, err = next.Begin(t.Context(), talk)
				}
				if err != nil {
					t.Fatalf("call %d: the next: %v", n, err)
				}
				h.tidy(turn)
				closeTurn(t, turn)
				if h.row().InTurn || h.listed(next.store.Unfinished) {
					t.Errorf("call %d: it is unfinished", n)
				}
			})
			if survived {
				break
			}
		}
	}
}

// Whatever Begin fails at, it gives the lease back, and the next one begins at once.
func TestBeginGivesBack(t *testing.T) {
	tester := 0
	for n := 1; ; n++ {
		failed := false
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, nil)
			_, old := h.leaves(250)
			time.Sleep(turnLease)
			r := h.runner()
			r.meet = func(_ string, nth int, after bool) error {
				if nth == n && !after {
					return errNoConnection
				}
				return nil
			}
			turn, err := r.Begin(t.Context(), talk)
			failed = err != nil
			if !failed {
				r.meddle(nil)
				closeTurn(t, turn)
				return
			}
			if !errors.Is(err, errNoConnection) {
				t.Errorf("call %d: %v", n, err)
			}
			if row := h.row(); row.InTurn && row.Fence != old.Fence() {
				t.Errorf("call %d: it is left in turn %d, which nobody has", n, row.Fence)
			}
			turn = h.begins(h.runner())
			h.tidy(turn)
			closeTurn(t, turn)
		})
		if !failed {
			break
		}
		tester++
	}
	if tester != 7 { // each of its calls, see TestTakeover, with one commit less to settle
		t.Errorf("%d calls can fail", tester)
	}
}

func TestBeginPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.leaves(1)
		time.Sleep(turnLease)
		r := h.runner(func(c *transcript.TurnsConfig) {
			c.EndProcesses = func(context.Context, access.ConversationID, int64) error { panic("the host's own") }
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			_, _ = r.Begin(t.Context(), talk)
		}()
		closeTurn(t, h.begins(h.runner()))
	})
}

// Case 3: of two runners one acts, and the other is told who does; case 23: the right to is a value of its own, not whose object was there first.
func TestOneRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		one, two := h.runner(), h.runner()
		turn := h.begins(one)
		for _, r := range []*runner{one, two} {
			held := (*session.HeldError)(nil)
			if _, err := r.Begin(t.Context(), talk); !errors.As(err, &held) || held.Holder != string(turn.ID()) {
				t.Errorf("a second turn: %v", err)
			}
		}
		if _, err := two.store.Commit(t.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{question("x")}}); !errors.Is(err, transcript.ErrInTurn) {
			t.Errorf("without a turn: %v", err)
		}
		if !h.admit(transcript.NewInput{Entry: question("enqueued"), Lane: steer}).InTurn {
			t.Error("who enqueues is not told of the turn")
		}
		time.Sleep(time.Hour) // it renews itself
		if cause := context.Cause(turn.Context()); cause != nil {
			t.Errorf("it ended for %v", cause)
		}
		if n := strings.Count(strings.Join(one.called(), " "), "renew"); n < 175 || n > 185 {
			t.Errorf("renewed %d times, want three times a minute", n)
		}
		closeTurn(t, turn)
		closeTurn(t, turn) // again
		next := h.begins(two)
		if next.Fence() <= turn.Fence() || next.ID() == turn.ID() {
			t.Errorf("turn %d after %d", next.Fence(), turn.Fence())
		}
		if _, err := turn.Commit(t.Context(), transcript.Change{Append: []transcript.NewEntry{question("late")}}); !errors.Is(err, transcript.ErrFenced) || !errors.Is(err, session.ErrClosed) {
			t.Errorf("the first one, late: %v", err)
		}
		closeTurn(t, next)
	})
}

func TestTurnChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		ctx := t.Context()
		for what, edit := range map[string]func(*transcript.TurnsConfig){
			"Store": func(c *transcript.TurnsConfig) { c.Store = nil }, "Inbox": func(c *transcript.TurnsConfig) { c.Inbox = nil },
			"Leases": func(c *transcript.TurnsConfig) { c.Leases = nil }, "Lease": func(c *transcript.TurnsConfig) { c.Lease = time.Second - 1 },
			"Replica": func(c *transcript.TurnsConfig) { c.Replica = "\x00" },
		} {
			c := transcript.TurnsConfig{Store: h.db.Transcripts(), Inbox: h.db.Inbox(), Leases: h.db.Leases()}
			edit(&c)
			if _, err := transcript.NewTurns(c); fieldOf(err) != what {
				t.Errorf("without a %s: %v", what, err)
			}
		}
		r := h.runner()
		if _, err := r.Begin(ctx, ""); fieldOf(err) != "conversation" {
			t.Errorf("of no conversation: %v", err)
		}
		if _, err := r.Begin(ctx, talk); !errors.Is(err, transcript.ErrNotFound) {
			t.Errorf("of one that is not there: %v", err)
		}
		h.create()
		h.commit(transcript.Change{Status: transcript.Archived})
		h.running[0] = true
		if _, err := r.Begin(ctx, talk); !errors.Is(err, transcript.ErrArchived) {
			t.Errorf("of one that is archived: %v", err)
		}
		h.commit(transcript.Change{Status: transcript.Active})
		if slices.Contains(r.called(), "end processes") {
			t.Error("though there never was a turn, its processes were ended")
		}
		turn := h.begins(r)
		for field, c := range map[string]transcript.Change{
			"Begin": {Begin: true}, "End": {End: true}, "Conversation": {Conversation: "another"}, "Fence": {Fence: turn.Fence() + 1},
		} {
			if _, err := turn.Commit(ctx, c); fieldOf(err) != field {
				t.Errorf("with a %s: %v", field, err)
			}
		}
		if _, err := turn.Commit(ctx, transcript.Change{EndIdle: true}); fieldOf(err) != "End" {
			t.Errorf("with an end: %v", err)
		}
		closeTurn(t, turn)
	})
}

// fieldOf is the field that an error names.
func fieldOf(err error) string {
	field, ok := errors.AsType[*access.FieldError](err)
	if !ok {
		return ""
	}
	return field.Field
}
