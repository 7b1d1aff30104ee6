package pijsonl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/pijsonl"
)

// Whatever a file is, it is refused, or becomes a conversation of which everything holds that holds of any.
func FuzzOpen(f *testing.F) {
	for _, name := range fixtures(f) {
		f.Add([]byte(fixture(f, name)), true)
	}
	f.Add([]byte(v3(says("a", "", "1"), "{", says("b", "z", "2"), says("a", "", "3"))), true)
	f.Add([]byte(v3(line("message", "a", "", `"message":{"role":"assistant","content":[{"type":"toolCall"},{"type":"toolCall","id":"\u0000"}]}`))), false)
	f.Fuzz(func(t *testing.T, text []byte, skips bool) {
		file, err := pijsonl.Open(bytes.NewReader(text), int64(len(text)), &pijsonl.Options{Skip: func(int, error) bool { return skips }})
		if err != nil {
			if lineOf(err) == 0 && !errors.Is(err, pijsonl.ErrVersion) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		portable, err := io.ReadAll(file.Reader())
		if err != nil {
			if lineOf(err) == 0 {
				t.Fatalf("got error %v", err)
			}
			return
		}
		lines := bytes.Split(bytes.TrimSuffix(portable, []byte("\n")), []byte("\n"))
		if len(lines) != file.Entries()+2 {
			t.Fatalf("%d lines of %d entries", len(lines), file.Entries())
		}
		for _, l := range lines {
			if !json.Valid(l) {
				t.Fatalf("no JSON: %s", l)
			}
		}
		store := inMemory()
		if _, err := file.Import(t.Context(), store, "talk"); err != nil {
			if lineOf(err) == 0 {
				t.Fatalf("got error %v", err)
			}
			return
		}
		if got := len(all(t, store, "talk")); got != file.Entries() {
			t.Fatalf("%d entries, want %d", got, file.Entries())
		}
		sound(t, store, "talk")
	})
}

// session draws a session as pi may have written it, with branches, calls that were answered somewhere or nowhere, and cuts anywhere.
func session(t *rapid.T) string {
	pick := func(what string, of []string) string { return rapid.SampledFrom(of).Draw(t, what) }
	var lines, ids []string
	at := ""
	for i := range rapid.IntRange(0, 25).Draw(t, "entries") {
		id := fmt.Sprintf("%08x", i)
		if len(ids) > 0 && rapid.IntRange(0, 4).Draw(t, "branch") == 0 {
			at = pick("from", append(ids, ""))
		}
		some := append([]string{"nowhere"}, ids...)
		text := pick("text", []string{"", "hello", "two\nlines"})
		call := pick("call", []string{"c1", "c2", "c3"})
		switch rapid.IntRange(0, 11).Draw(t, "what") {
		case 0, 1:
			lines = append(lines, says(id, at, text))
		case 2, 3, 4:
			blocks := []string{word(text)}
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				blocks = append(blocks, calls(pick("id", []string{"c1", "c2", "c3"})))
			}
			lines = append(lines, answers(id, at, blocks...))
		case 5, 6, 7:
			lines = append(lines, result(id, at, call, text))
		case 8:
			lines = append(lines, line("compaction", id, at, fmt.Sprintf(`"summary":%q,"firstKeptEntryId":%q,"tokensBefore":7`, text, pick("kept", some))))
		case 9:
			lines = append(lines, line("label", id, at, fmt.Sprintf(`"targetId":%q,"label":%q`, pick("target", some), text)))
		case 10:
			lines = append(lines, line(pick("type", []string{"custom", "leaf", "model_change", "new"}), id, at, fmt.Sprintf(`"targetId":%q`, pick("target", some))))
		default:
			lines = append(lines, line("branch_summary", id, at, fmt.Sprintf(`"summary":%q,"fromId":"x"`, text)))
		}
		ids = append(ids, id)
		at = id
	}
	return v3(lines...)
}

// Whatever pi has done, the tree is the same, everything holds that holds of any conversation, and no result is another call's.
func TestSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := session(t)
		store, row := imported(t, text)
		entries := all(t, store, "talk")
		lines := strings.Split(strings.TrimSpace(text), "\n")[1:]
		if len(entries) != len(lines) || row.Entries != int64(len(lines)) {
			t.Fatalf("%d entries of %d lines", len(entries), len(lines))
		}
		for i, e := range entries {
			var was struct {
				ID     string
				Parent string `json:"parentId"`
			}
			if err := json.Unmarshal([]byte(lines[i]), &was); err != nil {
				t.Fatal(err)
			}
			if string(e.ID) != was.ID || string(e.Parent.Entry) != was.Parent {
				t.Fatalf("entry %d is %s after %s, want %s after %s", i, e.ID, e.Parent.Entry, was.ID, was.Parent)
			}
			if e.Kind == transcript.KindAssistant && row.Usage != (transcript.Usage{}) {
				t.Fatalf("nothing was used, and %+v is counted", row.Usage)
			}
		}
		sound(t, store, "talk")
	})
}
