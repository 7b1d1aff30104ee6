package pijsonl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/pijsonl"
)

// tester is what a *testing.T, a *testing.F and a *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func inMemory() transcript.Store { return memory.New(nil).Transcripts() }

func inSQLite(t *testing.T) transcript.Store {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "bunkroom.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db.Transcripts()
}

// fixture is a session file that was written for these tests.
func fixture(t tester, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fixtures(t tester) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata", "*.jsonl"))
	if err != nil || len(found) < 4 {
		t.Fatalf("got %v, %v", found, err)
	}
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}

func open(text string, opts *pijsonl.Options) (*pijsonl.File, error) {
	return pijsonl.Open(strings.NewReader(text), int64(len(text)), opts)
}

func opened(t tester, text string) *pijsonl.File {
	t.Helper()
	f, err := open(text, &pijsonl.Options{Actor: "alice"})
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return f
}

// imported is a store that has a session as the conversation "talk".
func imported(t tester, text string) (transcript.Store, transcript.Transcript) {
	t.Helper()
	store := inMemory()
	row, err := opened(t, text).Import(context.Background(), store, "talk")
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return store, row
}

// v3 is a session file of version 3.
func v3(lines ...string) string {
	return `{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/src"}` + "\n" + strings.Join(lines, "\n") + "\n"
}

// line is an entry that follows another; empty: none.
func line(kind, id, parent, rest string) string {
	if parent = fmt.Sprintf("%q", parent); parent == `""` {
		parent = "null"
	}
	return fmt.Sprintf(`{"type":%q,"id":%q,"parentId":%s,"timestamp":"2026-01-02T03:04:06.000Z",%s}`, kind, id, parent, rest)
}

func says(id, parent, text string) string {
	return line("message", id, parent, fmt.Sprintf(`"message":{"role":"user","content":%q}`, text))
}

func answers(id, parent string, blocks ...string) string {
	return line("message", id, parent, `"message":{"role":"assistant","content":[`+strings.Join(blocks, ",")+`],"stopReason":"stop"}`)
}

func word(text string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, text) }

func calls(id string) string {
	return fmt.Sprintf(`{"type":"toolCall","id":%q,"name":"bash","arguments":{"command":"ls"}}`, id)
}

func result(id, parent, call, text string) string {
	return line("message", id, parent, fmt.Sprintf(`"message":{"role":"toolResult","toolCallId":%q,"toolName":"bash","content":[%s],"isError":false}`, call, word(text)))
}

// given is what a model is given at the head, a line for each message.
func given(t tester, s transcript.Store) string {
	t.Helper()
	entries, err := s.Context(context.Background(), "talk", transcript.Position{}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, m := range transcript.Project(entries) {
		if m.Call != nil {
			fmt.Fprintf(&b, "%s %s %s %s\n", m.Entry, m.Call.ID, m.Call.Status, m.Call.Result)
			continue
		}
		fmt.Fprintf(&b, "%s %s:", m.Entry, m.Role)
		for _, p := range m.Parts {
			if p.Call != nil {
				fmt.Fprintf(&b, " %s %s(%s)", p.Call.ID, p.Call.Name, p.Call.Arguments)
				continue
			}
			fmt.Fprintf(&b, " %s %s", p.Type, p.Data)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// all is every entry there is, oldest first.
func all(t tester, s transcript.Store, c access.ConversationID) []transcript.Entry {
	t.Helper()
	var entries []transcript.Entry
	for q := (transcript.TimelineQuery{Conversation: c, Limit: transcript.MaxListed}); ; {
		page, err := s.Timeline(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, page.Entries...)
		if q.Before = page.Next; q.Before == 0 {
			slices.Reverse(entries)
			return entries
		}
	}
}

// exported is what Export writes, but for where it is from.
func exported(t tester, s transcript.Store, c access.ConversationID) string {
	t.Helper()
	var out bytes.Buffer
	if err := transcript.Export(context.Background(), s, c, &out, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	_, entries, _ := strings.Cut(out.String(), "\n")
	return created.ReplaceAllString(entries, `"created":""`)
}

// sound looks at everything that holds of every transcript: no sum is off, nothing is open, at each entry a strict provider takes
// what a model is given, and what is exported and imported again is the same.
func sound(t tester, s transcript.Store, c access.ConversationID) {
	t.Helper()
	ctx := context.Background()
	if faults, err := s.Verify(ctx, c); err != nil || len(faults) > 0 {
		t.Fatalf("%q, %v", faults, err)
	}
	if open, err := s.Unsettled(ctx, c); err != nil || open.InTurn || open.Draft != nil || len(open.Calls) > 0 {
		t.Fatalf("left open: %+v, %v", open, err)
	}
	entries := all(t, s, c)
	for _, e := range entries[max(0, len(entries)-200):] {
		given, err := s.Context(ctx, c, transcript.After(e.ID), 100_000)
		if err == nil {
			err = strict(transcript.Project(given))
		}
		if err != nil {
			t.Fatalf("at %s: %v", e.ID, err)
		}
	}
	before := exported(t, s, c)
	var out bytes.Buffer
	if err := transcript.Export(ctx, s, c, &out, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := transcript.Import(ctx, s, c+" again", &out); err != nil {
		t.Fatalf("what was exported: %v", err)
	}
	if after := exported(t, s, c+" again"); after != before {
		t.Fatalf("exported and imported again:\n%s\nwas\n%s", after, before)
	}
}

// strict takes what the strictest provider does: each call is answered once, right behind the message that calls, and nothing is empty.
func strict(messages []transcript.Message) error {
	var open []transcript.CallID
	for i, m := range messages {
		if m.Role == transcript.RoleTool {
			if len(open) == 0 || m.Call == nil || m.Call.ID != open[0] || !m.Call.Status.Settled() {
				return fmt.Errorf("message %d answers %+v, and %v are waited for", i, m.Call, open)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 || len(m.Parts) == 0 {
			return fmt.Errorf("message %d has %d parts, and %v are waited for", i, len(m.Parts), open)
		}
		for _, p := range m.Parts {
			switch {
			case p.Call != nil && (m.Role != transcript.RoleAssistant || slices.Contains(open, p.Call.ID)):
				return fmt.Errorf("message %d of the %s calls %s", i, m.Role, p.Call.ID)
			case p.Call != nil:
				open = append(open, p.Call.ID)
			case transcript.Texts(p) && p.Blob == nil && strings.TrimSpace(p.Text()) == "":
				return fmt.Errorf("message %d has a part without text", i)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%v are not answered", open)
	}
	return nil
}

// lineOf is the number of the line that an error blames; 0: none.
func lineOf(err error) int {
	if at, ok := errors.AsType[*transcript.LineError](err); ok {
		return at.Line
	}
	return 0
}
