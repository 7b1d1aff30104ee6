package sqlstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Lists, outlines and what is asked at the start read no content, and pages
// and contexts nothing of what is large. (cases 8a, 16)
func TestListsReadNoContent(t *testing.T) {
	db, spy := spied(t, nil)
	s, ctx := db.Transcripts(), t.Context()
	planted(t, s, "c", 5)
	if _, err := s.Fork(ctx, transcript.Fork{To: "f", From: "c", ByReference: true}); err != nil {
		t.Fatal(err)
	}
	content, blobs := regexp.MustCompile(`\b(body|result|data|draft\.draft)\b`), regexp.MustCompile(`bunkroom_transcript_blobs`)
	for _, c := range []access.ConversationID{"c", "f"} {
		for what, q := range map[string]struct {
			not *regexp.Regexp
			do  func() error
		}{
			"loads":   {content, func() error { _, err := s.LoadMany(ctx, c, "other"); return err }},
			"load":    {content, func() error { _, err := s.Load(ctx, c); return err }},
			"outline": {content, func() error { _, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c}); return err }},
			"tips": {content, func() error {
				_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Tips: true})
				return err
			}},
			"children": {content, func() error {
				_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Of: transcript.After("a1")})
				return err
			}},
			"labelled": {content, func() error {
				_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Label: "good"})
				return err
			}},
			"refs":       {content, func() error { _, err := s.Refs(ctx, c); return err }},
			"spans":      {content, func() error { _, err := s.Spans(ctx, c, transcript.Position{}); return err }},
			"usage":      {content, func() error { _, err := s.PathUsage(ctx, c, transcript.Position{}); return err }},
			"unfinished": {content, func() error { _, err := s.Unfinished(ctx, "", 10); return err }},
			"waiting":    {content, func() error { _, err := db.Inbox().Waiting(ctx, "", 10); return err }},
			"path":       {blobs, func() error { _, err := s.Path(ctx, transcript.PathQuery{Conversation: c}); return err }},
			"timeline":   {blobs, func() error { _, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: c}); return err }},
			"context":    {blobs, func() error { _, err := s.Context(ctx, c, transcript.Position{}, 100); return err }},
			"entries":    {blobs, func() error { _, err := s.Get(ctx, c, "large"); return err }},
		} {
			spy.reset(nil, nil)
			if err := q.do(); err != nil {
				t.Fatalf("%s of %s: %v", what, c, err)
			}
			sent := spy.seen()
			if len(sent) == 0 {
				t.Errorf("%s of %s asks for nothing", what, c)
			}
			for _, text := range sent {
				if q.not.MatchString(text) {
					t.Errorf("%s of %s reads %s: %s", what, c, q.not.FindString(text), text)
				}
			}
		}
	}
}

// long is a conversation with so many entries of two kilobytes, one in a hundred of
// them large, of which a compaction keeps the last ten.
func long(t *testing.T, s transcript.Store, c access.ConversationID, n int) {
	t.Helper()
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("as was said ", 170)
	for made := 0; made < n; {
		var batch []transcript.NewEntry
		for range min(n-made, 200) {
			made++
			e := said(fmt.Sprintf("entry-%08d", made), text)
			if made%100 == 0 {
				e.Parts = append(e.Parts, transcript.TextPart(strings.Repeat("x", 8*transcript.InlineBytes)))
			}
			batch = append(batch, e)
		}
		change(t, s, transcript.Change{Conversation: c, Append: batch})
	}
	folded := transcript.NewEntry{ID: "folded", Kind: transcript.KindCompaction, Compaction: &transcript.Compaction{Summary: "it was said", FirstKept: transcript.EntryID(fmt.Sprintf("entry-%08d", n-9))}}
	change(t, s, transcript.Change{Conversation: c, Append: []transcript.NewEntry{folded}})
}

// What opening a conversation takes of the memory does not depend on how long
// it is, nor on what large things were ever said in it. (case 16)
func TestOpeningIsBounded(t *testing.T) {
	db := migrated(t, nil)
	s, ctx := db.Transcripts(), t.Context()
	long(t, s, "short", 200)
	long(t, s, "long", 8000) // 16 MB, and 20 more of what is large
	takes := func(c access.ConversationID) uint64 {
		t.Helper()
		open := func() {
			_, err1 := s.Load(ctx, c)
			_, err2 := s.Unsettled(ctx, c)
			_, err3 := s.Headers(ctx, transcript.HeaderQuery{Conversation: c})
			_, err4 := s.Path(ctx, transcript.PathQuery{Conversation: c})
			given, err5 := s.Context(ctx, c, transcript.Position{}, 100)
			if err := errors.Join(err1, err2, err3, err4, err5); err != nil || len(given) != 11 {
				t.Fatalf("%s: %d entries are given, %v", c, len(given), err)
			}
		}
		open()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			open()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 10
	}
	small, big := takes("short"), takes("long")
	t.Logf("opening takes %d KiB where 200 entries are, and %d KiB where 8000 are", small>>10, big>>10)
	if float64(big) > 1.25*float64(small) || big > 4<<20 {
		t.Errorf("opening takes %d bytes, and %d where much was said", small, big)
	}
}

// An answer that streams in is kept whole each time, in one place: a thousand
// savings are no fact and no row more than one, and at most one copy more on the disk; and where much
// was said already, a conversation is made by the same statements. (case 7)
func TestDraftsAreNotHistory(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 20)
	rows := func() (n int) {
		for _, table := range tables(t, db) {
			n += count(t, db, "SELECT count(*) FROM "+table)
		}
		return n
	}
	pages := func() int {
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		return count(t, db, "SELECT page_count FROM pragma_page_count")
	}
	text := strings.Repeat("as is being said ", 1000)
	save := func(n int) transcript.Transcript {
		return change(t, s, transcript.Change{Conversation: "c", Draft: &transcript.Draft{NewEntry: said("draft", text[:len(text)*n/1000])}}).Transcript
	}
	one, before, size := save(1000), rows(), pages()
	for n := range 1000 {
		save(1 + n)
	}
	many := save(1000)
	if many.LastSeq != one.LastSeq || rows() != before || pages() > size+len(text)/4096+1 {
		t.Errorf("a thousand drafts: seq %d, %d rows, %d pages; one: %d, %d, %d", many.LastSeq, rows(), pages(), one.LastSeq, before, size)
	}
	create := func(c access.ConversationID) []string {
		spy.reset(nil, nil)
		if _, err := s.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return spy.seen()
	}
	first := create("another")
	planted(t, s, "much", 900)
	if again := create("third"); !slices.Equal(again, first) || len(again) > 4 {
		t.Errorf("made by %q, and where much was said by %q", first, again)
	}
}

// A list has every row there is: none is missing, none is there twice, in a
// fork that reads its source as well, and after a restart. (case 8b)
func TestListsHaveEveryRow(t *testing.T) {
	db := migrated(t, nil)
	s, ctx := db.Transcripts(), t.Context()
	planted(t, s, "c", 238)
	change(t, s, transcript.Change{Conversation: "c", Draft: &transcript.Draft{NewEntry: said("given up", "no")}})
	change(t, s, transcript.Change{Conversation: "c", Abort: []transcript.EntryID{"given up"}})
	if _, err := s.Fork(ctx, transcript.Fork{To: "f", From: "c", ByReference: true}); err != nil {
		t.Fatal(err)
	}
	change(t, s, transcript.Change{Conversation: "f", Append: []transcript.NewEntry{said("own", "more")}})
	there := count(t, db, "SELECT count(*) FROM bunkroom_transcript_entries AS e JOIN bunkroom_transcripts AS t ON t.tree = e.tree WHERE t.conversation = 'c'")
	for c, want := range map[access.ConversationID]int{"c": there, "f": 240 + 1} {
		for _, limit := range []int{1, 7, transcript.MaxListed} {
			outline, timeline := map[transcript.EntryID]int{}, map[transcript.EntryID]int{}
			for q := (transcript.HeaderQuery{Conversation: c, Limit: limit}); ; {
				page, err := s.Headers(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range page.Headers {
					outline[h.ID]++
				}
				if q.After = page.Next; q.After == 0 {
					break
				}
			}
			for q := (transcript.TimelineQuery{Conversation: c, Limit: limit}); ; {
				page, err := s.Timeline(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					timeline[e.ID]++
				}
				if q.Before = page.Next; q.Before == 0 {
					break
				}
			}
			if len(outline) != want || len(timeline) != want {
				t.Errorf("%s, %d at a time: %d in the outline, %d in the timeline, want %d", c, limit, len(outline), len(timeline), want)
			}
			for id, n := range outline {
				if n != 1 || timeline[id] != 1 {
					t.Errorf("%s, %d at a time: %s is listed %d times in the outline, %d in the timeline", c, limit, id, n, timeline[id])
				}
			}
		}
	}
}

// Ten thousand turns, each with a question, an answer and a call: the last
// takes what the first has taken, on the disk and in rows. (case 27)
func TestBytesPerTurn(t *testing.T) {
	need.Long(t, "it takes ten thousand turns")
	db := migrated(t, nil)
	if _, err := db.Transcripts().Create(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	pages := func() float64 {
		run(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		return float64(count(t, db, "SELECT page_count FROM pragma_page_count"))
	}
	rows := func() (n int) {
		for _, table := range tables(t, db) {
			n += count(t, db, "SELECT count(*) FROM "+table)
		}
		return n
	}
	var disk, kept []float64
	const turns, stretch = 10_000, 2500
	for begun := 0; begun < turns; begun += stretch {
		before, had := pages(), rows()
		takeTurns(t, db, begun, stretch)
		disk = append(disk, (pages()-before)*4096/stretch)
		kept = append(kept, float64(rows()-had)/stretch)
	}
	t.Logf("bytes of a turn on the disk: %.0f; rows: %.2f", disk, kept)
	if disk[len(disk)-1] > 1.1*disk[1] || kept[len(kept)-1] > 1.01*kept[0] {
		t.Errorf("a turn takes %.0f bytes and %.2f rows, and more the longer it goes on", disk, kept)
	}
}

// takeTurns takes turns in one transaction, for that is not what is measured.
func takeTurns(t *testing.T, db *sqlite.DB, from, n int) {
	t.Helper()
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	s := db.In(tx).Transcripts()
	for i := from; i < from+n; i++ {
		c := transcript.Change{Conversation: "c", Fence: int64(i + 1), Begin: true, End: true}
		if i > 0 { // what the turn before has begun
			c.Settle = []transcript.Settlement{{
				CallAddress: transcript.CallAddress{Entry: transcript.EntryID(fmt.Sprintf("answer-%08d", i-1)), Call: "call"},
				Status:      transcript.CallSucceeded, Result: json.RawMessage(`{"exit":0}`),
			}}
		}
		c.Append = []transcript.NewEntry{said(fmt.Sprintf("question-%08d", i), "what about this one?"), called(fmt.Sprintf("answer-%08d", i))}
		change(t, s, c)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
