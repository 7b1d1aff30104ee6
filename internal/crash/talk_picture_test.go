//go:build linux

package crash

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/crash/talk"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// shelf is a database with nothing but conversations, which outlives processes.
type shelf struct {
	*testing.T
	program string
	args    []string // that name the database
	open    func(context.Context) (talkDB, error)
}

// talkDB is what both drivers have.
type talkDB interface {
	Transcripts() transcript.Store
	Inbox() transcript.Inbox
	Migrate(context.Context) error
	SQL() *sql.DB
	Close() error
}

// newShelf makes a database of a backend, and migrates it.
func newShelf(t *testing.T, program string, b backend) *shelf {
	t.Helper()
	w := &world{t: t, dir: directory(t)}
	b.open(w)
	s := &shelf{T: t, program: program, args: w.database}
	s.open = func(ctx context.Context) (talkDB, error) {
		if w.postgres {
			return postgres.Open(ctx, w.database[1], &postgres.Options{Connections: 4})
		}
		return sqlite.Open(ctx, w.database[1], nil)
	}
	s.with(func(db talkDB) {
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	return s
}

// with opens the database, as a new process does, for as long as do takes.
func (s *shelf) with(do func(db talkDB)) {
	s.Helper()
	db, err := s.open(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			s.Error(err)
		}
	}()
	do(db)
}

// picture is all there is to be seen, but for when it was.
type picture struct {
	Of         map[access.ConversationID]said
	Unfinished []access.ConversationID
	Waiting    []access.ConversationID
	Rows       map[string]int // by table
}

// said is all there is to be seen of a conversation.
type said struct {
	Row      transcript.Transcript
	Timeline []transcript.Entry // with what is large
	Path     []transcript.EntryID
	Given    []transcript.Entry
	State    transcript.State
	Headers  []transcript.Header
	Refs     []transcript.Ref
	Facts    []transcript.Fact
	Open     transcript.Open
	Inputs   []transcript.Input
	Faults   []string // of Verify
}

// tables are those that transcripts and inboxes are in.
func tables() []string {
	return []string{"transcripts", "transcript_reads", "transcript_branches", "transcript_entries", "transcript_calls", "transcript_labels", "transcript_refs",
		"transcript_facts", "transcript_drafts", "transcript_blobs", "transcript_uses", "transcript_inputs"}
}

// look takes a picture.
func look(t *testing.T, db talkDB) picture {
	t.Helper()
	ctx, p := t.Context(), picture{Of: map[access.ConversationID]said{}, Rows: map[string]int{}}
	for _, c := range talk.Conversations() {
		if seen, there := listen(t, db, c); there {
			p.Of[c] = seen
		}
	}
	var err1, err2 error
	p.Unfinished, err1 = db.Transcripts().Unfinished(ctx, "", 100)
	p.Waiting, err2 = db.Inbox().Waiting(ctx, "", 100)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables() {
		var n int
		if err := db.SQL().QueryRowContext(ctx, "SELECT count(*) FROM bunkroom_"+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			p.Rows[table] = n
		}
	}
	return p
}

// listen reads all of a conversation, and fails the test if its sums are wrong.
func listen(t *testing.T, db talkDB, c access.ConversationID) (s said, there bool) {
	t.Helper()
	ctx, store := t.Context(), db.Transcripts()
	var errs [12]error
	if s.Row, errs[0] = store.Load(ctx, c); errors.Is(errs[0], transcript.ErrNotFound) {
		return s, false
	}
	var timeline transcript.TimelinePage
	var path transcript.PathPage
	var headers transcript.HeaderPage
	var facts transcript.FactPage
	timeline, errs[1] = store.Timeline(ctx, transcript.TimelineQuery{Conversation: c, Limit: transcript.MaxListed, Blobs: true})
	path, errs[2] = store.Path(ctx, transcript.PathQuery{Conversation: c, Limit: transcript.MaxListed})
	s.Given, errs[3] = store.Context(ctx, c, transcript.Position{}, transcript.MaxListed)
	s.State, errs[4] = store.State(ctx, c, transcript.Position{})
	headers, errs[5] = store.Headers(ctx, transcript.HeaderQuery{Conversation: c, Limit: transcript.MaxListed})
	s.Refs, errs[6] = store.Refs(ctx, c)
	facts, errs[7] = store.Since(ctx, c, 0, transcript.MaxListed)
	s.Open, errs[8] = store.Unsettled(ctx, c)
	s.Inputs, errs[9] = db.Inbox().Inputs(ctx, c, "", 100, transcript.InputPending, transcript.InputClaimed, transcript.InputPromoted,
		transcript.InputCancelled, transcript.InputExpired, transcript.InputDead)
	s.Faults, errs[10] = store.Verify(ctx, c)
	if timeline.Next != 0 || !path.Next.IsZero() || headers.Next != 0 || facts.More {
		errs[11] = errors.New("there is more than is looked at")
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	if len(s.Faults) > 0 {
		t.Errorf("%s: Verify finds %q", c, s.Faults)
	}
	s.Timeline, s.Headers, s.Facts = timeline.Entries, headers.Headers, facts.Facts
	for _, e := range path.Entries {
		s.Path = append(s.Path, e.ID)
	}
	return s, true
}

// differ is what differs between two pictures, but for times. Of what is large it compares the sums.
func differ(want, got picture) string {
	short := cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a)+len(b) > 0 }, cmp.Transformer("short", func(data json.RawMessage) string {
		if len(data) > 200 {
			return fmt.Sprintf("%x", sha256.Sum256(data))
		}
		return string(data)
	}))
	moments := cmp.FilterValues(func(a, b time.Time) bool { return a.IsZero() == b.IsZero() }, cmp.Ignore())
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), moments, short)
}

// clean deletes and purges all there is, of which then no row is left.
func clean(t *testing.T, db talkDB) {
	t.Helper()
	for _, c := range talk.Conversations() {
		row, err := db.Transcripts().Load(t.Context(), c)
		if errors.Is(err, transcript.ErrNotFound) {
			continue
		}
		change := transcript.Change{Conversation: c, Status: transcript.Deleted, CancelWaiting: true}
		if row.InTurn {
			_, err = db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: c, Fence: row.Fence, End: true})
		}
		if err == nil {
			_, err = db.Transcripts().Commit(t.Context(), change)
		}
		if err != nil {
			t.Fatalf("deleting %s: %v", c, err)
		}
	}
	swept(t, db)
	if left := look(t, db); len(left.Rows) > 0 {
		t.Fatalf("left after everything was deleted and purged: %v", left.Rows)
	}
}

// swept purges what was deleted.
func swept(t *testing.T, db talkDB) {
	t.Helper()
	for {
		n, err := db.Transcripts().Purge(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}
