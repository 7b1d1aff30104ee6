package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// What somebody has gone on with since it was found is left alone, and that is no failure.
func TestRetentionOfWhatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, "said", 1)
		k.talks(t, "turned", 1)
		k.talks(t, "deleted", 1)
		time.Sleep(30 * day)
		k.meet = func(call string, c access.ConversationID) error {
			switch change := (transcript.Change{Conversation: c}); c {
			case "said":
				change.Append = []transcript.NewEntry{say(transcript.KindUser, "b", "wait")}
				k.does(t, change)
			case "turned":
				change.Fence, change.Begin = 1, true
				k.does(t, change)
			case "deleted":
				change.Status = transcript.Deleted
				k.does(t, change)
			}
			return nil
		}
		got, err := retains(t, transcript.RetentionConfig{Store: k, Archive: day}).Run(t.Context())
		if err != nil || len(got.Archived) > 0 || !got.Done {
			t.Errorf("got %+v, %v", got, err)
		}
		if k.status(t, "said") != transcript.Active || k.status(t, "turned") != transcript.Active {
			t.Error("it is archived")
		}
	})
}

// What is done to a transcript while the host is asked about it counts, though it raises no version.
func TestRetentionOfWhatWasTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, "labelled", 1)
		k.talks(t, "imported", 1)
		k.does(t, transcript.Change{Conversation: "imported", Status: transcript.Deleted})
		begins := func() {
			if _, err := k.Create(t.Context(), "imported"); err != nil {
				t.Fatal(err)
			}
			k.does(t, transcript.Change{Conversation: "imported", Status: transcript.Importing})
		}
		begins()
		time.Sleep(30 * day)
		got, err := retains(t, transcript.RetentionConfig{Store: k, Archive: day, Allow: func(_ context.Context, row transcript.Transcript, _ transcript.Status) (bool, error) {
			if row.Conversation == "imported" {
				k.does(t, transcript.Change{Conversation: "imported", Status: transcript.Deleted})
				begins()
				return true, nil
			}
			k.does(t, transcript.Change{Conversation: "labelled", Labels: []transcript.LabelChange{{Entry: "a", Label: "wanted"}}})
			return true, nil
		}}).Run(t.Context())
		if err != nil || len(got.Archived)+len(got.Deleted) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		if k.status(t, "labelled") != transcript.Active || k.status(t, "imported") != transcript.Importing {
			t.Errorf("they are %s and %s", k.status(t, "labelled"), k.status(t, "imported"))
		}
	})
}

// However much is deleted, and by whomever, what grows old meanwhile is archived: nothing waits until all is purged.
func TestRetentionGoesOnWhileMuchIsPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 6
		k := newKept()
		r := retains(t, transcript.RetentionConfig{Store: k, Archive: day, Limit: limit})
		more := func(run int) {
			for i := range 4 {
				c := access.ConversationID(fmt.Sprintf("gone %02d %d", run, i))
				k.talks(t, c, 5)
				k.does(t, transcript.Change{Conversation: c, Status: transcript.Deleted})
			}
		}
		for run := range 5 { // a round ends, and what is to be purged grows
			more(run)
			if got, err := r.Run(t.Context()); err != nil || got.Done || got.Rows < limit {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
		k.talks(t, "old", 1)
		time.Sleep(2 * day)
		for run := range 3 {
			more(10 + run)
			if _, err := r.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if k.status(t, "old") != transcript.Archived {
			t.Errorf("what has grown old is %s", k.status(t, "old"))
		}
	})
}

// One that it fails with keeps it from no other, and is named; where all fail it stops, and goes on behind those.
func TestRetentionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		for i := range 30 {
			k.talks(t, access.ConversationID(fmt.Sprintf("talk %02d", i)), 1)
		}
		time.Sleep(30 * day)
		calls := 0
		k.meet = func(_ string, c access.ConversationID) error {
			if calls++; c == "talk 03" {
				return errNoConnection
			}
			return nil
		}
		config := transcript.RetentionConfig{Store: k, Archive: day}
		got, err := retains(t, config).Run(t.Context())
		if !errors.Is(err, errNoConnection) || !strings.Contains(err.Error(), "talk 03") || len(got.Archived) != 29 || !got.Done {
			t.Errorf("got %+v, %v", got, err)
		}
		k.meet = func(string, access.ConversationID) error { calls++; return errNoConnection }
		config = transcript.RetentionConfig{Store: k, Facts: day}
		r := retains(t, config)
		for _, want := range []int{10, 10, 10} {
			calls = 0
			if got, err := r.Run(t.Context()); !errors.Is(err, errNoConnection) || got.Done || calls != want {
				t.Errorf("got %+v, %v after %d calls, want %d", got, err, calls, want)
			}
		}
		k.meet = func(string, access.ConversationID) error { return nil }
		for _, want := range []int{0, 30} { // the round ends, and the next begins
			if got, err := r.Run(t.Context()); err != nil || !got.Done || got.Facts != want {
				t.Errorf("got %+v, %v, want %d facts", got, err, want)
			}
		}
		refused := errors.New("the host can't say")
		r = retains(t, transcript.RetentionConfig{Store: k, Delete: day, Allow: func(context.Context, transcript.Transcript, transcript.Status) (bool, error) { return true, refused }})
		time.Sleep(day)
		if got, err := r.Run(t.Context()); !errors.Is(err, refused) || len(got.Deleted) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A run ends with its context, and the next goes on from there.
func TestRetentionCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		for i := range 9 {
			k.talks(t, access.ConversationID(fmt.Sprint("talk ", i)), 1)
		}
		time.Sleep(30 * day)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		r := retains(t, transcript.RetentionConfig{Store: k, Archive: day, Allow: func(_ context.Context, row transcript.Transcript, _ transcript.Status) (bool, error) {
			if row.Conversation == "talk 3" {
				cancel(enough)
			}
			return row.Conversation != "talk 3", nil
		}})
		if got, err := r.Run(ctx); !errors.Is(err, enough) || len(got.Archived) != 3 || got.Done {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, err := r.Run(t.Context()); err != nil || len(got.Archived) != 5 || !got.Done {
			t.Errorf("after that: got %+v, %v", got, err)
		}
	})
}

// The chores are such that a Keeper serves, and tell in its log what they have done.
func TestRetentionAsAChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, talk, 4)
		service, err := session.New(session.Config{Store: k.db.Sessions(), Leases: k.db.Leases(), Directory: memory.NewDirectory()})
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		out := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		x, err := transcript.NewIndexing(transcript.IndexingConfig{Store: k, Log: out})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*day+time.Minute)
		defer cancel()
		r := retains(t, transcript.RetentionConfig{Store: k, Archive: 2 * day, Facts: day, Log: out})
		if err := service.Serve(ctx, r.Chore(time.Hour), x.Chore(time.Minute)); err != nil {
			t.Error(err)
		}
		if k.status(t, talk) != transcript.Archived {
			t.Error("it is not archived")
		}
		want := `level=INFO msg="transcripts indexed" entries=1 round=true
level=INFO msg="transcripts retained" archived=0 deleted=0 facts=4 inputs=0 rows=0 round=true
level=INFO msg="transcripts retained" archived=1 deleted=0 facts=0 inputs=0 rows=0 round=true
level=INFO msg="transcripts retained" archived=0 deleted=0 facts=1 inputs=0 rows=0 round=true
`
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Error(diff)
		}
	})
}

// What is wrong with a config is told by its field.
func TestRetentionConfig(t *testing.T) {
	k := newKept()
	for field, c := range map[string]transcript.RetentionConfig{
		"Store":   {},
		"Facts":   {Store: k, Facts: -1},
		"Archive": {Store: k, Archive: -1},
		"Delete":  {Store: k, Delete: -1},
		"Imports": {Store: k, Imports: -1},
		"Limit":   {Store: k, Limit: -1},
	} {
		if _, err := transcript.NewRetention(c); fieldOf(err) != field {
			t.Errorf("%s: got error %v", field, err)
		}
	}
	for field, c := range map[string]transcript.IndexingConfig{"Store": {}, "Limit": {Store: k, Limit: 2_000_000}} {
		if _, err := transcript.NewIndexing(c); fieldOf(err) != field {
			t.Errorf("%s: got error %v", field, err)
		}
	}
}
