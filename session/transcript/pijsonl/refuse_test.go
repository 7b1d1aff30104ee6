package pijsonl_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
	"github.com/bunkroom/bunkroom/session/transcript/pijsonl"
)

// What is no session, or no tree, is refused by the number of its line; where it may be left out, that is asked once.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		rule string
		text string
		line int
		left string // of the model's context, where the line is left out; empty: it can't be
	}{
		{"an empty file", "", 1, ""},
		{"only empty lines", "\n \n", 1, ""},
		{"a first line that is no JSON", "hello\n", 1, ""},
		{"a first line that is no header", says("a", "", "1") + "\n", 1, ""},
		{"a header without an id", `{"type":"session","version":3}` + "\n", 1, ""},
		{"a header that is null", "\nnull\n", 2, ""},
		{"a line that is no JSON", v3(says("a", "", "1"), `{"type":"message",`, says("b", "a", "2")), 3, "a b"},
		{"a line that was not written to its end", strings.TrimSuffix(v3(says("a", "", "1"), `{"type":"message","id":"b","par`), "\n"), 3, "a"},
		{"two things on a line", v3(says("a", "", "1") + says("b", "a", "2")), 2, " "},
		{"a line that is no object", v3(`["message"]`, says("a", "", "1")), 2, "a"},
		{"a line that is null", v3("null", says("a", "", "1")), 2, "a"},
		{"an entry without a type", v3(`{"id":"a","parentId":null}`, says("b", "", "1")), 2, "b"},
		{"an entry without an id", v3(`{"type":"message","parentId":null}`, says("b", "", "1")), 2, "b"},
		{"an id that is too long", v3(says(strings.Repeat("i", 257), "", "1"), says("b", "", "1")), 2, "b"},
		{"an id that another entry has", v3(says("a", "", "1"), says("a", "", "2"), says("b", "a", "3")), 3, "a b"},
		{"a parent that is not there", v3(says("a", "", "1"), says("b", "z", "2"), says("c", "b", "3")), 3, "b c"},
		{"a parent that comes later", v3(says("a", "b", "1"), says("b", "", "2")), 2, "b"},
		{"a parent that is the entry itself", v3(says("a", "a", "1")), 2, "a"},
		{"a parent that is no text", v3(strings.Replace(says("a", "", "1"), "null", "7", 1), says("b", "", "2")), 2, "b"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := open(c.text, nil)
			if got := lineOf(err); got != c.line {
				t.Fatalf("got error %v of line %d, want one of line %d", err, got, c.line)
			}
			var told []int
			skip := func(line int, why error) bool {
				if why == nil {
					t.Error("it is not told why")
				}
				told = append(told, line)
				return true
			}
			f, err := open(c.text, &pijsonl.Options{Skip: skip})
			if c.left == "" {
				if lineOf(err) != c.line || len(told) > 0 {
					t.Errorf("where lines may be left out: got error %v, and was told %v", err, told)
				}
				return
			}
			if err != nil || !cmp.Equal(told, []int{c.line}) {
				t.Fatalf("where lines may be left out: got error %v, and was told %v", err, told)
			}
			store := inMemory()
			if _, err := f.Import(t.Context(), store, "talk"); err != nil {
				t.Fatal(err)
			}
			var left []string
			for _, said := range strings.Split(strings.TrimSpace(given(t, store)), "\n") {
				id, _, _ := strings.Cut(said, " ")
				left = append(left, id)
			}
			if got := strings.Join(left, " "); got != strings.TrimSpace(c.left) {
				t.Errorf("left is %q, want %q", got, c.left)
			}
			sound(t, store, "talk")

			told = nil
			_, err = open(c.text, &pijsonl.Options{Skip: func(line int, _ error) bool { told = append(told, line); return false }})
			if lineOf(err) != c.line || !cmp.Equal(told, []int{c.line}) {
				t.Errorf("where this may not be: got error %v, and was told %v", err, told)
			}
		})
	}
}

// A version that is not known is not guessed at, and can't be left out.
func TestVersions(t *testing.T) {
	for _, version := range []string{"0", "4", "-1", "1.5", `"3"`, "[]"} {
		text := fmt.Sprintf(`{"type":"session","version":%s,"id":"s"}`, version)
		if _, err := open(text, &pijsonl.Options{Skip: func(int, error) bool { return true }}); !errors.Is(err, pijsonl.ErrVersion) {
			t.Errorf("version %s: got error %v, want ErrVersion", version, err)
		}
	}
	for text, want := range map[string]int{"": 1, `,"version":null`: 1, `,"version":1`: 1, `,"version":2`: 2, `,"version":3`: 3} {
		f, err := open(`{"type":"session","id":"s"`+text+`}`, nil)
		if err != nil || f.Header().Version != want || f.Entries() != 0 {
			t.Errorf("%q: got %+v, %v, want version %d", text, f, err, want)
		}
	}
}

// In version 1 entries have no ids and follow each other; what is counted are the lines that pi can read, from the header on.
func TestVersion1(t *testing.T) {
	say := func(text string) string {
		return fmt.Sprintf(`{"type":"message","message":{"role":"user","content":%q}}`, text)
	}
	for rule, c := range map[string]struct{ kept, want string }{
		"the third of the lines":        {`"firstKeptEntryIndex":2`, "line-7 line-5"},
		"the header: all that is there": {`"firstKeptEntryIndex":0`, "line-7 line-2 line-5"},
		"the compaction itself":         {`"firstKeptEntryIndex":3`, "line-7"},
		"what is after everything":      {`"firstKeptEntryIndex":99`, "line-7"},
		"what is before everything":     {`"firstKeptEntryIndex":-1`, "line-7"},
		"nothing":                       {`"firstKeptEntryIndex":null`, "line-7"},
		"what is no number":             {`"firstKeptEntryIndex":"2"`, "line-7"},
	} {
		text := strings.Join([]string{`{"type":"session","id":"s"}`, say("1"), "", "{", say("2"), "", `{"type":"compaction","summary":"s",` + c.kept + `}`}, "\n")
		f, err := open(text, &pijsonl.Options{Skip: func(int, error) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		store := inMemory()
		if _, err := f.Import(t.Context(), store, "talk"); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, said := range strings.Split(strings.TrimSpace(given(t, store)), "\n") {
			id, _, _ := strings.Cut(said, " ")
			ids = append(ids, id)
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", rule, got, c.want)
		}
		sound(t, store, "talk")
	}
}

// A line that is too long is none that could be left out.
func TestLongLine(t *testing.T) {
	_, err := open(v3(strings.Repeat(" ", pijsonl.MaxLine+1)), &pijsonl.Options{Skip: func(int, error) bool { return true }})
	if over, ok := errors.AsType[*transcript.LimitError](err); !ok || over.Max != pijsonl.MaxLine {
		t.Errorf("got error %v, want *LimitError of %d", err, pijsonl.MaxLine)
	}
}

// A second header is no entry, but pi counts it among the lines of version 1.
func TestSecondHeader(t *testing.T) {
	head, say := `{"type":"session","id":"s"}`, `{"type":"message","message":{"role":"user","content":"x"}}`
	f := opened(t, strings.Join([]string{head, say, head, say, `{"type":"compaction","summary":"s","firstKeptEntryIndex":3}`}, "\n"))
	store := inMemory()
	if _, err := f.Import(t.Context(), store, "talk"); err != nil || f.Entries() != 3 {
		t.Fatalf("%d entries, %v", f.Entries(), err)
	}
	if got := all(t, store, "talk")[2].Compaction.FirstKept; got != "line-4" {
		t.Errorf("it keeps %s, want line-4", got)
	}
}

// repeated is a header, and the same line again and again.
type repeated struct {
	head, line []byte
	times      int64
}

func (r repeated) size() int64 { return int64(len(r.head)) + r.times*int64(len(r.line)) }

func (r repeated) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) && at < r.size() {
		from := r.head[min(at, int64(len(r.head))):]
		if len(from) == 0 {
			from = r.line[(at-int64(len(r.head)))%int64(len(r.line)):]
		}
		done := copy(p[n:], from)
		n, at = n+done, at+int64(done)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// What is kept of a file is its entries' places, however large they are; and what is read of it is a line at a time.
func TestMemory(t *testing.T) {
	say := fmt.Sprintf(`{"type":"message","message":{"role":"user","content":%q}}`, strings.Repeat("word ", 8<<10))
	r := repeated{[]byte(`{"type":"session","id":"s"}` + "\n"), []byte(say + "\n"), 200}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	f, err := pijsonl.Open(r, r.size(), nil)
	if err != nil || f.Entries() != 200 {
		t.Fatal(err)
	}
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("of a file of %d bytes %d are kept", r.size(), kept)
	}
	read, buf, most := f.Reader(), make([]byte, 32<<10), int64(0)
	for n := 0; ; n++ {
		_, err := read.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n%50 == 0 {
			most = max(most, heap()-before)
		}
	}
	if most > 2<<20 {
		t.Errorf("to read a file of %d bytes takes %d", r.size(), most)
	}
	runtime.KeepAlive(f)
}

// Whoever says what the user has said is said to have.
func TestActor(t *testing.T) {
	store, _ := imported(t, v3(says("a", "", "1"), answers("b", "a", word("2"))))
	var actors []access.UserID
	for _, e := range all(t, store, "talk") {
		actors = append(actors, e.Actor)
	}
	if !cmp.Equal(actors, []access.UserID{"alice", ""}) {
		t.Errorf("got %q", actors)
	}
}
