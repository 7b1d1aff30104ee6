package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const talk = access.ConversationID("talk")

// place is a store and an inbox that ring a hub, and the store without it,
// which is what another process has.
type place struct {
	t      *testing.T
	hub    *transcript.Hub
	store  transcript.Store
	inbox  transcript.Inbox
	others transcript.Store
}

func newPlace(t *testing.T) place {
	db, hub := memory.New(nil), transcript.NewHub()
	p := place{t, hub, transcript.Ringing(db.Transcripts(), hub), transcript.RingingInbox(db.Inbox(), hub), db.Transcripts()}
	if _, err := p.store.Create(t.Context(), talk); err != nil {
		t.Fatal(err)
	}
	return p
}

func user(id transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(string(id))}}
}

func (p place) append(s transcript.Store, ids ...transcript.EntryID) {
	p.t.Helper()
	for _, id := range ids {
		if _, err := s.Commit(p.t.Context(), transcript.Change{Conversation: talk, Append: []transcript.NewEntry{user(id)}}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// follower is somebody who follows, and writes down what there is.
type follower struct {
	mu   sync.Mutex
	seen []string
	err  error
	gone chan struct{}
}

// follow begins to follow. each is called with everything that is seen; false ends it.
func (p place) follow(ctx context.Context, after int64, each func(string) bool) *follower {
	f := &follower{gone: make(chan struct{})}
	go func() {
		defer close(f.gone)
		for e, err := range transcript.Follow(ctx, p.store, p.hub, talk, after) {
			said := ""
			switch {
			case err != nil:
				f.err = err
				return
			case e.Synced:
				said = "synced"
			case e.Fact != nil:
				said = string(e.Fact.Kind) + " " + string(e.Fact.Entry)
			case e.Progress != nil:
				said = fmt.Sprintf("%s %s %s", e.Progress.Phase, e.Progress.Call.ID, e.Progress.Data)
			}
			f.mu.Lock()
			f.seen = append(f.seen, said)
			f.mu.Unlock()
			if each != nil && !each(said) {
				return
			}
		}
	}()
	return f
}

func (f *follower) saw(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.seen, want) {
		t.Errorf("seen: %q, want %q", f.seen, want)
	}
}

// A follower sees what there was, then one mark, then what comes, at once
// where it is rung for; another's writes it sees by looking; and ctx's cause ends it.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.append(p.store, "a", "b")
		ctx, cancel := context.WithCancelCause(t.Context())
		f, late := p.follow(ctx, 0, nil), p.follow(ctx, 1, nil)
		f.saw(t, "entry_appended a", "entry_appended b", "synced")
		late.saw(t, "entry_appended b", "synced")
		p.append(p.store, "c")
		f.saw(t, "entry_appended a", "entry_appended b", "synced", "entry_appended c")
		if _, err := p.inbox.Admit(ctx, talk, transcript.NewInput{Entry: user("i"), Lane: steer}, 9); err != nil {
			t.Fatal(err)
		}
		if _, err := p.inbox.ChangeInput(ctx, talk, "i", transcript.InputCommand{Cancel: true}); err != nil {
			t.Fatal(err)
		}
		want := []string{"entry_appended a", "entry_appended b", "synced", "entry_appended c", "input_changed i", "input_changed i"}
		f.saw(t, want...)
		p.append(p.others, "d") // nothing rings for it
		f.saw(t, want...)
		time.Sleep(transcript.PollEvery)
		want = append(want, "entry_appended d")
		f.saw(t, want...)
		late.saw(t, want[1:]...)
		enough := errors.New("enough")
		cancel(enough)
		<-f.gone
		<-late.gone
		if !errors.Is(f.err, enough) || !errors.Is(late.err, enough) {
			t.Errorf("ended with %v and %v, want the cause", f.err, late.err)
		}
	})
}

// However much there is, it is read page by page, each fact once and in order;
// what is written meanwhile comes after it, and only then the mark.
func TestFollowCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		n := 2*transcript.MaxListed + 7
		var want []string
		for i := range n {
			id := transcript.EntryID(fmt.Sprint("e", i))
			if i < n-1 {
				p.append(p.others, id)
			}
			want = append(want, "entry_appended "+string(id))
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := p.follow(ctx, 0, func(said string) bool {
			if said == want[10] {
				p.append(p.store, transcript.EntryID(fmt.Sprint("e", n-1)))
			}
			return true
		})
		f.saw(t, append(want, "synced")...)
		cancel()
		<-f.gone
	})
}

// Who is slow misses rings and some of what is not kept, never a fact, and
// holds up nobody.
func TestFollowSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		ctx, cancel := context.WithCancel(t.Context())
		reads := make(chan struct{})
		f := p.follow(ctx, 0, func(said string) bool {
			if said != "synced" {
				<-reads
			}
			return true
		})
		f.saw(t, "synced")
		const many = 1000
		var want []string
		for i := range many {
			id := transcript.EntryID(fmt.Sprint("e", i))
			p.append(p.store, id)
			want = append(want, "entry_appended "+string(id))
			data, err := json.Marshal(i)
			if err != nil {
				t.Fatal(err)
			}
			p.hub.Publish(talk, transcript.Progress{Entry: "x", Call: transcript.Call{ID: "c"}, Phase: transcript.PhaseProgress, Data: data})
		}
		close(reads)
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		var facts, live []string
		for _, said := range f.seen[1:] {
			if said[0] == 'e' {
				facts = append(facts, said)
			} else {
				live = append(live, said)
			}
		}
		if !slices.Equal(facts, want) {
			t.Errorf("%d facts were seen of %d", len(facts), len(want))
		}
		if n := len(live); n < 200 || n > 300 || live[n-1] != fmt.Sprintf("progress c %d", many-1) {
			t.Errorf("%d of what is not kept were seen, the last %q: want the newest few hundred", n, live[n-1])
		}
		cancel()
	})
}

// Whoever looks on sees the whole call in every phase. (item 6)
func TestProgressHasTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := transcript.NewHub()
		w := hub.Watch(talk)
		defer w.Close()
		call := transcript.Call{ID: "c", Name: "run", Arguments: json.RawMessage(`{"command":"ls"}`), Status: transcript.CallRunning}
		for _, phase := range []transcript.Phase{transcript.PhaseStarted, transcript.PhaseProgress, transcript.PhaseSettled} {
			if phase == transcript.PhaseSettled {
				call.Status, call.Result = transcript.CallSucceeded, json.RawMessage(`"done"`)
			}
			hub.Publish("another", transcript.Progress{Entry: "e", Call: transcript.Call{ID: "other"}, Phase: phase})
			hub.Publish(talk, transcript.Progress{Entry: "e", Call: call, Phase: phase, Data: json.RawMessage(`1`)})
			got := <-w.Live
			if got.Entry != "e" || got.Phase != phase || got.Call.ID != "c" || got.Call.Name != "run" || string(got.Call.Arguments) != `{"command":"ls"}` || got.Call.Status != call.Status ||
				string(got.Call.Result) != string(call.Result) {
				t.Errorf("%s: got %+v", phase, got)
			}
		}
	})
}

// A caller that breaks off, and one whose conversation goes away, leave nothing behind.
func TestFollowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		p.append(p.store, "a", "b")
		for _, at := range []string{"entry_appended a", "synced", "progress c null"} {
			f := p.follow(t.Context(), 0, func(said string) bool { return said != at })
			synctest.Wait()
			p.hub.Publish(talk, transcript.Progress{Call: transcript.Call{ID: "c"}, Phase: transcript.PhaseProgress, Data: json.RawMessage("null")})
			<-f.gone
			if f.err != nil || f.seen[len(f.seen)-1] != at {
				t.Errorf("%q: ended with %v after %q", at, f.err, f.seen)
			}
		}
		f := p.follow(t.Context(), 0, nil)
		synctest.Wait()
		if _, err := p.store.Commit(t.Context(), transcript.Change{Conversation: talk, Status: transcript.Deleted}); err != nil {
			t.Fatal(err)
		}
		<-f.gone
		if !errors.Is(f.err, transcript.ErrNotFound) {
			t.Errorf("ended with %v, want ErrNotFound", f.err)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("why")
		cancel(cause)
		f = p.follow(ended, 0, nil)
		<-f.gone
		if !errors.Is(f.err, cause) || len(f.seen) > 0 {
			t.Errorf("with a context that has ended: %v after %q", f.err, f.seen)
		}
	})
}
