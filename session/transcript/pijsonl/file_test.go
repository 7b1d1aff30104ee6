package pijsonl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/pijsonl"
)

var created = regexp.MustCompile(`"created":"[^"]*"`)

// Every version, and every type of line, becomes what is written beside it.
func TestFixtures(t *testing.T) {
	for _, name := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", strings.TrimSuffix(name, "jsonl")+"golden"))
			if err != nil {
				t.Fatal(err)
			}
			for in, store := range map[string]transcript.Store{"memory": inMemory(), "sqlite": inSQLite(t)} {
				row, err := opened(t, fixture(t, name)).Import(t.Context(), store, "talk")
				if err != nil {
					t.Fatal(err)
				}
				if loaded, err := store.Load(t.Context(), "talk"); err != nil || loaded != row || row.Status != transcript.Active {
					t.Errorf("%s: got %+v, and loaded %+v, %v", in, row, loaded, err)
				}
				got := exported(t, store, "talk") + "\n" + given(t, store)
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("%s: %s", in, diff)
				}
				sound(t, store, "talk")
			}
		})
	}
}

// The header says where a session is from, whatever the version calls it.
func TestHeader(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for name, want := range map[string]pijsonl.Header{
		"v1.jsonl": {ID: "6f1c2b7e-0000-4000-8000-000000000001", Version: 1, Created: at("2025-11-30T08:00:00Z"), Dir: "/srv/garden", Parent: "/srv/old.jsonl", Provider: "acme", Model: "acme-1", Thinking: "low"},
		"v2.jsonl": {ID: "6f1c2b7e-0000-4000-8000-000000000002", Version: 2, Created: at("2025-12-28T09:00:00Z"), Dir: "/srv/garden"},
		"v3.jsonl": {ID: "6f1c2b7e-0000-4000-8000-000000000003", Version: 3, Created: at("2026-05-01T07:00:00Z"), Dir: "/srv/garden", Parent: "/srv/before.jsonl"},
	} {
		text := fixture(t, name)
		f := opened(t, text)
		first, rest, _ := strings.Cut(text, "\n")
		want.Line = json.RawMessage(first)
		if diff := cmp.Diff(want, f.Header()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if n := strings.Count(rest, "\n"); f.Entries() != n {
			t.Errorf("%s: %d entries, want %d", name, f.Entries(), n)
		}
		if named := map[bool]string{true: "The garden"}[name == "v3.jsonl"]; f.Name() != named {
			t.Errorf("%s is named %q, want %q", name, f.Name(), named)
		}
	}
}

// The reader is one, however it is read; and it may be read again.
func TestReader(t *testing.T) {
	for _, name := range fixtures(t) {
		f := opened(t, fixture(t, name))
		for range 2 {
			if err := iotest.TestReader(f.Reader(), readAll(t, f)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func readAll(t tester, f *pijsonl.File) []byte {
	t.Helper()
	text, err := io.ReadAll(f.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A line that the store refuses is told by its number in the file, which has lines that are nothing; and nothing is left of the import.
func TestImportRefused(t *testing.T) {
	deep := strings.Repeat("[", transcript.MaxNesting) + strings.Repeat("]", transcript.MaxNesting)
	many := strings.TrimSuffix(strings.Repeat(word("x")+",", transcript.MaxParts+1), ",")
	for what, bad := range map[string]string{
		"too deep":       line("custom", "b", "a", `"data":`+deep),
		"too many parts": answers("b", "a", many),
		"too many calls": answers("b", "a", slices.Repeat([]string{`{"type":"toolCall","id":"c","name":"x"}`}, 100_000)...), // of which none is looked for
	} {
		text := v3(says("a", "", "hello"), says("a", "", "hello"), "", bad, says("c", "b", "more"))
		store := inMemory()
		_, err := opened(t, text).Import(t.Context(), store, "talk")
		if lineOf(err) != 5 {
			t.Errorf("%s: got error %v, want one of line 5", what, err)
		}
		if _, err := store.Load(t.Context(), "talk"); !errors.Is(err, transcript.ErrNotFound) {
			t.Errorf("%s: what is left: %v", what, err)
		}
	}
}

// A conversation that has something is not imported to, and that is no line's fault.
func TestImportToSomething(t *testing.T) {
	store, _ := imported(t, v3(says("a", "", "hello")))
	_, err := opened(t, v3(says("b", "", "hello"))).Import(t.Context(), store, "talk")
	if !errors.Is(err, transcript.ErrExists) || lineOf(err) != 0 {
		t.Errorf("got error %v, want ErrExists", err)
	}
	if got := all(t, store, "talk"); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("got %+v", got)
	}
}

// source is a file that can be meddled with after it was opened.
type source struct {
	text []byte
	err  error // of what is read from 300 on
}

func (s *source) ReadAt(p []byte, at int64) (int, error) {
	if s.err != nil && at >= 300 {
		return 0, s.err
	}
	return bytes.NewReader(s.text).ReadAt(p, at)
}

// What can't be read a second time, or is not what it was, is no line's fault, and nothing is left of the import.
func TestImportFromWhatChanges(t *testing.T) {
	disk := errors.New("the disk is gone")
	for what, c := range map[string]struct {
		meddle func(*source)
		want   error
	}{
		"it can't be read":  {func(s *source) { s.err = disk }, disk},
		"it is cut off":     {func(s *source) { s.text = s.text[:400] }, io.ErrUnexpectedEOF},
		"it has changed":    {func(s *source) { copy(s.text[bytes.LastIndex(s.text, []byte("hello")):], "HELLO") }, nil},
		"it is another one": {func(s *source) { s.text = bytes.Repeat([]byte("x"), len(s.text)) }, nil},
	} {
		s := &source{text: []byte(v3(says("a", "", "hello"), says("b", "a", "hello"), says("c", "b", "hello"), says("d", "c", "hello")))}
		f, err := pijsonl.Open(s, int64(len(s.text)), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.meddle(s)
		store := inMemory()
		_, err = f.Import(t.Context(), store, "talk")
		if err == nil || c.want != nil && !errors.Is(err, c.want) || lineOf(err) != 0 {
			t.Errorf("%s: got error %v, want %v", what, err, c.want)
		}
		if _, err := store.Load(t.Context(), "talk"); !errors.Is(err, transcript.ErrNotFound) {
			t.Errorf("%s: what is left: %v", what, err)
		}
	}
}

// What can't be read at first is the source's error.
func TestOpenWhatCannotBeRead(t *testing.T) {
	disk := errors.New("the disk is gone")
	s := &source{text: []byte(v3(says("a", "", strings.Repeat("hello ", 20_000)))), err: disk}
	if _, err := pijsonl.Open(s, int64(len(s.text)), nil); !errors.Is(err, disk) || lineOf(err) != 0 {
		t.Errorf("got error %v", err)
	}
}

// An import ends with its context, and leaves nothing.
func TestImportCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := inMemory()
	f := opened(t, v3(says("a", "", "hello")))
	cancel()
	if _, err := f.Import(ctx, store, "talk"); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
}

// Bad options are told by their field.
func TestOpenRefuses(t *testing.T) {
	for field, open := range map[string]func() error{
		"src":  func() error { _, err := pijsonl.Open(nil, 0, nil); return err },
		"size": func() error { _, err := pijsonl.Open(strings.NewReader(""), -1, nil); return err },
		"Actor": func() error {
			_, err := open(v3(), &pijsonl.Options{Actor: access.UserID(strings.Repeat("x", 300))})
			return err
		},
	} {
		if wrong, ok := errors.AsType[*access.FieldError](open()); !ok || wrong.Field != field {
			t.Errorf("%s: got %v", field, wrong)
		}
	}
}

// The portable form stays that of package transcript: no field of a line is one that it does not know, or has another name there.
func TestPortable(t *testing.T) {
	store, _ := imported(t, fixture(t, "v3.jsonl"))
	lines := strings.Split(strings.TrimSpace(string(readAll(t, opened(t, fixture(t, "v3.jsonl"))))), "\n")
	again := strings.Split(strings.TrimSpace(exported(t, store, "talk")), "\n")
	if len(lines) != len(again)+1 {
		t.Fatalf("%d lines, want %d", len(lines), len(again)+1)
	}
	for i, want := range again {
		var a, b any
		if err := errors.Join(json.Unmarshal([]byte(created.ReplaceAllString(lines[i+1], `"created":""`)), &a), json.Unmarshal([]byte(want), &b)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("line %d: %s", i+2, diff)
		}
	}
	if want := fmt.Sprintf(`{"transcript":{"version":1,"conversation":%q,"exported":"2026-05-01T07:00:00Z"}}`, "6f1c2b7e-0000-4000-8000-000000000003"); lines[0] != want {
		t.Errorf("got %s, want %s", lines[0], want)
	}
}
