package memory_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Ten thousand turns, each with a question, an answer that streams in and a
// call: a turn of the last thousands takes of the memory what one of the first thousands has taken. (case 27)
func TestMemoryPerTurn(t *testing.T) {
	const c, stretch = access.ConversationID("c"), 2500
	db := memory.New(nil)
	s := db.Transcripts()
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	commit := func(change transcript.Change) {
		t.Helper()
		change.Conversation = c
		if _, err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(n int) {
		fence := int64(n + 1)
		question := transcript.NewEntry{ID: transcript.EntryID(fmt.Sprint("question ", n)), Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart("what about this one?")}}
		answer := transcript.NewEntry{ID: transcript.EntryID(fmt.Sprint("answer ", n)), Kind: transcript.KindAssistant, Parts: []transcript.Part{
			{Type: transcript.PartCall, Call: &transcript.Call{ID: "call", Name: "look", Arguments: json.RawMessage(`{"at":1}`)}},
		}}
		commit(transcript.Change{Fence: fence, Begin: true, Append: []transcript.NewEntry{question}})
		commit(transcript.Change{Fence: fence, Draft: &transcript.Draft{NewEntry: answer}})
		commit(transcript.Change{Fence: fence, Append: []transcript.NewEntry{answer}})
		commit(transcript.Change{Fence: fence, End: true, Settle: []transcript.Settlement{
			{CallAddress: transcript.CallAddress{Entry: answer.ID, Call: "call"}, Status: transcript.CallSucceeded, Result: json.RawMessage(`{"exit":0}`)},
		}})
	}
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for n := range stretch {
		turn(n)
	}
	empty := heap()
	var each []float64
	for done := stretch; done < 10_000; done += stretch {
		for n := range stretch {
			turn(done + n)
		}
		each = append(each, (heap()-empty)/float64(done))
	}
	runtime.KeepAlive(db)
	t.Logf("bytes of a turn: %.0f", each)
	if each[len(each)-1] > 1.5*each[0] { // tables grow by doubling
		t.Errorf("a turn takes %.0f bytes, and more the longer it goes on", each)
	}
}
