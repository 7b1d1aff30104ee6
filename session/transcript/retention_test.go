package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session/transcript"
)

const day = 24 * time.Hour

// kept is a store of which a call for a conversation can be met before it is made.
type kept struct {
	transcript.Store
	db   *memory.DB
	meet func(call string, c access.ConversationID) error
}

func newKept() *kept {
	db := memory.New(nil)
	return &kept{Store: db.Transcripts(), db: db, meet: func(string, access.ConversationID) error { return nil }}
}

func (k *kept) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	if err := k.meet("commit", c.Conversation); err != nil {
		return transcript.Committed{}, err
	}
	return k.Store.Commit(ctx, c)
}

func (k *kept) Forget(ctx context.Context, c access.ConversationID, older time.Duration, limit int) (transcript.Forgotten, error) {
	if err := k.meet("forget", c); err != nil {
		return transcript.Forgotten{}, err
	}
	return k.Store.Forget(ctx, c, older, limit)
}

func (k *kept) Index(ctx context.Context, c access.ConversationID, limit int) (int, error) {
	if err := k.meet("index", c); err != nil {
		return 0, err
	}
	return k.Store.Index(ctx, c, limit)
}

// talks makes a conversation with one entry and some labels.
func (k *kept) talks(t *testing.T, c access.ConversationID, labels int) {
	t.Helper()
	if _, err := k.Store.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	change := transcript.Change{Conversation: c, Append: []transcript.NewEntry{say(transcript.KindUser, "a", "hello")}}
	for i := range labels {
		change.Labels = append(change.Labels, transcript.LabelChange{Entry: "a", Label: fmt.Sprint("l", i)})
	}
	k.does(t, change)
}

func (k *kept) does(t *testing.T, c transcript.Change) {
	t.Helper()
	if _, err := k.Store.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// status is what a conversation is, "" where it is not there.
func (k *kept) status(t *testing.T, c access.ConversationID) transcript.Status {
	t.Helper()
	row, err := k.Store.Load(t.Context(), c)
	if errors.Is(err, transcript.ErrNotFound) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return row.Status
}

func (k *kept) facts(t *testing.T, c access.ConversationID) (n int) {
	t.Helper()
	page, err := k.Store.Since(t.Context(), c, 0, transcript.MaxListed)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range page.Facts {
		if f.Kind == transcript.FactLabelled {
			n++
		}
	}
	return n
}

func retains(t *testing.T, c transcript.RetentionConfig) *transcript.Retention {
	t.Helper()
	r, err := transcript.NewRetention(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What was left alone for long enough is archived, then deleted, then purged; what is in use, or is not to be, is not. (case 8)
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		for _, c := range []access.ConversationID{"alone", "by hand", "turn", "waits", "asked", "imports"} {
			if c != "imports" {
				k.talks(t, c, 3)
			}
		}
		if _, err := k.Create(t.Context(), "imports"); err != nil {
			t.Fatal(err)
		}
		k.does(t, transcript.Change{Conversation: "imports", Status: transcript.Importing})
		k.does(t, transcript.Change{Conversation: "by hand", Status: transcript.Archived})
		k.does(t, transcript.Change{Conversation: "turn", Fence: 1, Begin: true})
		late := transcript.NewInput{Entry: say(transcript.KindUser, "b", "later"), Lane: transcript.LaneSteer, Wait: 1000 * day}
		if _, err := k.db.Inbox().Admit(t.Context(), "waits", late, 10); err != nil {
			t.Fatal(err)
		}
		var asked []string
		r := retains(t, transcript.RetentionConfig{
			Store: k, Inbox: k.db.Inbox(), Archive: 10 * day, Delete: 20 * day, Imports: 12 * time.Hour,
			Allow: func(_ context.Context, row transcript.Transcript, to transcript.Status) (bool, error) {
				asked = append(asked, fmt.Sprintf("%s %s", row.Conversation, to))
				return row.Conversation != "asked", nil
			},
		})
		type ids = []access.ConversationID
		began := time.Now()
		for _, step := range []struct {
			at   time.Duration
			want transcript.Retained
		}{
			{0, transcript.Retained{Done: true}},
			{12 * time.Hour, transcript.Retained{Deleted: ids{"imports"}, Done: true}},
			{9 * day, transcript.Retained{Done: true}},
			{10 * day, transcript.Retained{Archived: ids{"alone"}, Done: true}},
			{20 * day, transcript.Retained{Deleted: ids{"by hand"}, Done: true}},
			{29 * day, transcript.Retained{Done: true}},
			{30 * day, transcript.Retained{Deleted: ids{"alone"}, Done: true}},
			{90 * day, transcript.Retained{Done: true}},
		} {
			time.Sleep(step.at - time.Since(began))
			asked = nil
			got, err := r.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rows := len(got.Deleted) > 0; rows != (got.Rows > 0) {
				t.Errorf("after %v: %d rows were purged", step.at, got.Rows)
			}
			got.Rows = 0
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("after %v: %s", step.at, diff)
			}
			if want := step.at >= 10*day; slices.Contains(asked, "asked archived") != want || slices.Contains(asked, "turn archived") || slices.Contains(asked, "waits archived") {
				t.Errorf("after %v: asked for %q", step.at, asked)
			}
		}
		got := map[access.ConversationID]transcript.Status{}
		for _, c := range []access.ConversationID{"alone", "by hand", "turn", "waits", "asked", "imports"} {
			got[c] = k.status(t, c)
		}
		want := map[access.ConversationID]transcript.Status{"alone": "", "by hand": "", "turn": transcript.Active, "waits": transcript.Active, "asked": transcript.Active, "imports": ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Of what has no age nothing is removed, but what was deleted and an import that nothing has come of for a day.
func TestRetentionOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, "active", 2)
		k.talks(t, "archived", 2)
		k.does(t, transcript.Change{Conversation: "archived", Status: transcript.Archived})
		k.talks(t, "deleted", 2)
		k.does(t, transcript.Change{Conversation: "deleted", Status: transcript.Deleted})
		if _, err := k.Create(t.Context(), "imports"); err != nil {
			t.Fatal(err)
		}
		k.does(t, transcript.Change{Conversation: "imports", Status: transcript.Importing})
		r := retains(t, transcript.RetentionConfig{Store: k})
		time.Sleep(day - 1)
		got, err := r.Run(t.Context())
		if err != nil || got.Rows == 0 || len(got.Deleted) > 0 {
			t.Errorf("within a day: got %+v, %v", got, err)
		}
		time.Sleep(1000 * day)
		got, err = r.Run(t.Context())
		if err != nil || !slices.Equal(got.Deleted, []access.ConversationID{"imports"}) || len(got.Archived)+got.Facts > 0 {
			t.Errorf("later: got %+v, %v", got, err)
		}
		if k.status(t, "active") != transcript.Active || k.status(t, "archived") != transcript.Archived || k.facts(t, "active") != 2 {
			t.Errorf("it is %s and %s", k.status(t, "active"), k.status(t, "archived"))
		}
	})
}

// Without an inbox to ask, what an input waits in is left alone too.
func TestRetentionLeavesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, "waits", 1)
		in := transcript.NewInput{Entry: say(transcript.KindUser, "b", "said"), Lane: transcript.LaneSteer}
		if _, err := k.db.Inbox().Admit(t.Context(), "waits", in, 10); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * day)
		got, err := retains(t, transcript.RetentionConfig{Store: k, Archive: day}).Run(t.Context())
		if err != nil || len(got.Archived) > 0 || !got.Done || k.status(t, "waits") != transcript.Active {
			t.Errorf("got %+v, %v: it is %s", got, err, k.status(t, "waits"))
		}
	})
}

// What happened long ago is forgotten wherever it happened, also where much has happened since; so are the inputs that went with it. (case 7)
func TestRetentionOfFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKept()
		k.talks(t, "busy", 3)
		k.talks(t, "idle", 5)
		in := transcript.NewInput{Entry: say(transcript.KindUser, "b", "said"), Lane: transcript.LaneSteer}
		if _, err := k.db.Inbox().Admit(t.Context(), "busy", in, 10); err != nil {
			t.Fatal(err)
		}
		k.does(t, transcript.Change{Conversation: "busy", Append: []transcript.NewEntry{in.Entry}, Promote: []transcript.EntryID{"b"}})
		k.does(t, transcript.Change{Conversation: "idle", Status: transcript.Archived})
		time.Sleep(8 * day)
		k.does(t, transcript.Change{Conversation: "busy", Labels: []transcript.LabelChange{{Entry: "a", Label: "new"}}})
		r := retains(t, transcript.RetentionConfig{Store: k, Facts: 7 * day})
		got, err := r.Run(t.Context())
		if err != nil || got.Inputs != 1 || got.Facts < 9 || !got.Done {
			t.Errorf("got %+v, %v", got, err)
		}
		if k.facts(t, "busy") != 1 || k.facts(t, "idle") != 0 {
			t.Errorf("%d and %d labels are told of", k.facts(t, "busy"), k.facts(t, "idle"))
		}
	})
}

// A run does no more than its limit, of anything, and the next goes on where it has stopped, to the end; then it begins anew.
func TestRetentionInStretches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const talks, labels, limit = 23, 9, 5
		k := newKept()
		for i := range talks {
			k.talks(t, access.ConversationID(fmt.Sprintf("talk %02d", i)), labels)
			if i%2 == 1 {
				k.does(t, transcript.Change{Conversation: access.ConversationID(fmt.Sprintf("talk %02d", i)), Status: transcript.Archived})
			}
		}
		time.Sleep(30 * day)
		r := retains(t, transcript.RetentionConfig{Store: k, Facts: day, Archive: day, Delete: day, Limit: limit})
		var all transcript.Retained
		for round := range 2 {
			for runs := 0; ; runs++ {
				got, err := r.Run(t.Context())
				if err != nil || got.Facts > limit || got.Rows > limit || len(got.Archived)+len(got.Deleted) > limit {
					t.Fatalf("got %+v, %v", got, err)
				}
				all.Archived, all.Deleted = append(all.Archived, got.Archived...), append(all.Deleted, got.Deleted...)
				all.Facts, all.Rows = all.Facts+got.Facts, all.Rows+got.Rows
				if got.Done {
					break
				}
				if runs > 1000 {
					t.Fatal("it does not end")
				}
			}
			if n, err := k.Purge(t.Context(), 1); n > 0 || err != nil {
				t.Errorf("round %d: something is left to be purged, %v", round, err)
			}
			slices.Sort(all.Archived)
			slices.Sort(all.Deleted)
			if len(slices.Compact(all.Archived)) != talks-talks/2 || len(slices.Compact(all.Deleted)) != talks/2 {
				t.Errorf("round %d: %d archived, %d deleted", round, len(all.Archived), len(all.Deleted))
			}
			if min := (talks - talks/2) * labels; all.Facts < min || all.Rows < talks/2 {
				t.Errorf("round %d: %d facts and %d rows, want %d and more", round, all.Facts, all.Rows, min)
			}
		}
	})
}

// A round is done once all that was deleted is purged.
func TestRetentionPurges(t *testing.T) {
	k := newKept()
	k.talks(t, "gone", 0)
	for i := range 20 {
		k.does(t, transcript.Change{Conversation: "gone", Append: []transcript.NewEntry{say(transcript.KindUser, transcript.EntryID(fmt.Sprint("e", i)), "x")}})
	}
	k.does(t, transcript.Change{Conversation: "gone", Status: transcript.Deleted})
	r, rows := retains(t, transcript.RetentionConfig{Store: k, Limit: 6}), 0
	for done := false; !done; {
		got, err := r.Run(t.Context())
		if err != nil || got.Done != (got.Rows < 6) {
			t.Fatalf("got %+v, %v", got, err)
		}
		done, rows = got.Done, rows+got.Rows
	}
	if rows < 21 {
		t.Errorf("%d rows were purged", rows)
	}
}
