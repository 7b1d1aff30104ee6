package transcript_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func said(inputs []transcript.Input) string {
	var words []string
	for _, in := range inputs {
		words = append(words, string(in.Entry.ID))
	}
	return strings.Join(words, " ")
}

func saying(id transcript.EntryID, lane transcript.Lane) transcript.NewInput {
	return transcript.NewInput{Entry: question(id), Lane: lane}
}

// next delivers at a boundary of a turn and says it.
func next(t testing.TB, turn *transcript.Turn, stop bool) string {
	t.Helper()
	inputs, err := turn.Deliver(t.Context(), stop)
	if err != nil {
		t.Fatalf("Deliver: %v", err)
	}
	if _, err := turn.Promote(t.Context(), inputs...); err != nil {
		t.Fatalf("Promote(%s): %v", said(inputs), err)
	}
	return said(inputs)
}

func (h *host) path() (ids []transcript.EntryID) {
	h.t.Helper()
	page, err := h.db.Transcripts().Path(context.Background(), transcript.PathQuery{Conversation: talk, Limit: 1000})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range slices.Backward(page.Entries) {
		ids = append(ids, e.ID)
	}
	return ids
}

// Cases 30, 31 and 33: a loop of tool calls takes up what is for it, in order; follow-ups wait for its end, and a
// barrier keeps back what came after it.
func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		turn := h.begins(h.runner())
		h.admit(saying("then", follow))
		h.admit(saying("wait", steer))
		h.admit(saying("no", steer))
		h.admit(saying("compact", transcript.LaneBarrier))
		h.admit(saying("typed meanwhile", steer))
		h.admit(saying("and then", follow))
		var got []string
		for _, stop := range []bool{false, false, false, false, true, true, true} {
			got = append(got, next(t, turn, stop))
		}
		if d := cmp.Diff([]string{"wait no", "compact", "typed meanwhile", "", "then", "and then", ""}, got); d != "" {
			t.Errorf("delivered: %s", d)
		}
		if d := cmp.Diff([]transcript.EntryID{"wait", "no", "compact", "typed meanwhile", "then", "and then"}, h.path()); d != "" {
			t.Errorf("said: %s", d)
		}
		if e, err := h.db.Transcripts().Get(t.Context(), talk, "no"); err != nil || e[0].Turn != turn.ID() {
			t.Errorf("got %+v, %v", e, err)
		}
		if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("Finish: %v, %v", waiting, err)
		}
	})
}

func TestDeliverSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		turn := h.begins(h.runner(func(c *transcript.TurnsConfig) { c.Single = true }))
		h.admit(saying("a", steer))
		h.admit(saying("b", steer))
		if got := next(t, turn, false); got != "a" {
			t.Errorf("said %q", got)
		}
		closeTurn(t, turn)
	})
}

// What is for another place than the head is said there, and in a commit of its own.
func TestPromoteElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		h.commit(transcript.Change{Append: []transcript.NewEntry{question("a"), question("b"), question("c")}})
		h.commit(transcript.Change{Refs: []transcript.RefChange{{Name: "branch", To: transcript.After("b")}}})
		turn := h.begins(h.runner())
		to := func(id transcript.EntryID, place func(*transcript.NewInput)) {
			in := saying(id, steer)
			place(&in)
			h.admit(in)
		}
		to("head", func(*transcript.NewInput) {})
		to("after a", func(in *transcript.NewInput) { in.After = transcript.After("a") })
		to("branch", func(in *transcript.NewInput) { in.Ref = "branch" })
		to("branch too", func(in *transcript.NewInput) { in.Ref = "branch" })
		to("new ref", func(in *transcript.NewInput) { in.Ref = "new" })
		all, err := h.db.Inbox().Inputs(t.Context(), talk, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Promote(t.Context(), all...); fieldOf(err) != "inputs" {
			t.Errorf("for many places at once: %v", err)
		}
		for _, want := range []string{"head: a b c head", "after a: a after a", "branch branch too: a b branch branch too", "new ref: a b branch branch too new ref"} {
			said := next(t, turn, false)
			if got := said + ": " + strings.Trim(fmt.Sprint(h.path()), "[]"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		refs, err := h.db.Transcripts().Refs(t.Context(), talk)
		if d := cmp.Diff([]transcript.Ref{{Name: "branch", At: transcript.After("branch too"), Version: 2}, {Name: "new", At: transcript.After("new ref"), Version: 1}}, refs); d != "" || err != nil {
			t.Errorf("refs: %s, %v", d, err)
		}
		if done, err := turn.Promote(t.Context()); err != nil || len(done.Seqs) > 0 {
			t.Errorf("of nothing: %+v, %v", done, err)
		}
		closeTurn(t, turn)
	})
}
