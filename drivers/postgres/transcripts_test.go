package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// With twenty thousand entries in a hundred conversations, what is asked of
// one is found by indexes: no table of entries, calls, branches or transcripts is read from end to end.
func TestTranscriptPlansAtScale(t *testing.T) {
	db, spy := spied(t, "exec")
	s := db.Transcripts()
	for range 100 {
		talk(t, s, 200)
	}
	c := talk(t, s, 500)
	call := transcript.NewEntry{ID: "called", Kind: transcript.KindAssistant, Turn: "turn", Parts: []transcript.Part{
		{Type: transcript.PartCall, Call: &transcript.Call{ID: "call", Name: "look", Arguments: []byte(`{}`)}},
	}}
	for _, change := range []transcript.Change{
		{Conversation: c, Append: []transcript.NewEntry{call}},
		{Conversation: c, Labels: []transcript.LabelChange{{Entry: "called", Label: "good"}}},
	} {
		if _, err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Fork(t.Context(), transcript.Fork{To: "fork", From: c, ByReference: true}); err != nil {
		t.Fatal(err)
	}
	// As many calls and branches as there are entries.
	run(t, db, `INSERT INTO bunkroom_transcript_calls (tree, seq, call_id, status, settled_at) SELECT tree, seq, 'other', 'succeeded', seq FROM bunkroom_transcript_entries`)
	run(t, db, `INSERT INTO bunkroom_transcript_branches (tree, branch, origin) SELECT tree, 1000000 + seq, tree FROM bunkroom_transcript_entries`)
	run(t, db, "ANALYZE bunkroom_transcripts, bunkroom_transcript_entries, bunkroom_transcript_branches, bunkroom_transcript_calls, bunkroom_transcript_reads")
	ctx, n := t.Context(), 0
	for what, do := range map[string]func() error{
		"append": func() error {
			n++
			e := sayings(1)[0]
			e.ID = transcript.EntryID(fmt.Sprint("next", n))
			_, err := s.Commit(ctx, transcript.Change{Conversation: c, Append: []transcript.NewEntry{e}})
			return err
		},
		"load many": func() error {
			_, err := s.LoadMany(ctx, c, "fork", "nothing")
			return err
		},
		"load": func() error { _, err := s.Load(ctx, c); return err },
		"last": func() error { _, err := s.Path(ctx, transcript.PathQuery{Conversation: c}); return err },
		"fork": func() error {
			_, err := s.Path(ctx, transcript.PathQuery{Conversation: "fork", Through: "called"})
			return err
		},
		"timeline": func() error { _, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: "fork"}); return err },
		"turn": func() error {
			_, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: c, Turn: "turn"})
			return err
		},
		"headers": func() error { _, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: "fork"}); return err },
		"tips": func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Tips: true})
			return err
		},
		"below": func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: c, Under: transcript.BeforeRoot(), Levels: 3})
			return err
		},
		"search": func() error {
			_, err := s.Search(ctx, transcript.SearchQuery{Conversation: c, Text: "a b"})
			return err
		},
		"search a fork": func() error {
			_, err := s.Search(ctx, transcript.SearchQuery{Conversation: "fork", Text: "a", Path: true})
			return err
		},
		"forget":     func() error { _, err := s.Forget(ctx, c, time.Hour, 10); return err },
		"idle":       func() error { _, err := s.Idle(ctx, transcript.IdleQuery{For: time.Hour, Limit: 5}); return err },
		"call":       func() error { _, err := s.FindCall(ctx, "fork", "call"); return err },
		"since":      func() error { _, err := s.Since(ctx, c, 5, 10); return err },
		"unsettled":  func() error { _, err := s.Unsettled(ctx, c); return err },
		"unfinished": func() error { _, err := s.Unfinished(ctx, "", 10); return err },
	} {
		t.Run(what, func(t *testing.T) {
			var faults error
			spy.during(func() { faults = errors.Join(do()) }) // prepares what there is to prepare
			plan := spy.plans(t, db, func() { faults = errors.Join(faults, do()) }, "WITH")
			if faults != nil {
				t.Fatal(faults)
			}
			for _, table := range []string{"bunkroom_transcripts", "bunkroom_transcript_entries", "bunkroom_transcript_branches", "bunkroom_transcript_calls"} {
				if strings.Contains(plan, "Seq Scan on "+table+" ") {
					t.Errorf("%s is read from end to end:\n%s", table, plan)
				}
			}
		})
	}
}

// The newest of a long conversation are asked for in words that are planned
// once: with what is known beforehand of how many are asked for, a plan for just those would seem worth its while each time.
func TestPagesArePlannedOnce(t *testing.T) {
	db := migrated(t)
	db.SQL().SetMaxOpenConns(1)
	s := db.Transcripts()
	c := talk(t, s, 10_000)
	run(t, db, "ANALYZE bunkroom_transcript_entries, bunkroom_transcripts")
	if count(t, db, "SELECT CAST(current_setting('server_version_num') AS integer)") < 140000 {
		need.Missing(t, need.Postgres, "a server of version 14 or later, which tells how often it has planned")
	}
	const reads = 20
	for range reads {
		if _, err := s.Path(t.Context(), transcript.PathQuery{Conversation: c, Limit: 50}); err != nil {
			t.Fatal(err)
		}
	}
	// The first five are planned for what they ask for, whatever they are.
	if n := count(t, db, "SELECT sum(generic_plans) FROM pg_prepared_statements WHERE statement LIKE '%ORDER BY e.depth DESC%'"); n != reads-5 {
		t.Errorf("%d of %d reads were not planned, want %d", n, reads, reads-5)
	}
}
