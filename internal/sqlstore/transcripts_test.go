package sqlstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// said is an entry with a text.
func said(id, text string) transcript.NewEntry {
	return transcript.NewEntry{
		ID: transcript.EntryID(id), Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(text)}, Usage: transcript.Usage{Input: 3, CostMicros: 1},
	}
}

// called is an entry with a call that is not settled.
func called(id string) transcript.NewEntry {
	return transcript.NewEntry{ID: transcript.EntryID(id), Kind: transcript.KindAssistant, Turn: "turn", Parts: []transcript.Part{
		transcript.TextPart("I look"), {Type: transcript.PartCall, Call: &transcript.Call{ID: "call", Name: "look", Arguments: json.RawMessage(`{"at":1}`)}},
	}}
}

// large is an entry with a blob.
func large(id string) transcript.NewEntry {
	return said(id, strings.Repeat("x", transcript.InlineBytes+1))
}

// change commits a change that must succeed.
func change(t testing.TB, s transcript.Store, c transcript.Change) transcript.Committed {
	t.Helper()
	done, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return done
}

// planted is a conversation with entries a1 to an, a call, a label, a blob, a ref and a branch.
func planted(t testing.TB, s transcript.Store, c access.ConversationID, n int) {
	t.Helper()
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var all []transcript.NewEntry
	for i := range n {
		all = append(all, said(fmt.Sprint("a", i+1), "entry"))
	}
	change(t, s, transcript.Change{Conversation: c, Append: all})
	change(t, s, transcript.Change{Conversation: c, Append: []transcript.NewEntry{called("call"), large("large")}})
	change(t, s, transcript.Change{Conversation: c, Append: []transcript.NewEntry{said("side", "a branch")}, After: transcript.After("a1"), KeepHead: true})
	change(t, s, transcript.Change{
		Conversation: c, Labels: []transcript.LabelChange{{Entry: "a2", Label: "good"}}, Refs: []transcript.RefChange{{Name: "main", To: transcript.After("large")}},
	})
}

// picture is what a conversation answers with.
func picture(t testing.TB, s transcript.Store, c access.ConversationID) map[string]any {
	t.Helper()
	ctx, p := t.Context(), map[string]any{}
	keep := func(what string, got any, err error) {
		if err != nil {
			t.Fatalf("%s of %s: %v", what, c, err)
		}
		p[what] = got
	}
	row, err := s.Load(ctx, c)
	keep("row", row, err)
	path, err := s.Path(ctx, transcript.PathQuery{Conversation: c, Limit: 1000, Blobs: true})
	keep("path", path, err)
	timeline, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: c, Limit: 1000})
	keep("timeline", timeline, err)
	turn, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: c, Turn: "turn"})
	keep("turn", turn, err)
	headers, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Limit: 1000})
	keep("headers", headers, err)
	tips, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Tips: true})
	keep("tips", tips, err)
	good, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Label: "good"})
	keep("good", good, err)
	for _, h := range headers.Headers {
		children, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Of: transcript.After(h.ID)})
		keep("children of "+string(h.ID), children, err)
	}
	found, err := s.FindCall(ctx, c, "call")
	keep("found", found, err)
	usage, err := s.PathUsage(ctx, c, transcript.Position{})
	keep("usage", usage, err)
	refs, err := s.Refs(ctx, c)
	keep("refs", refs, err)
	since, err := s.Since(ctx, c, 0, 1000)
	keep("since", since, err)
	faults, err := s.Verify(ctx, c)
	keep("faults", faults, err)
	if len(faults) > 0 {
		t.Errorf("%s: %v", c, faults)
	}
	return p
}

// tables are those of the transcripts.
func tables(t testing.TB, db *sqlite.DB) (names []string) {
	t.Helper()
	rows, err := db.SQL().QueryContext(t.Context(), "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'bunkroom_transcript%' ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if len(names) != 12 {
		t.Fatalf("tables %v", names)
	}
	return names
}

// dump is every row of every table of the transcripts.
func dump(t testing.TB, db *sqlite.DB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range tables(t, db) {
		rows, err := db.SQL().QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&b, table, values)
		}
		rows.Close()
	}
	return b.String()
}

// A fork that is deleted too is purged before what it reads: nothing is copied for it.
func TestPurgeCopiesNothingForTheDeleted(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "source", 5)
	if _, err := s.Fork(t.Context(), transcript.Fork{To: "fork", From: "source", At: transcript.After("a4"), ByReference: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []access.ConversationID{"source", "fork"} {
		change(t, s, transcript.Change{Conversation: c, Status: transcript.Deleted})
	}
	spy.reset(nil, nil)
	for n := 1; n > 0; {
		var err error
		if n, err = s.Purge(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range spy.seen() {
		if strings.HasPrefix(text, "INSERT") {
			t.Errorf("it says %s", text)
		}
	}
	if n := count(t, db, "SELECT count(*) FROM bunkroom_transcripts"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// A fork by reference answers as it did at every step of the purge of what it
// reads, and in every batch no more rows are touched than was said. Then it has
// rows of its own, and nothing is left of its source. (cases 55, 59)
func TestPurgeSettlesForks(t *testing.T) {
	for _, limit := range []int{1, 5, 1000} {
		db := migrated(t, nil)
		s := db.Transcripts()
		planted(t, s, "source", 5)
		fork := func(to, from access.ConversationID, at transcript.EntryID) {
			if _, err := s.Fork(t.Context(), transcript.Fork{To: to, From: from, At: transcript.After(at), ByReference: true, Refs: true}); err != nil {
				t.Fatal(err)
			}
			change(t, s, transcript.Change{Conversation: to, Append: []transcript.NewEntry{said(string(to)+"-own", "more"), said(string(to)+"-tip", "more")}})
			change(t, s, transcript.Change{Conversation: to, Append: []transcript.NewEntry{said(string(to)+"-side", "else")}, After: transcript.After("a3"), KeepHead: true})
		}
		fork("first", "source", "large")
		fork("second", "first", "first-own")
		fork("third", "second", "a4")
		change(t, s, transcript.Change{Conversation: "source", Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "call", Call: "call"}, Status: transcript.CallSucceeded}}})
		forks := []access.ConversationID{"first", "second", "third"}
		want := map[access.ConversationID]map[string]any{}
		for _, c := range forks {
			want[c] = picture(t, s, c)
		}
		change(t, s, transcript.Change{Conversation: "source", Status: transcript.Deleted})
		planted(t, s, "source", 2)
		again := picture(t, s, "source")
		for {
			n, err := s.Purge(t.Context(), limit)
			if err != nil || n > limit {
				t.Fatalf("limit %d: removed %d, %v", limit, n, err)
			}
			if n == 0 {
				break
			}
			if limit == 1 { // at each of many steps it would take long
				continue
			}
			for _, c := range forks {
				if diff := cmp.Diff(want[c], picture(t, s, c)); diff != "" {
					t.Fatalf("limit %d: %s: %s", limit, c, diff)
				}
			}
		}
		for _, c := range forks {
			if diff := cmp.Diff(want[c], picture(t, s, c)); diff != "" {
				t.Errorf("limit %d: %s: %s", limit, c, diff)
			}
		}
		if diff := cmp.Diff(again, picture(t, s, "source")); diff != "" {
			t.Errorf("limit %d: what was made again: %s", limit, diff)
		}
		if n := count(t, db, "SELECT count(*) FROM bunkroom_transcript_reads WHERE tree <> source"); n != 0 {
			t.Errorf("limit %d: %d still read others", limit, n)
		}
		for _, c := range append(forks, "source") {
			change(t, s, transcript.Change{Conversation: c, Status: transcript.Deleted})
		}
		for n := 1; n > 0; {
			var err error
			if n, err = s.Purge(t.Context(), limit); err != nil {
				t.Fatal(err)
			}
		}
		if left := dump(t, db); left != "" {
			t.Errorf("limit %d: left:\n%s", limit, left)
		}
	}
}

// What is interrupted at any of its statements has written nothing, or all.
func TestTranscriptsInterrupted(t *testing.T) {
	do := map[string]func(ctx context.Context, s transcript.Store) error{
		"append": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("new", "new"), called("new call")}})
			return err
		},
		"much at once": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Commit(ctx, transcript.Change{
				Conversation: "c", Fence: 1, Begin: true, End: true, Append: []transcript.NewEntry{large("new"), called("new call")}, After: transcript.After("a2"),
				Settle: []transcript.Settlement{{CallAddress: transcript.CallAddress{Entry: "call", Call: "call"}, Status: transcript.CallFailed, Result: []byte(`"no"`)}},
				Labels: []transcript.LabelChange{{Entry: "a1", Label: "l"}}, Refs: []transcript.RefChange{{Name: "other", To: transcript.BeforeRoot()}},
			})
			return err
		},
		"a draft": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: "c", Draft: &transcript.Draft{NewEntry: called("draft")}})
			return err
		},
		"a copy": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Fork(ctx, transcript.Fork{To: "f", From: "c", Refs: true})
			return err
		},
		"a reference": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Fork(ctx, transcript.Fork{To: "f", From: "c", Refs: true, ByReference: true})
			return err
		},
		"a purge": func(ctx context.Context, s transcript.Store) error {
			_, err := s.Purge(ctx, 1000)
			return err
		},
	}
	for what, act := range do {
		t.Run(what, func(t *testing.T) {
			for n := 1; ; n++ {
				db, spy := spied(t, nil)
				s := db.Transcripts()
				planted(t, s, "c", 3)
				planted(t, s, "old", 3)
				if _, err := s.Fork(t.Context(), transcript.Fork{To: "reader", From: "old", ByReference: true}); err != nil {
					t.Fatal(err)
				}
				change(t, s, transcript.Change{Conversation: "old", Status: transcript.Deleted})
				before := dump(t, db)
				ended, err := spy.givenUp(t, n, func(ctx context.Context) error { return act(ctx, s) })
				if changed := dump(t, db) != before; changed != (err == nil) {
					t.Errorf("statement %d: answered %v, changed %t", n, err, changed)
				}
				if !ended {
					if n < 2 || err != nil {
						t.Errorf("%d statements, %v", n-1, err)
					}
					return
				}
			}
		})
	}
}

// An append that rests on nothing but the head is two statements beside the one
// that takes the write lock, and its text is known beforehand.
func TestAppendLoadsNothing(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	spy.reset(nil, nil)
	change(t, s, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("b", "more")}, Expect: transcript.After("large")})
	if sent := spy.seen(); len(sent) != 3 || !strings.HasPrefix(sent[0], "DELETE FROM bunkroom_fences WHERE 0") ||
		!strings.HasPrefix(sent[1], "UPDATE") || !strings.HasPrefix(sent[2], "INSERT") {
		t.Errorf("sent %q", sent)
	}
}

// A transcript that goes away while a page of it is read is not there, in the words of the store.
func TestPathOfWhatGoesAway(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	spy.reset(func(n int) {
		if n != 2 { // the page is read, what is large of it is not
			return
		}
		spy.reset(nil, nil)
		change(t, s, transcript.Change{Conversation: "c", Status: transcript.Deleted})
		if _, err := s.Purge(t.Context(), 1000); err != nil {
			t.Error(err)
		}
	}, nil)
	if _, err := s.Path(t.Context(), transcript.PathQuery{Conversation: "c", Limit: 2, Blobs: true}); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// What was before a state that is whole is read no more, however it was appended.
func TestWholeStateEndsWhatWasBefore(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	whole := transcript.NewEntry{ID: "whole", Kind: transcript.KindState, State: &transcript.StateDelta{Whole: true}}
	change(t, s, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{whole}})
	change(t, s, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("b", "more")}})
	if from := count(t, db, "SELECT head_whole FROM bunkroom_transcripts WHERE conversation = 'c'"); from != 6 {
		t.Errorf("its state is read from depth %d on, want 6", from)
	}
}

// Transcripts ride in a transaction of the host: what is refused leaves no
// trace and the transaction usable, and all goes with it.
func TestTranscriptsInHostsTransaction(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	before := dump(t, db)
	for _, end := range []string{"rolled back", "committed"} {
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := db.In(tx).Transcripts()
		change(t, in, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("b", "more")}})
		_, err = in.Commit(t.Context(), transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("b", "else")}})
		if _, conflict := errors.AsType[*transcript.EntryConflictError](err); !conflict {
			t.Errorf("got %v, want a conflict", err)
		}
		_, err = in.Commit(t.Context(), transcript.Change{Conversation: "c", Expect: transcript.After("a1"), Append: []transcript.NewEntry{said("d", "else")}})
		if e, moved := errors.AsType[*transcript.HeadError](err); !moved || e.Actual != transcript.After("b") {
			t.Errorf("got %v, want the head", err)
		}
		if _, err := in.Fork(t.Context(), transcript.Fork{To: "f", From: "c"}); err != nil {
			t.Error(err)
		}
		if got, err := in.Get(t.Context(), "f", "b"); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		if end == "rolled back" {
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if dump(t, db) != before {
				t.Error("something is left")
			}
			continue
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		picture(t, s, "c")
		picture(t, s, "f")
	}
}

// What an entry takes is the same in a short conversation and in a long one,
// in what it says and on the disk. (cases 27, 56)
func TestBytesPerEntry(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	size := func() (n int64) {
		for _, table := range tables(t, db) {
			var parts []string
			for _, c := range columns(t, db, table) {
				parts = append(parts, fmt.Sprintf("CASE typeof(%[1]s) WHEN 'integer' THEN 8 WHEN 'null' THEN 0 ELSE length(%[1]s) END", c))
			}
			n += int64(count(t, db, "SELECT COALESCE(sum("+strings.Join(parts, " + ")+"), 0) FROM "+table))
		}
		return n
	}
	pages := func() int64 {
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		return int64(count(t, db, "SELECT page_count FROM pragma_page_count"))
	}
	if _, err := s.Create(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("as was said ", 80)
	var each []float64
	var onDisk []float64
	empty, emptyPages, made := size(), pages(), 0
	for _, n := range []int{10, 100, 1000, 10_000} {
		for made < n {
			var batch []transcript.NewEntry
			for range min(n-made, 500) {
				made++
				batch = append(batch, said(fmt.Sprintf("entry-%08d", made), text))
			}
			change(t, s, transcript.Change{Conversation: "c", Append: batch})
		}
		each = append(each, float64(size()-empty)/float64(n))
		onDisk = append(onDisk, float64(pages()-emptyPages)*4096/float64(n))
	}
	t.Logf("bytes of an entry: %.0f; on disk: %.0f", each, onDisk)
	if least, most := slices.Min(each), slices.Max(each); most > 1.05*least {
		t.Errorf("an entry takes %.0f bytes to %.0f", least, most)
	}
	if onDisk[3] > 1.05*onDisk[2] || onDisk[3] > 2*each[3] {
		t.Errorf("an entry takes %.0f bytes of the disk, and %.0f in a longer conversation", onDisk[2], onDisk[3])
	}
}
