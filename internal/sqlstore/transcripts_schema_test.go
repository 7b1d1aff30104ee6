package sqlstore_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The schema itself makes impossible what no code should write: edges to
// nowhere, edges into other conversations but those that a fork reads, and rows that outlive their tree.
func TestTranscriptSchemaRules(t *testing.T) {
	db := migrated(t, nil)
	s := db.Transcripts()
	planted(t, s, "c", 3)
	planted(t, s, "d", 3)
	if _, err := s.Fork(t.Context(), transcript.Fork{To: "f", From: "d", ByReference: true}); err != nil {
		t.Fatal(err)
	}
	tree := func(c string) int {
		return count(t, db, "SELECT tree FROM bunkroom_transcripts WHERE conversation = ?", c)
	}
	c, d, f := tree("c"), tree("d"), tree("f")
	const (
		branch = `INSERT INTO bunkroom_transcript_branches (tree, branch, origin, parent_tree, parent_branch, parent_depth) VALUES (?, ?, 1, ?, ?, ?)`
		entry  = `INSERT INTO bunkroom_transcript_entries (tree, seq, id, branch, depth, parent, kind, hash, bytes, context, whole, input, output, cache_read, cache_write, cost, created_at, preview, body)
			VALUES (?, ?, ?, ?, ?, '', 'user', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '{}')`
		call = `INSERT INTO bunkroom_transcript_calls (tree, seq, call_id, status, settled_at) VALUES (?, ?, ?, ?, ?)`
	)
	run(t, db, branch, f, 100, d, 1, 2) // a fork may
	for _, bad := range []struct {
		rule string
		text string
		args []any
	}{
		{"a branch of another conversation's entry", branch, []any{c, 100, d, 1, 2}},
		{"a branch of an entry that is not there", branch, []any{c, 101, c, 1, 50}},
		{"a branch that is older than what it follows", branch, []any{c, 1, c, 1, 2}},
		{"a branch of nobody's", branch, []any{77, 1, nil, nil, 0}},
		{"a parent at a depth without a tree", branch, []any{c, 102, nil, nil, 3}},
		{"an entry of a branch that is not there", entry, []any{c, 100, "x", 90, 1}},
		{"an entry of another conversation's branch", entry, []any{c, 100, "x", 100, 1}},
		{"two entries in one place", entry, []any{c, 100, "x", 1, 2}},
		{"two entries of one id", entry, []any{c, 100, "a1", 1, 50}},
		{"two entries of one seq", entry, []any{c, 1, "x", 1, 50}},
		{"a call of nothing", call, []any{c, 100, "call", "pending", nil}},
		{"a call that is settled and open", call, []any{c, 1, "call", "failed", nil}},
		{"an entry under those that follow", `DELETE FROM bunkroom_transcript_branches WHERE tree = ? AND branch = 1`, []any{c}},
		{"a source under who reads it", `DELETE FROM bunkroom_transcripts WHERE tree = ?`, []any{d}},
		{"two of one conversation", `INSERT INTO bunkroom_transcripts (conversation, status, version, last_seq, created_at, updated_at) VALUES ('c', 'archived', 1, 0, 1, 1)`, nil},
		{"a head that is nowhere", `UPDATE bunkroom_transcripts SET head_id = '' WHERE tree = ?`, []any{c}},
	} {
		if _, err := db.SQL().ExecContext(t.Context(), bad.text, bad.args...); err == nil || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%s: got %v, want a constraint that refuses it", bad.rule, err)
		}
	}
}

// Verify names each sum that was tampered with.
func TestVerifyFindsWhatDiffers(t *testing.T) {
	for _, c := range []struct{ text, fault string }{
		{"UPDATE bunkroom_transcripts SET entries = entries + 1", "number of entries"},
		{"UPDATE bunkroom_transcripts SET bytes = bytes - 1", "number of bytes"},
		{"UPDATE bunkroom_transcripts SET cost = cost + 1", "the usage"},
		{"UPDATE bunkroom_transcripts SET open_calls = 0", "open calls"},
		{"UPDATE bunkroom_transcripts SET last_seq = last_seq + 1", "newest seq"},
		{"UPDATE bunkroom_transcripts SET head_id = 'nowhere'", "not there"},
		{"UPDATE bunkroom_transcripts SET head_depth = head_depth + 1", "where the head is"},
		{"UPDATE bunkroom_transcripts SET head_input = head_input + 1", "sums of the head's path"},
		{"UPDATE bunkroom_transcript_entries SET parent = 'a1' WHERE id = 'a3'", "what a3 follows"},
	} {
		db := migrated(t, nil)
		planted(t, db.Transcripts(), "c", 3)
		run(t, db, c.text)
		faults, err := db.Transcripts().Verify(t.Context(), "c")
		if err != nil || len(faults) == 0 || !strings.Contains(strings.Join(faults, "; "), c.fault) {
			t.Errorf("%s: got %q, %v, want %q", c.text, faults, err, c.fault)
		}
	}
}

// A database of any earlier version is brought to this one, and has transcripts then.
func TestTranscriptsAfterUpgrade(t *testing.T) {
	all, err := fs.ReadDir(sqlstore.Migrations("sqlite"), ".")
	if err != nil {
		t.Fatal(err)
	}
	for n := range all {
		db := empty(t, nil)
		for _, f := range all[:n] {
			text, err := fs.ReadFile(sqlstore.Migrations("sqlite"), f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(string(text), "\n--bun:split\n") {
				run(t, db, part)
			}
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatalf("from version %d: %v", n, err)
		}
		if err := db.CheckSchema(t.Context()); err != nil {
			t.Errorf("from version %d: %v", n, err)
		}
		planted(t, db.Transcripts(), "c", 3)
		if got := fmt.Sprint(len(picture(t, db.Transcripts(), "c")["path"].(transcript.PathPage).Entries)); got != "5" {
			t.Errorf("from version %d: %s entries", n, got)
		}
	}
}
