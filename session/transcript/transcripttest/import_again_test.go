package transcripttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// rich is all that an export may have, and its lines.
func rich(b *bench) []string {
	b.Helper()
	exportable(b)
	b.commit(transcript.Change{Append: full()})
	b.commit(drafts(calls("given up", "c7")))
	b.commit(transcript.Change{Abort: []transcript.EntryID{"given up"}})
	b.commit(transcript.Change{Append: []transcript.NewEntry{calls("large", "c2", "c3")}})
	b.commit(settles("large", "c2", transcript.CallSucceeded, string(data(transcript.InlineBytes*3, "of a result "))))
	b.commit(labels("large", "z"))
	b.commit(labels("large", "y"))
	b.commit(refers("root", transcript.BeforeRoot(), 0))
	return strings.Split(strings.TrimSpace(string(b.exported(talk))), "\n")
}

// An import of which nobody has heard is repeated: it is there, and nothing is written. Whatever differs is another.
func TestImportAgain(t *testing.T) {
	b := &bench{TB: t, rule: "What is there just as it is to be imported is imported; anything else is ErrExists, and is not touched.", store: inMemory()}
	lines := rich(b)
	again := func(lines []string) (transcript.Transcript, error) {
		return transcript.Import(b.Context(), b.store, other, strings.NewReader(strings.Join(lines, "\n")))
	}
	b.imported(other, []byte(strings.Join(lines, "\n")))
	before := b.picture(other)
	at := func(text string) int {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, text) })
		if i < 0 {
			b.Fatalf("no line has %s", text)
		}
		return i
	}
	replaced := func(from, to string) []string {
		out := slices.Clone(lines)
		out[at(from)] = strings.Replace(out[at(from)], from, to, 1)
		return out
	}
	ref := at(`"name":"main"`)
	same := map[string][]string{
		"the same":                lines,
		"with lines of nothing":   slices.Insert(slices.Clone(lines), 3, "", "  "),
		"exported later":          append([]string{strings.Replace(lines[0], `"exported":"`, `"exported":"2030-01-01T00:00:00Z","exported":"`, 1)}, lines[1:]...),
		"refs in another order":   slices.Insert(slices.Delete(slices.Clone(lines), ref, ref+1), 5, lines[ref]),
		"with white space":        replaced(`{"text":`, `{ "text" : `),
		"labels in another order": replaced(`"labels":["y","z"]`, `"labels":["z","y","z"]`),
	}
	for what, text := range same {
		row, err := again(text)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		b.same(what+": the answer", row, b.load(other))
		b.same(what, b.picture(other), before)
	}
	last := len(lines) - 1
	for what, text := range map[string][]string{
		"nothing":                  nil,
		"without its end":          lines[:last],
		"more after its end":       append(slices.Clone(lines), lines[3]),
		"without an entry":         slices.Delete(slices.Clone(lines), 8, 9),
		"with an entry twice":      slices.Insert(slices.Clone(lines), 9, lines[8]),
		"without a ref":            slices.Delete(slices.Clone(lines), ref, ref+1),
		"with a ref twice":         slices.Insert(slices.Clone(lines), ref, lines[ref]),
		"with another ref":         replaced(`"name":"main"`, `"name":"man"`),
		"a ref elsewhere":          replaced(`"at":"branch"`, `"at":"e0001"`),
		"another head":             replaced(`"head":"large"`, `"head":"branch"`),
		"another form":             replaced(`"version":1`, `"version":2`),
		"another text":             replaced(`what about`, `what of`),
		"another label":            replaced(`"labels":["y","z"]`, `"labels":["y"]`),
		"another parent":           replaced(`"parent":"e0003"`, `"parent":"e0002"`),
		"another status":           replaced(`"status":"succeeded"`, `"status":"failed"`),
		"another large result":     replaced(`of a result of a result`, `of a result on a result`),
		"what was not given up":    replaced(`"aborted":true`, `"aborted":false`),
		"what can't be read":       slices.Insert(slices.Clone(lines), 4, "{"),
		"what can't be":            replaced(`"kind":"assistant"`, `"kind":""`),
		"another word for a thing": replaced(`"kind":"marker"`, `"kind":"mark"`),
	} {
		if _, err := again(text); !errors.Is(err, transcript.ErrExists) || !strings.Contains(fmt.Sprint(err), string(other)) {
			t.Errorf("%s: got %v, want ErrExists", what, err)
		}
		b.same(what, b.picture(other), before)
	}
	broken := errors.New("cut off")
	_, err := transcript.Import(b.Context(), b.store, other, cutOff{strings.NewReader(strings.Join(lines[:6], "\n") + "\n"), broken})
	if line, ok := find[*transcript.LineError](err); !ok || line.Line != 7 || !errors.Is(err, broken) {
		t.Errorf("cut off: got %v", err)
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	if _, err := transcript.Import(ended, b.store, other, strings.NewReader(strings.Join(lines, "\n"))); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	b.same("after all that", b.picture(other), before)

	for what, c := range map[string]transcript.Change{
		"something was said": {Append: []transcript.NewEntry{asks("more")}}, "a label was put on": labels("e0001", "more"), "the head was moved": {Head: transcript.After("e0001")},
		"a ref was moved": refers("main", transcript.After("e0001"), -1), "a call was settled": settles("large", "c3", transcript.CallFailed, ""), "it was archived": {Status: transcript.Archived},
	} {
		to := access.ConversationID("since then " + what)
		b.imported(to, []byte(strings.Join(lines, "\n")))
		c.Conversation = to
		b.commit(c)
		now := b.picture(to)
		if _, err := transcript.Import(b.Context(), b.store, to, strings.NewReader(strings.Join(lines, "\n"))); !errors.Is(err, transcript.ErrExists) {
			t.Errorf("%s since: got %v, want ErrExists", what, err)
		}
		b.same(what, b.picture(to), now)
	}
	empty := lines[:1:1]
	empty = append(empty, `{"end":{"entries":0}}`)
	for range 2 {
		if _, err := transcript.Import(b.Context(), b.store, third, strings.NewReader(strings.Join(empty, "\n"))); err != nil {
			t.Errorf("of nothing: %v", err)
		}
	}
}
