package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// onlooker follows until it has seen something of a call, and remembers only that.
func (p place) onlooker(ctx context.Context, after int64, wants func(transcript.Event) *transcript.Call) <-chan transcript.Call {
	seen := make(chan transcript.Call, 1)
	go func() {
		defer close(seen)
		for e, err := range transcript.Follow(ctx, p.store, p.hub, talk, after) {
			if err != nil {
				return
			}
			if call := wants(e); call != nil {
				seen <- *call
				return
			}
		}
	}()
	return seen
}

// Who has seen nothing of a call but that it was started, or a single word of its progress, or
// that it was settled, knows what was called and with what, however late it has come; and what
// happens meanwhile is not kept. (item 6, case 7)
func TestWhoeverLooksOnKnowsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ctx := newPlace(t), t.Context()
		arguments := json.RawMessage(`{"command":"make","at":[1,2]}`)
		work := transcript.NewEntry{ID: "work", Kind: transcript.KindAssistant, Parts: []transcript.Part{
			transcript.TextPart("I build it"), {Type: transcript.PartCall, Call: &transcript.Call{ID: "c", Name: "run", Arguments: arguments}},
		}}
		at := transcript.CallAddress{Entry: "work", Call: "c"}
		commit := func(c transcript.Change) int64 {
			t.Helper()
			c.Conversation = talk
			done, err := p.store.Commit(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			return done.Transcript.LastSeq
		}
		ofFact := func(kind transcript.FactKind) func(transcript.Event) *transcript.Call {
			return func(e transcript.Event) *transcript.Call {
				if e.Fact == nil || e.Fact.Kind != kind || e.Fact.Entry != "work" {
					return nil
				}
				return e.Fact.Call
			}
		}
		ofProgress := func(e transcript.Event) *transcript.Call {
			if e.Progress == nil || e.Progress.Entry != "work" || e.Progress.Phase != transcript.PhaseProgress {
				return nil
			}
			return &e.Progress.Call
		}
		knows := func(who string, seen <-chan transcript.Call, status transcript.CallStatus) {
			t.Helper()
			synctest.Wait()
			want := transcript.Call{ID: "c", Name: "run", Arguments: arguments, Status: status}
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Errorf("%s (-want +got)\n%s", who, diff)
			}
		}

		added := commit(transcript.Change{Append: []transcript.NewEntry{work}})
		early := p.onlooker(ctx, added, ofFact(transcript.FactCallStarted))
		synctest.Wait()
		started := commit(transcript.Change{Start: []transcript.CallAddress{at}})
		knows("who has seen it start", early, transcript.CallRunning)

		running := *work.Parts[1].Call
		running.Status = transcript.CallRunning
		says := func(what string) {
			p.hub.Publish(talk, transcript.Progress{Entry: "work", Call: running, Phase: transcript.PhaseProgress, Data: json.RawMessage(`"` + what + `"`)})
		}
		says("10%") // nobody hears it
		late := p.onlooker(ctx, started, ofProgress)
		synctest.Wait()
		says("90%")
		knows("who has come late, and heard one word", late, transcript.CallRunning)
		if row, err := p.store.Load(ctx, talk); err != nil || row.LastSeq != started {
			t.Errorf("what happens meanwhile is kept: %+v, %v", row, err)
		}

		settled := commit(transcript.Change{Settle: []transcript.Settlement{{CallAddress: at, Status: transcript.CallFailed, Result: []byte(`{"exit":2}`)}}})
		knows("who reads afterwards that it was settled", p.onlooker(ctx, settled-1, ofFact(transcript.FactCallSettled)), transcript.CallFailed)
		knows("who reads afterwards that it was started", p.onlooker(ctx, 0, ofFact(transcript.FactCallStarted)), transcript.CallRunning)
	})
}

// A store, and a row that it has answered with, hold nothing: any number of
// them write by turns, what was read long ago stays as it was, and who may write is told by the fence
// that the change names, not by who has begun the turn. (case 23)
func TestHandlesAreValues(t *testing.T) {
	db, ctx := memory.New(nil), t.Context()
	one, two := db.Transcripts(), db.Transcripts()
	old, err := one.Create(ctx, talk)
	if err != nil {
		t.Fatal(err)
	}
	kept := old
	write := func(s transcript.Store, c transcript.Change, id transcript.EntryID, want error) {
		t.Helper()
		c.Conversation, c.Append = talk, []transcript.NewEntry{user(id)}
		if _, err := s.Commit(ctx, c); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", id, err, want)
		}
	}
	for i, s := range []transcript.Store{two, one, two, db.Transcripts(), one} {
		write(s, transcript.Change{}, transcript.EntryID('a'+rune(i)), nil)
	}
	if diff := cmp.Diff(kept, old); diff != "" {
		t.Errorf("a row that was read has changed: %s", diff)
	}
	write(one, transcript.Change{Fence: 1, Begin: true}, "begins", nil)
	write(one, transcript.Change{}, "without the fence", transcript.ErrInTurn)
	write(two, transcript.Change{Fence: 1}, "by another handle", nil)
	write(db.Transcripts(), transcript.Change{Fence: 1, End: true}, "by one more, which ends it", nil)
	write(one, transcript.Change{Fence: 1}, "too late", transcript.ErrFenced)
	write(two, transcript.Change{}, "of no turn", nil)
}
