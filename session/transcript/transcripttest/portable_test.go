package transcripttest

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// drawing is a TB that fails what rapid draws for, so that it is drawn smaller.
type drawing struct {
	testing.TB
	rt *rapid.T
}

func (d drawing) Helper() {}

func (d drawing) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }

func (d drawing) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }

func inSQLite(t *testing.T) transcript.Store {
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

// exported is what Export writes of a transcript.
func (b *bench) exported(c access.ConversationID) []byte {
	b.Helper()
	var out bytes.Buffer
	if err := transcript.Export(b.Context(), b.store, c, &out, time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)); err != nil {
		b.Fatalf("Export: %v", err)
	}
	return out.Bytes()
}

// imported imports what must be whole.
func (b *bench) imported(c access.ConversationID, lines []byte) transcript.Transcript {
	b.Helper()
	t, err := transcript.Import(b.Context(), b.store, c, bytes.NewReader(lines))
	if err != nil {
		b.Fatalf("Import: %v", err)
	}
	b.same("what Import answers", t, b.load(c))
	return t
}

// carried is a picture of what is carried along: without seqs, versions and
// moments, and without what happened, which is another story.
func (p picture) carried() picture {
	p = p.anonymous()
	row := p.Row
	p.Row = transcript.Transcript{Head: row.Head, Status: row.Status, Usage: row.Usage.Add(row.Inherited), Entries: int64(len(p.Lean))}
	p.Facts, p.Open.Draft, p.Open.Fence, p.Open.InTurn = nil, nil, 0, false
	for _, entries := range [][]transcript.Entry{p.Timeline, p.Lean, p.Path, p.Given} {
		for i := range entries {
			entries[i].Seq = 0
		}
	}
	for i := range p.Headers {
		p.Headers[i].Seq = 0
	}
	p.Refs = append([]transcript.Ref{}, p.Refs...)
	for i := range p.Refs {
		p.Refs[i].Version = 0
	}
	return p
}

// A transcript with everything in it, a fork by reference and one by copy
// come out as they went in, and once more the same.
func TestPortable(t *testing.T) {
	for name, open := range map[string]func(*testing.T) transcript.Store{"memory": func(*testing.T) transcript.Store { return inMemory() }, "sqlite": inSQLite} {
		t.Run(name, func(t *testing.T) {
			b := &bench{TB: t, rule: "What is exported and imported answers every query as before, but for seqs and times.", store: open(t)}
			b.source()
			both(func(byReference bool, to access.ConversationID) {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("newest"), ByReference: byReference, Refs: true})
				b.use(to, 1)
			})
			b.commit(transcript.Change{Head: transcript.After("work")})
			for _, from := range []access.ConversationID{talk, other, third} {
				to := from + " imported"
				lines := b.exported(from)
				b.imported(to, lines)
				b.same(string(from), b.picture(to).carried(), b.picture(from).carried())
				b.sound(to)
				again := bytes.ReplaceAll(b.exported(to), []byte(to), []byte(from))
				if n := len(bytes.Split(again, []byte("\n"))); n != len(bytes.Split(lines, []byte("\n"))) {
					b.Errorf("%s exported again has %d lines", to, n)
				}
				b.imported(to+" again", again)
				b.same(string(from)+" again", b.picture(to+" again").carried(), b.picture(from).carried())
				b.grow(to, head(), "goes on")
			}
			b.create("empty")
			b.imported("empty imported", b.exported("empty"))
			b.same("an empty one", b.picture("empty imported").carried(), b.picture("empty").carried())
		})
	}
}

func TestPortableTrees(t *testing.T) {
	stores := map[string]transcript.Store{"memory": inMemory(), "sqlite": inSQLite(t)}
	for name, store := range stores {
		n := 0
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b := &bench{TB: drawing{t, rt}, rule: "Whatever tree it is, it comes out as it went in.", store: store}
				n++
				from, to := access.ConversationID(fmt.Sprint("from ", n)), access.ConversationID(fmt.Sprint("to ", n))
				grown(b, rt, from)
				b.imported(to, b.exported(from))
				b.same("what was imported", b.picture(to).carried(), b.picture(from).carried())
				b.sound(to)
			})
		})
	}
}

// grown makes a tree by what is drawn.
func grown(b *bench, rt *rapid.T, c access.ConversationID) {
	b.create(c)
	do := func(change transcript.Change) {
		change.Conversation = c
		b.commit(change)
	}
	all := []transcript.EntryID{}
	open := []transcript.CallAddress{}
	somewhere := func() transcript.Position {
		if n := rapid.IntRange(-1, len(all)-1).Draw(rt, "where"); n >= 0 {
			return transcript.After(all[n])
		}
		return transcript.BeforeRoot()
	}
	text := rapid.SampledFrom([]string{"", "x", "<b>ü</b>\u2028", "many  words\nin lines", string(data(transcript.InlineBytes+9, "l"))})
	entry := func(id transcript.EntryID, after transcript.Position) transcript.NewEntry {
		switch rapid.IntRange(0, 6).Draw(rt, "kind") {
		case 0:
			return sets(id, transcript.StateDelta{Set: values("k", fmt.Sprint(len(all))), Whole: rapid.Bool().Draw(rt, "whole")})
		case 1:
			if after.Root {
				return compacts(id, "")
			}
			path := b.path(c, after)
			kept := path[rapid.IntRange(0, len(path)-1).Draw(rt, "kept")]
			return compacts(id, kept.ID)
		case 2:
			return transcript.NewEntry{ID: id, Kind: "of a later version", Payload: []byte(`{"a":[1,null]}`), Turn: "t"}
		case 3, 4:
			e := calls(id, "c1", "c2")
			e.Usage = transcript.Usage{Input: int64(len(all)), CostMicros: 3}
			e.Parts[1].Call.Arguments = []byte(`null`)
			return e
		}
		return says(transcript.KindUser, id, text.Draw(rt, "text"))
	}
	for i := range rapid.IntRange(0, 12).Draw(rt, "steps") {
		id := transcript.EntryID(fmt.Sprint("e", i))
		switch rapid.IntRange(0, 9).Draw(rt, "step") {
		case 0:
			do(transcript.Change{Draft: &transcript.Draft{NewEntry: says(transcript.KindAssistant, id, "given up"), After: somewhere()}})
			do(transcript.Change{Abort: []transcript.EntryID{id}})
			do(labels(id, "given up"))
		case 1:
			do(transcript.Change{Head: somewhere()})
		case 2:
			do(refers(rapid.SampledFrom([]string{"main", "other"}).Draw(rt, "ref"), somewhere(), -1))
		case 3:
			if len(all) > 0 {
				do(labels(rapid.SampledFrom(all).Draw(rt, "labelled"), rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "label")))
			}
		case 4:
			if len(open) > 0 {
				at := open[0]
				open = open[1:]
				result := rapid.SampledFrom([]string{"", "null", `{"ok":true}`, string(data(2*transcript.InlineBytes, "r"))}).Draw(rt, "result")
				do(settles(at.Entry, at.Call, transcript.CallSucceeded, result))
			}
		default:
			after := somewhere()
			e := entry(id, after)
			do(transcript.Change{Append: []transcript.NewEntry{e}, After: after, KeepHead: rapid.Bool().Draw(rt, "keep")})
			all = append(all, id)
			for _, p := range e.Parts {
				if p.Call != nil {
					open = append(open, transcript.CallAddress{Entry: id, Call: p.Call.ID})
				}
			}
		}
	}
}

// What is larger than an entry may be appended with, as the results of
// many calls, is carried all the same.
func TestPortableLarge(t *testing.T) {
	b := &bench{TB: t, rule: "What a transcript has is carried, however large it is.", store: inMemory()}
	b.create(talk)
	large := 12 << 20 // three of them are more than transcript.MaxEntryBytes
	if testing.Short() {
		large = 1 << 20
	}
	e := calls("work", "c1", "c2", "c3")
	e.Parts = append(e.Parts, transcript.Part{Type: "image", Data: data(1<<20, "i")})
	b.commit(transcript.Change{Append: []transcript.NewEntry{e, asks("next")}})
	for _, c := range []transcript.CallID{"c1", "c2", "c3"} {
		b.commit(settles("work", c, transcript.CallSucceeded, string(data(large, string(c)))))
	}
	b.imported(other, b.exported(talk))
	if got, want := b.get(other, "work"), b.get(talk, "work"); len(got.Parts) != len(want.Parts) || *got.Parts[3].Call.Blob != *want.Parts[3].Call.Blob || *got.Parts[4].Blob != *want.Parts[4].Blob {
		t.Errorf("got %+v, want %+v", got.Parts, want.Parts)
	}
	b.sound(other)
}
