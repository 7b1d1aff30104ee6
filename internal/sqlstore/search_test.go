package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// sought are the ids of what a text finds.
func sought(t *testing.T, s transcript.Store, q transcript.SearchQuery) (ids []transcript.EntryID) {
	t.Helper()
	page, err := s.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range page.Hits {
		ids = append(ids, h.ID)
	}
	return ids
}

// An append writes no word, and a search of what is indexed writes nothing.
func TestSearchIsCaughtUpByWhoSearches(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	if n := count(t, db, "SELECT count(*) FROM bunkroom_search"); n != 0 {
		t.Errorf("%d trees have words before anybody has searched", n)
	}
	sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "entry"})
	spy.reset(nil, nil)
	change(t, s, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("b", "more")}})
	for _, text := range spy.seen() {
		if strings.Contains(text, "bunkroom_search") {
			t.Errorf("an append sends %s", text)
		}
	}
	sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "entry"})
	spy.reset(nil, nil)
	sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "entry"})
	for _, text := range spy.seen() {
		if !strings.HasPrefix(text, "SELECT") {
			t.Errorf("a search that has nothing to catch up with sends %s", text)
		}
	}
	if n := len(spy.seen()); n > 12 {
		t.Errorf("a search is %d statements", n)
	}
}

// Words are removed with their entries, and made anew from them at will.
func TestWordsGoWithTheirEntries(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 5)
	planted(t, s, "d", 5)
	if _, err := s.Fork(t.Context(), transcript.Fork{To: "f", From: "c", ByReference: true}); err != nil {
		t.Fatal(err)
	}
	q := transcript.SearchQuery{Conversation: "d", Text: "entry"}
	all := fmt.Sprint(sought(t, s, q))
	sought(t, s, transcript.SearchQuery{Conversation: "f", Text: "entry"})
	run(t, db, "DELETE FROM bunkroom_search_words")
	run(t, db, "DELETE FROM bunkroom_search")
	if again := fmt.Sprint(sought(t, s, q)); again != all || len(all) < 10 {
		t.Errorf("made anew: %s, want %s", again, all)
	}
	forked := fmt.Sprint(sought(t, s, transcript.SearchQuery{Conversation: "f", Text: "entry"}))
	change(t, s, transcript.Change{Conversation: "c", Status: transcript.Deleted})
	for n := 1; n > 0; {
		var err error
		if n, err = s.Purge(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	if again := fmt.Sprint(sought(t, s, transcript.SearchQuery{Conversation: "f", Text: "entry"})); again != forked {
		t.Errorf("the fork, once its source was purged: %s, want %s", again, forked)
	}
	// Each committed entry that has text once, and nothing of what is gone.
	if n := count(t, db, "SELECT count(*) FROM bunkroom_search_words AS w LEFT JOIN bunkroom_transcript_entries AS e ON e.tree = w.rowid >> 32 AND e.seq = w.rowid & 4294967295 WHERE e.id IS NULL"); n != 0 {
		t.Errorf("%d words are of nothing", n)
	}
	for _, c := range []access.ConversationID{"d", "f"} {
		change(t, s, transcript.Change{Conversation: c, Status: transcript.Deleted})
	}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Purge(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, db, "SELECT (SELECT count(*) FROM bunkroom_search_words) + (SELECT count(*) FROM bunkroom_search)"); n != 0 {
		t.Errorf("%d are left of what is gone", n)
	}
}

// The beginning of a word, in one of many conversations that have it, is found
// without reading theirs. (The tokens have the tree before the word.)
func TestSearchPlans(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 5)
	sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "entry"})
	spy.reset(nil, nil)
	sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "entry ent"})
	all := strings.Join(plan(t, db, spy.seen()), "\n")
	if !strings.Contains(all, "w VIRTUAL TABLE INDEX") || strings.Contains(all, "TEMP B-TREE") {
		t.Errorf("the words are sorted, or not looked up:\n%s", all)
	}
	for line := range strings.Lines(all) {
		if what, scanned := strings.CutPrefix(line, "SCAN "); scanned && !strings.Contains(what, "VIRTUAL TABLE") && !strings.Contains(what, "CONSTANT ROW") && !strings.HasPrefix(what, "r") && !strings.HasPrefix(what, "p") {
			t.Errorf("%s is read from end to end:\n%s", what, all)
		}
	}
}

// In a long conversation pages go on from one stretch of its words to the
// next, and what is rare is found however long ago it was said.
func TestSearchOfALongConversation(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	if _, err := s.Create(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	const entries = 2500
	var all []transcript.NewEntry
	for i := range entries {
		text := "common"
		if i == 7 {
			text = "rare common"
		}
		all = append(all, said(fmt.Sprint("e", i), text))
	}
	for i := 0; i < entries; i += 500 {
		change(t, s, transcript.Change{Conversation: "c", Append: all[i : i+500]})
	}
	if got := fmt.Sprint(sought(t, s, transcript.SearchQuery{Conversation: "c", Text: "common rar"})); got != "[e7]" {
		t.Errorf("what is rare: %s", got)
	}
	next := entries - 1
	for q := (transcript.SearchQuery{Conversation: "c", Text: "comm", Limit: 900}); ; {
		page, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range page.Hits {
			if string(h.ID) != fmt.Sprint("e", next) {
				t.Fatalf("got %s, want e%d", h.ID, next)
			}
			next--
		}
		if q.Before = page.Next; q.Before == 0 {
			break
		}
	}
	if next != -1 {
		t.Errorf("%d are missing", next+1)
	}
}
