package sqlstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// What is asked of transcripts, and what is appended, is found by indexes, by
// the statements as they are sent, whatever the tables have.
func TestTranscriptPlans(t *testing.T) {
	db, spy := spied(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 5)
	if _, err := s.Fork(t.Context(), transcript.Fork{To: "f", From: "c", ByReference: true}); err != nil {
		t.Fatal(err)
	}
	change(t, s, transcript.Change{Conversation: "f", Append: []transcript.NewEntry{said("own", "more")}})
	ctx := t.Context()
	const (
		byBranch = "sqlite_autoindex_bunkroom_transcript_entries_3"
		byID     = "sqlite_autoindex_bunkroom_transcript_entries_2 (tree=? AND id=?)"
		bySeq    = "sqlite_autoindex_bunkroom_transcript_entries_1"
		byName   = "bunkroom_transcripts_conversation (conversation=?)"
	)
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
	}{
		{"append", func() error {
			_, err := s.Commit(ctx, transcript.Change{Conversation: "c", Append: []transcript.NewEntry{said("next", "more")}})
			return err
		}, []string{byName}},
		{"decide", func() error {
			_, err := s.Commit(ctx, transcript.Change{
				Conversation: "c", Head: transcript.After("a2"), Refs: []transcript.RefChange{{Name: "r", To: transcript.After("a3")}},
				Labels: []transcript.LabelChange{{Entry: "a3", Label: "l"}},
			})
			return err
		}, []string{byName, byID}},
		{"last", func() error {
			_, err := s.Path(ctx, transcript.PathQuery{Conversation: "c"})
			return err
		}, []string{byName, byBranch + " (tree=? AND branch=? AND depth>? AND depth<?)"}},
		{"last of a fork", func() error {
			_, err := s.Path(ctx, transcript.PathQuery{Conversation: "f", Through: "a1"})
			return err
		}, []string{byName, byID, byBranch + " (tree=? AND branch=? AND depth>? AND depth<?)"}},
		{"context", func() error {
			_, err := s.Context(ctx, "f", transcript.After("own"), 100)
			return err
		}, []string{byBranch}},
		{"state", func() error {
			_, err := s.State(ctx, "c", transcript.Position{})
			return err
		}, []string{"bunkroom_transcript_entries_state (tree=? AND branch=? AND depth>? AND depth<?)"}},
		{"timeline", func() error {
			_, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: "f"})
			return err
		}, []string{bySeq + " (tree=? AND seq>? AND seq<?)"}},
		{"timeline of a turn", func() error {
			_, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: "c", Turn: "turn"})
			return err
		}, []string{"bunkroom_transcript_entries_turn (tree=? AND turn=?)"}},
		{"timeline of a kind", func() error {
			_, err := s.Timeline(ctx, transcript.TimelineQuery{Conversation: "c", Kinds: []transcript.Kind{transcript.KindCompaction}})
			return err
		}, []string{"bunkroom_transcript_entries_kind (tree=? AND kind=?)"}},
		{"headers", func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: "f"})
			return err
		}, []string{bySeq}},
		{"children", func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: "c", Of: transcript.After("a1")})
			return err
		}, []string{"bunkroom_transcript_branches_parent"}},
		{"roots", func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: "c", Of: transcript.BeforeRoot()})
			return err
		}, []string{"bunkroom_transcript_branches_root (tree=? AND parent_depth=? AND branch>?)"}},
		{"labelled", func() error {
			_, err := s.Headers(ctx, transcript.HeaderQuery{Conversation: "f", Label: "good"})
			return err
		}, []string{"bunkroom_transcript_labels_label (tree=? AND label=? AND seq>?)"}},
		{"a call", func() error {
			_, err := s.FindCall(ctx, "f", "call")
			return err
		}, []string{"bunkroom_transcript_calls_id (tree=? AND call_id=?"}},
		{"since", func() error {
			_, err := s.Since(ctx, "c", 5, 10)
			return err
		}, []string{bySeq}},
		{"unsettled", func() error {
			_, err := s.Unsettled(ctx, "c")
			return err
		}, []string{"bunkroom_transcript_calls_open (tree=?)"}},
		{"unfinished", func() error {
			_, err := s.Unfinished(ctx, "", 10)
			return err
		}, []string{"bunkroom_transcripts_unfinished (conversation>?)"}},
		{"a blob", func() error {
			_, err := s.OpenBlob(ctx, "f", "0123")
			return err
		}, []string{"SEARCH u USING PRIMARY KEY (tree=? AND hash=?)"}},
		{"a fork", func() error {
			_, err := s.Fork(ctx, transcript.Fork{To: "g", From: "f", ByReference: true})
			return err
		}, []string{byName}},
		{"a copy", func() error {
			_, err := s.Fork(ctx, transcript.Fork{To: "h", From: "f"})
			return err
		}, []string{byBranch}},
		{"a purge", func() error {
			_, err := s.Purge(ctx, 10)
			return err
		}, []string{"bunkroom_transcripts_deleted"}},
		{"verify", func() error {
			_, err := s.Verify(ctx, "c")
			return err
		}, []string{bySeq}},
	} {
		t.Run(c.what, func(t *testing.T) {
			spy.reset(nil, nil)
			if err := c.do(); err != nil && !errors.Is(err, transcript.ErrNotFound) {
				t.Fatal(err)
			}
			lines := plan(t, db, spy.seen())
			all := strings.Join(lines, "\n")
			for _, line := range lines {
				what, scanned := strings.CutPrefix(line, "SCAN ")
				switch {
				case !scanned, strings.Contains(what, "VIRTUAL TABLE"), what == "p", what == "a", what == "b", what == "f", what == "n", strings.Contains(what, "CONSTANT ROW"), strings.Contains(what, "ROW VALUES"), what == "r": // what was found
				case strings.HasPrefix(what, "t USING INDEX bunkroom_transcripts_deleted"): // all that it has is asked for
				default:
					t.Errorf("%s: a table is read from end to end:\n%s", line, all)
				}
			}
			for _, index := range c.indexes {
				if !strings.Contains(all, index) {
					t.Errorf("want %s:\n%s", index, all)
				}
			}
		})
	}
}
