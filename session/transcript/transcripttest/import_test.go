package transcripttest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// exportable is a transcript of ten entries, their labels and two refs, and its lines:
// 1 is what it is, 2 to 11 are the entries, 12 and 13 the refs, 14 is the end.
func exportable(b *bench) []string {
	b.Helper()
	b.create(talk)
	b.grow(talk, head(), numbered("e", 8)...)
	b.grow(talk, transcript.After("e0003"), "branch")
	b.commit(transcript.Change{Append: []transcript.NewEntry{calls("work", "c1")}})
	b.commit(labels("e0002", "x"))
	b.commit(refers("main", transcript.After("e0007"), 0))
	b.commit(refers("other", transcript.After("branch"), 0))
	lines := strings.Split(strings.TrimSpace(string(b.exported(talk))), "\n")
	if len(lines) != 14 {
		b.Fatalf("there are %d lines", len(lines))
	}
	return lines
}

// Whatever line is broken, and however, the error has its number, and nothing is left.
func TestImportNamesTheLine(t *testing.T) {
	b := &bench{TB: t, rule: "Every line that is broken is a *LineError with its number, and nothing is left.", store: inMemory()}
	whole := exportable(b)
	replaced := func(n int, from, to string) func([]string) []string {
		return func(lines []string) []string {
			if !strings.Contains(lines[n-1], from) {
				b.Fatalf("line %d has no %s: %s", n, from, lines[n-1])
			}
			lines[n-1] = strings.ReplaceAll(lines[n-1], from, to)
			return lines
		}
	}
	without := func(n int) func([]string) []string {
		return func(lines []string) []string { return slices.Delete(lines, n-1, n) }
	}
	with := func(n int, line string) func([]string) []string {
		return func(lines []string) []string { return slices.Insert(lines, n-1, line) }
	}
	for _, c := range []struct {
		what  string
		spoil func([]string) []string
		line  int
		why   error // or nil: any
	}{
		{"no JSON", with(5, "{"), 5, nil},
		{"something else", with(5, `"text"`), 5, nil},
		{"nothing that is known", with(5, `{"later":1}`), 5, nil},
		{"nothing at all", with(5, `{}`), 5, nil},
		{"two things on one line", with(5, whole[4]+whole[5]), 5, nil},
		{"no first line", without(1), 1, nil},
		{"two first lines", with(2, whole[0]), 2, nil},
		{"a later form", replaced(1, `"version":1`, `"version":2`), 1, nil},
		{"an entry that is missing", without(4), 4, transcript.ErrNotFound},
		{"an entry that is missing before another branch", without(5), 5, transcript.ErrNotFound},
		{"one entry too few", without(11), 13, nil},
		{"no end", without(14), 14, nil},
		{"two ends", with(15, whole[13]), 15, nil},
		{"an entry behind the end", with(15, whole[10]), 15, nil},
		{"no kind", replaced(6, `"kind":"user"`, `"kind":""`), 6, nil},
		{"a part that is no object", replaced(7, `{"text":`, `["text",`), 7, nil},
		{"a call of a user", replaced(11, `"kind":"assistant"`, `"kind":"user"`), 11, nil},
		{"a status of nobody", replaced(11, `"status":"pending"`, `"status":"done"`), 11, nil},
		{"an entry twice", with(6, whole[4]), 6, transcript.ErrExists},
		{"an entry twice, at once", with(8, whole[6]), 8, transcript.ErrExists},
		{"an entry twice, with other content", func(lines []string) []string {
			return slices.Insert(lines, 7, strings.Replace(lines[6], "what about", "not", 1))
		}, 8, nil},
		{"an entry of the last batch", replaced(9, `"parent":"e0006"`, `"parent":"nobody"`), 9, transcript.ErrNotFound},
		{"what a compaction keeps", with(12, `{"entry":{"id":"k","parent":"work","kind":"compaction","created":"2026-03-04T05:06:07Z","compaction":{"summary":"","first_kept":"e0007","tokens_before":1}}}`), 12, nil},
		{"a label", replaced(4, `"labels":["x"]`, `"labels":["x",""]`), 4, nil},
		{"a ref to nowhere", replaced(13, `"at":"branch"`, `"at":"nobody"`), 13, transcript.ErrNotFound},
		{"a ref without a name", replaced(12, `"name":"main"`, `"name":""`), 12, nil},
		{"a ref twice", with(14, whole[12]), 14, nil},
		{"a head that is nowhere", replaced(14, `"head":"work"`, `"head":"nobody"`), 14, transcript.ErrNotFound},
		{"nothing", func([]string) []string { return nil }, 1, nil},
	} {
		for _, blank := range []int{0, 3} { // lines of nothing count
			lines := c.spoil(slices.Clone(whole))
			line := c.line
			if blank > 0 && line > blank {
				lines = slices.Insert(lines, blank, "", "  ")
				line += 2
			}
			_, err := transcript.Import(b.Context(), b.store, other, strings.NewReader(strings.Join(lines, "\n")))
			got, ok := find[*transcript.LineError](err)
			switch {
			case !ok:
				t.Errorf("%s: got error %v", c.what, err)
			case got.Line != line || c.why != nil && !errors.Is(err, c.why):
				t.Errorf("%s: got %v, want line %d and %v", c.what, err, line, c.why)
			}
			if b.left(other) {
				t.Errorf("%s: something is left", c.what)
			}
		}
	}
	b.imported(other, []byte(strings.Join(whole, "\n")))
	b.same("after all that", b.picture(other).carried(), b.picture(talk).carried())
	broken := errors.New("cut off")
	_, err := transcript.Import(b.Context(), b.store, third, cutOff{strings.NewReader(strings.Join(whole[:6], "\n") + "\n"), broken})
	if line, ok := find[*transcript.LineError](err); !ok || line.Line != 7 || !errors.Is(err, broken) || b.left(third) {
		t.Errorf("cut off: got %v", err)
	}
}

// Wherever a process dies in the middle of an import, the next begins anew.
func TestImportAfterACrash(t *testing.T) {
	b := &bench{TB: t, rule: "What a process that died has left of an import is thrown away by the next.", store: inMemory()}
	lines := []byte(strings.Join(exportable(b), "\n"))
	died := errors.New("died")
	for n := 0; ; n++ {
		to := access.ConversationID(fmt.Sprint("to ", n))
		commits := 0
		dead := committing{b.store, func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			if commits++; commits > n {
				return transcript.Committed{}, died
			}
			return b.store.Commit(ctx, c)
		}}
		_, err := transcript.Import(b.Context(), dead, to, bytes.NewReader(lines))
		if err == nil {
			if n < 4 {
				t.Errorf("there were only %d commits", n)
			}
			return
		}
		if _, ok := find[*transcript.LineError](err); ok || !errors.Is(err, died) {
			t.Errorf("commit %d: got %v, want the store's error and no line to blame", n, err)
		}
		b.imported(to, lines)
		b.same(fmt.Sprint("after commit ", n), b.picture(to).carried(), b.picture(talk).carried())
	}
}

// Replies that are lost, and commits that could not be made, are no line's fault.
func TestImportWhereTheStoreFails(t *testing.T) {
	b := &bench{TB: t, rule: "A lost reply is asked for again; what fails leaves nothing.", store: inMemory()}
	lines := []byte(strings.Join(exportable(b), "\n"))
	for n := range 5 {
		to := access.ConversationID(fmt.Sprint("lost ", n))
		commits := 0
		lossy := committing{b.store, func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			done, err := b.store.Commit(ctx, c)
			if commits++; commits == n+2 && err == nil {
				return transcript.Committed{}, fmt.Errorf("%w: the line is dead", transcript.ErrUnknown)
			}
			return done, err
		}}
		if _, err := transcript.Import(b.Context(), lossy, to, bytes.NewReader(lines)); err != nil {
			t.Fatalf("reply %d: %v", n, err)
		}
		b.same(fmt.Sprint("reply ", n), b.picture(to).carried(), b.picture(talk).carried())
		to = access.ConversationID(fmt.Sprint("busy ", n))
		commits = 0
		busy := committing{b.store, func(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
			if commits++; commits == n+2 {
				return transcript.Committed{}, transcript.ErrBusy
			}
			return b.store.Commit(ctx, c)
		}}
		_, err := transcript.Import(b.Context(), busy, to, bytes.NewReader(lines))
		if _, ok := find[*transcript.LineError](err); err != nil && (ok || !errors.Is(err, transcript.ErrBusy) || b.left(to)) {
			t.Errorf("commit %d: got %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(b.Context())
	commits := 0
	ending := committing{b.store, func(c context.Context, change transcript.Change) (transcript.Committed, error) {
		if commits++; commits == 3 {
			cancel()
		}
		return b.store.Commit(c, change)
	}}
	if _, err := transcript.Import(ctx, ending, third, bytes.NewReader(lines)); !errors.Is(err, context.Canceled) || b.left(third) {
		t.Errorf("with a context that ends: %v", err)
	}
}

// What is written while it is exported may be missing; what is there is whole.
func TestExportMeanwhile(t *testing.T) {
	b := &bench{TB: t, rule: "What is exported can be imported, whatever is written meanwhile.", store: inMemory()}
	exportable(b)
	n := 0
	live := reading{b.store, func() {
		n++
		id := transcript.EntryID(fmt.Sprint("meanwhile ", n))
		b.grow(talk, head(), id)
		b.commit(refers("main", transcript.After(id), -1))
	}}
	var out bytes.Buffer
	if err := transcript.Export(b.Context(), live, talk, &out, b.load(talk).CreatedAt); err != nil {
		t.Fatal(err)
	}
	got := b.imported(other, out.Bytes())
	if got.Head != transcript.After("work") || got.Entries != 10 {
		t.Errorf("got %+v", got)
	}
	if err := transcript.Export(b.Context(), b.store, "nobody", &out, b.load(talk).CreatedAt); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("of what is not there: %v", err)
	}
	if line := bytes.SplitN(out.Bytes(), []byte("\n"), 2)[0]; !json.Valid(line) || !bytes.Contains(line, []byte(`"conversation":"`+string(talk)+`"`)) {
		t.Errorf("the first line is %s", line)
	}
}
