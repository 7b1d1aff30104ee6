package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// queueing is a context that tells once somebody waits for its end.
type queueing struct {
	context.Context
	once *sync.Once
	here chan struct{}
}

func (q queueing) Done() <-chan struct{} {
	q.once.Do(func() { close(q.here) })
	return q.Context.Done()
}

// queue is who appends to one conversation of a database that has one connection, which somebody else has.
type queue struct {
	*testing.T
	db   *postgres.DB
	free func() // gives the connection up
	ends map[transcript.EntryID]func()
	told map[transcript.EntryID]chan transcript.Committed
	errs map[transcript.EntryID]chan error
}

func newQueue(t *testing.T, db *postgres.DB) *queue {
	db.SQL().SetMaxOpenConns(1)
	if _, err := db.Transcripts().Create(t.Context(), "chat"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: "chat", Append: []transcript.NewEntry{remark("root")}}); err != nil {
		t.Fatal(err)
	}
	q := &queue{T: t, db: db, ends: map[transcript.EntryID]func(){}, told: map[transcript.EntryID]chan transcript.Committed{}, errs: map[transcript.EntryID]chan error{}}
	q.occupy()
	return q
}

// occupy has the connection until free.
func (q *queue) occupy() {
	conn, err := q.db.SQL().Conn(q.Context())
	if err != nil {
		q.Fatal(err)
	}
	q.free = func() {
		if err := conn.Close(); err != nil {
			q.Error(err)
		}
	}
	q.Cleanup(func() { _ = conn.Close() })
}

// comes begins to append, and waits until that is in the queue, or if it is the first, until it waits for the connection.
func (q *queue) comes(id transcript.EntryID, c transcript.Change) {
	ctx, cancel := context.WithCancel(q.Context())
	q.Cleanup(cancel)
	waits := queueing{ctx, new(sync.Once), make(chan struct{})}
	c.Conversation = "chat"
	told, errs := make(chan transcript.Committed, 1), make(chan error, 1)
	q.ends[id], q.told[id], q.errs[id] = cancel, told, errs
	go func() {
		done, err := q.db.Transcripts().Commit(waits, c)
		told <- done
		errs <- err
	}()
	<-waits.here
}

// says is comes with an entry that only has to come at the end.
func (q *queue) says(ids ...transcript.EntryID) {
	for _, id := range ids {
		q.comes(id, transcript.Change{Append: []transcript.NewEntry{remark(id)}})
	}
}

// connecting does what makes somebody else wait for the connection, and waits until they do.
func (q *queue) connecting(do func()) {
	before := q.db.SQL().Stats().WaitCount
	do()
	for q.db.SQL().Stats().WaitCount == before {
		runtime.Gosched()
	}
}

// is checks that each of them has been answered as it should be.
func (q *queue) is(want error, ids ...transcript.EntryID) {
	q.Helper()
	for _, id := range ids {
		if err := <-q.errs[id]; !errors.Is(err, want) || want == nil && err != nil {
			q.Errorf("%s: got %v, want %v", id, err, want)
		}
	}
}

// holds checks what there is after the root, and in how many transactions it was written.
func (q *queue) holds(transactions int, ids ...transcript.EntryID) {
	q.Helper()
	page, err := q.db.Transcripts().Path(q.Context(), transcript.PathQuery{Conversation: "chat", Limit: 200})
	if err != nil {
		q.Fatal(err)
	}
	var got []transcript.EntryID
	for _, e := range page.Entries {
		got = append(got, e.ID)
	}
	slices.Reverse(got)
	got = got[1:]
	if !slices.Equal(got, ids) {
		q.Errorf("there is %q, want %q", got, ids)
	}
	if n := count(q.T, q.db, "SELECT count(DISTINCT xmin::text) FROM bunkroom_transcript_entries"); n != transactions+1 {
		q.Errorf("it was written in %d transactions, want %d", n, transactions+1)
	}
}

// Those who wait to append to one conversation do it in one transaction, in the order in which they came, a hundred at most.
func TestCrowdAppendsTogether(t *testing.T) {
	q := newQueue(t, migrated(t))
	all := []transcript.EntryID{"first"}
	q.connecting(func() { q.says("first") })
	for i := range 150 {
		all = append(all, transcript.EntryID(fmt.Sprint("entry ", i)))
		q.says(all[i+1])
	}
	q.free()
	q.is(nil, all...)
	q.holds(3, all...)
}

// Each is answered as it was after its own entry, and written as if it had come by itself.
func TestCrowdAnswersEach(t *testing.T) {
	q := newQueue(t, migrated(t))
	var all []transcript.NewEntry
	for i := range 7 {
		e := remark(transcript.EntryID(fmt.Sprint("entry ", i)))
		e.Parts = []transcript.Part{transcript.TextPart(strings.Repeat("so I say ", i+1))}
		e.Usage = transcript.Usage{Input: int64(i + 1), Output: int64(10 * i), CostMicros: int64(100 * i * i)}
		if i%3 == 1 {
			e.Kind = transcript.KindAssistant
			for n := range i {
				call := transcript.Call{ID: transcript.CallID(fmt.Sprint("call ", n)), Name: "look", Arguments: []byte("{}")}
				if n == 0 {
					call.Status, call.Result = transcript.CallSucceeded, []byte(`"seen"`)
				}
				e.Parts = append(e.Parts, transcript.Part{Type: transcript.PartCall, Call: &call})
			}
		}
		all = append(all, e)
	}
	q.connecting(func() { q.says("gives up") })
	for _, e := range all {
		q.comes(e.ID, transcript.Change{Append: []transcript.NewEntry{e}})
	}
	q.connecting(q.ends["gives up"])
	q.free()
	if _, err := q.db.Transcripts().Create(t.Context(), "one by one"); err != nil {
		t.Fatal(err)
	}
	same := func(done transcript.Committed) string {
		done.Transcript.Conversation, done.Transcript.CreatedAt, done.Transcript.UpdatedAt = "", time.Time{}, time.Time{}
		return fmt.Sprintf("%+v", done)
	}
	for _, e := range append([]transcript.NewEntry{remark("root")}, all...) {
		want, err := q.db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: "one by one", Append: []transcript.NewEntry{e}})
		if err != nil {
			t.Fatal(err)
		}
		if e.ID == "root" {
			continue
		}
		q.is(nil, e.ID)
		if got := <-q.told[e.ID]; same(got) != same(want) {
			t.Errorf("%s: answered\n%s, want\n%s", e.ID, same(got), same(want))
		}
	}
	for _, columns := range []string{
		"e.seq, e.id, e.branch, e.depth, e.parent, e.kind, e.hash, e.bytes, e.calls, e.input, e.output, e.cost, e.preview, e.body FROM bunkroom_transcript_entries AS e",
		"e.seq, e.call_id, e.status, e.settled_at, e.result FROM bunkroom_transcript_calls AS e",
	} {
		if n := count(t, q.db, "SELECT count(*) FROM (SELECT "+columns+" GROUP BY "+columns[:strings.Index(columns, " FROM")]+" HAVING count(*) <> 2) AS x"); n != 0 {
			t.Errorf("%d rows are not as those that came one by one: %s", n, columns)
		}
	}
	if n := count(t, q.db, "SELECT count(DISTINCT open_calls) FROM bunkroom_transcripts"); n != 1 {
		t.Errorf("of calls %d different numbers are open", n)
	}
	if n := count(t, q.db, "SELECT count(DISTINCT e.xmin::text) FROM bunkroom_transcript_entries AS e JOIN bunkroom_transcripts AS t ON t.tree = e.tree WHERE t.conversation = 'chat'"); n != 2 {
		t.Errorf("it was written in %d transactions, want 2", n)
	}
}

// What asks for more than to come at the end goes by itself, and when its turn has come.
func TestCrowdGoesRoundWhatAsksForMore(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("a") })
	q.says("b", "c")
	q.comes("expects", transcript.Change{Expect: transcript.After("a"), Append: []transcript.NewEntry{remark("expects")}})
	q.comes("two", transcript.Change{Append: []transcript.NewEntry{remark("two"), remark("three")}})
	q.comes("in a turn", transcript.Change{Fence: 7, Append: []transcript.NewEntry{remark("in a turn")}})
	q.comes("small", transcript.Change{MaxBytes: 1, Append: []transcript.NewEntry{remark("small")}})
	q.says("d")
	q.free()
	q.is(nil, "a", "b", "c", "two", "d")
	if err := <-q.errs["expects"]; !as[*transcript.HeadError](err) {
		t.Errorf("what expects another head: got %v", err)
	}
	q.is(transcript.ErrFenced, "in a turn")
	if err := <-q.errs["small"]; err == nil {
		t.Error("what may not become so large has been appended")
	}
	q.holds(3, "a", "b", "c", "d", "two", "three")
}

// One that is refused costs the others nothing: they come one by one.
func TestCrowdIsNotRefusedForOne(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("a") })
	q.says("b", "c")
	q.comes("b again", transcript.Change{Append: []transcript.NewEntry{remark("b")}})
	other := remark("c")
	other.Actor = "bob"
	q.comes("another c", transcript.Change{Append: []transcript.NewEntry{other}})
	q.says("d")
	q.free()
	q.is(nil, "a", "b", "c", "b again", "d")
	if done := <-q.told["b again"]; !done.Retried || len(done.Seqs) != 1 || done.Seqs[0] != 3 {
		t.Errorf("what was there already: %+v", done)
	}
	if err := <-q.errs["another c"]; !as[*transcript.EntryConflictError](err) {
		t.Errorf("what has the id of another: got %v", err)
	}
	q.holds(4, "a", "b", "c", "d")
}

// Whoever gives up before anything was sent has written nothing, be it who has the turn or
// who goes along; and the others are written.
func TestCrowdLosesWhoGivesUp(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("has the turn") })
	q.says("has it then", "goes along", "goes too", "waits", "is last")
	q.ends["waits"]()
	q.is(context.Canceled, "waits")
	q.connecting(q.ends["has the turn"])
	q.is(context.Canceled, "has the turn")
	q.ends["goes along"]()
	q.is(context.Canceled, "goes along")
	q.connecting(q.ends["has it then"])
	q.is(context.Canceled, "has it then")
	q.free()
	q.is(nil, "goes too", "is last")
	q.holds(1, "goes too", "is last")
}

// Where a reply is lost nobody of those who went together knows what became of it; to
// say it again finds out, and writes nothing twice.
func TestCrowdLosesAReply(t *testing.T) {
	_, dsn := schema(t)
	p, through := through(t, dsn)
	db := opened(t, through, nil)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := newQueue(t, db)
	together := func(ids ...transcript.EntryID) {
		q.connecting(func() { q.says("gives up") })
		q.says(ids...)
		q.connecting(q.ends["gives up"])
	}
	together("x", "y", "z")
	q.free()
	q.is(nil, "x", "y", "z") // the statement is prepared
	q.occupy()
	together("a", "b", "c")
	p.lost.Store(true)
	q.free()
	q.is(transcript.ErrUnknown, "a", "b", "c")
	if !p.sent.Load() {
		t.Error("it has not reached the server")
	}
	p.lost.Store(false)
	for _, id := range []transcript.EntryID{"a", "b", "c"} {
		done, err := db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: "chat", Append: []transcript.NewEntry{remark(id)}})
		if err != nil || !done.Retried {
			t.Errorf("%s again: %+v, %v", id, done, err)
		}
	}
	q.holds(2, "x", "y", "z", "a", "b", "c")
}

// troubled is a context whose error can't be had.
type troubled struct{ queueing }

func (troubled) Err() error { panic("no error can be had") }

// Where who has the turn panics, those who go along go on waiting, and come later.
func TestCrowdOutlivesAPanic(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("gives up") })
	waits := troubled{queueing{t.Context(), new(sync.Once), make(chan struct{})}}
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, err := q.db.Transcripts().Commit(waits, transcript.Change{Conversation: "chat", Append: []transcript.NewEntry{remark("panics")}})
		t.Errorf("it has not panicked: %v", err)
	}()
	<-waits.here
	q.says("goes along", "goes too")
	q.ends["gives up"]()
	if <-panicked == nil {
		t.Fatal("it has not panicked")
	}
	q.free()
	q.is(nil, "goes along", "goes too")
	q.holds(1, "goes along", "goes too")
}

// Whose context ends while they go along hears so once it is known that nothing of them was
// written, however long the others have to wait then.
func TestCrowdLetsGoOfWhoIsTooLate(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.db.SQL().SetMaxOpenConns(2)
	tx, err := q.db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM bunkroom_transcripts WHERE conversation = 'chat' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	q.connecting(func() { q.says("gives up") })
	q.says("has the turn", "is too late", "goes along")
	q.connecting(q.ends["gives up"])
	q.free()
	for waiting := 0; waiting == 0; {
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid))").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	q.ends["is too late"]()
	select {
	case err := <-q.errs["is too late"]:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("whose context has ended waits for the lock of somebody else")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	q.is(nil, "has the turn", "goes along")
	q.holds(2, "has the turn", "goes along")
}

// Whoever has given up may do as they like with what they have given.
func TestCrowdReadsNothingOfWhoHasLeft(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("gives up") })
	q.says("has the turn")
	given := []transcript.NewEntry{remark("goes along")}
	q.comes("goes along", transcript.Change{Append: given})
	q.ends["gives up"]()
	for range 10_000 { // whoever reads it does so meanwhile; to wait for that would hide it from the detector of races
		runtime.Gosched()
	}
	q.ends["goes along"]()
	q.is(context.Canceled, "goes along")
	given[0] = remark("another")
	q.free()
	q.is(nil, "has the turn")
	q.holds(1, "has the turn")
}

// What the database can't take of one costs the others nothing either.
func TestCrowdDoesNotFailForOne(t *testing.T) {
	q := newQueue(t, migrated(t))
	q.connecting(func() { q.says("gives up") })
	dear, dearest := remark("a"), remark("too dear")
	dear.Usage.Input, dearest.Usage.Input = 1, math.MaxInt64
	q.comes("a", transcript.Change{Append: []transcript.NewEntry{dear}})
	q.comes("too dear", transcript.Change{Append: []transcript.NewEntry{dearest}})
	q.says("b")
	q.connecting(q.ends["gives up"])
	q.free()
	q.is(nil, "a", "b")
	if err := <-q.errs["too dear"]; err == nil || errors.Is(err, transcript.ErrUnknown) {
		t.Errorf("what no sum can hold: got %v", err)
	}
	q.holds(2, "a", "b")
}

// as reports whether an error is of a type.
func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
