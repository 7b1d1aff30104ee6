//go:build linux

package crash

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// takesOver is the next turn, after a process that has died: it finds what was
// left open, closes it, and cannot do so twice; and the one that is dead, if it lived still, could write nothing more.
func takesOver(t *testing.T, db talkDB, c access.ConversationID, was said) {
	t.Helper()
	ctx, store := t.Context(), db.Transcripts()
	fence := was.Row.Fence + 1
	commit := func(change transcript.Change) transcript.Committed {
		t.Helper()
		change.Conversation = c
		done, err := store.Commit(ctx, change)
		if err != nil {
			t.Fatalf("%s: %+v: %v", c, change, err)
		}
		return done
	}
	began := commit(transcript.Change{Fence: fence, Begin: true})
	open, err := store.Unsettled(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was.Open.Calls, open.Calls, cmpopts.EquateEmpty()) + cmp.Diff(was.Open.Draft, open.Draft); diff != "" {
		t.Errorf("%s: what was left open (-want +got)\n%s", c, diff)
	}
	closes := transcript.Change{Fence: fence}
	want := []transcript.Fact{}
	for _, o := range open.Calls {
		closes.Settle = append(closes.Settle, transcript.Settlement{CallAddress: transcript.CallAddress{Entry: o.Entry, Call: o.Call.ID}, Status: transcript.CallInterrupted})
		whole := o.Call
		whole.Status = transcript.CallInterrupted
		want = append(want, transcript.Fact{Kind: transcript.FactCallSettled, Entry: o.Entry, Call: &whole})
	}
	if open.Draft != nil {
		closes.Abort = []transcript.EntryID{open.Draft.ID}
		want = append(want, transcript.Fact{Kind: transcript.FactAborted, Entry: open.Draft.ID})
	}
	closed := commit(closes)
	if again := commit(closes); again.Transcript.LastSeq != closed.Transcript.LastSeq {
		t.Errorf("%s: what was closed is closed again: %+v, was %+v", c, again.Transcript, closed.Transcript)
	}
	late := transcript.Change{Conversation: c, Fence: fence - 1, Append: []transcript.NewEntry{{ID: "late", Kind: transcript.KindMarker}}}
	refusal := transcript.ErrFenced
	if late.Fence == 0 {
		refusal = transcript.ErrInTurn
	}
	if _, err := store.Commit(ctx, late); !errors.Is(err, refusal) {
		t.Errorf("%s: what came late is answered %v, want %v", c, err, refusal)
	}
	ended := commit(transcript.Change{Fence: fence, End: true})
	want = append(want, transcript.Fact{Kind: transcript.FactTurnEnded, Fence: fence})
	news, err := store.Since(ctx, c, began.Transcript.LastSeq, transcript.MaxListed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, news.Facts, cmpopts.IgnoreFields(transcript.Fact{}, "Seq"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s: what has happened (-want +got)\n%s", c, diff)
	}
	is, _ := listen(t, db, c)
	if len(is.Open.Calls) > 0 || is.Open.Draft != nil || is.Row.InTurn || is.Row.LastSeq != ended.Transcript.LastSeq {
		t.Errorf("%s is left with %+v, %+v", c, is.Row, is.Open)
	}
	for _, in := range is.Inputs {
		if in.State == transcript.InputClaimed {
			t.Errorf("%s: %s is claimed still, by a turn that is dead", c, in.Entry.ID)
		}
	}
	left, err := store.Unfinished(ctx, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range left {
		if other == c {
			t.Errorf("%s is listed as unfinished", c)
		}
	}
}
