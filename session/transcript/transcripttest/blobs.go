package transcripttest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// blob names content as a store does.
func blob(content json.RawMessage) *transcript.Blob {
	sum := sha256.Sum256(content)
	return &transcript.Blob{Hash: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

// content reads what is large.
func (b *bench) content(c access.ConversationID, hash string) string {
	b.Helper()
	r, err := b.store.OpenBlob(b.Context(), c, hash)
	if err != nil {
		b.Fatalf("OpenBlob(%s): %v", hash, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		b.Errorf("reading %s: %v", hash, err)
	}
	if err := r.Close(); err != nil {
		b.Errorf("closing %s: %v", hash, err)
	}
	return string(text)
}

func blobChecks() []check {
	large, larger := data(transcript.InlineBytes+1, "x"), data(1<<20, "<ü>")
	just := data(transcript.InlineBytes, "y")
	// prepared has one entry with data and a result at the limit and over it.
	prepared := func(b *bench) transcript.NewEntry {
		b.Helper()
		b.create(talk)
		e := calls("a", "c1", "c2", "c3")
		e.Parts = append(e.Parts, transcript.Part{Type: "image", Data: large}, transcript.Part{Type: "image", Data: just}, transcript.Part{Type: "image", Data: large})
		e.Parts[1].Call.Status, e.Parts[1].Call.Result = transcript.CallSucceeded, larger
		b.commit(transcript.Change{Append: []transcript.NewEntry{e}})
		b.commit(settles("a", "c2", transcript.CallFailed, string(larger)))
		b.commit(settles("a", "c3", transcript.CallFailed, string(just)))
		e.Parts[2].Call.Status, e.Parts[2].Call.Result = transcript.CallFailed, larger
		e.Parts[3].Call.Status, e.Parts[3].Call.Result = transcript.CallFailed, just
		return e
	}
	return []check{
		{"blobs", "What is over 32 KiB is named in lists and paths, by its hash and size, and is there where it is asked for. (case 8a)", func(b *bench) {
			whole := prepared(b)
			lean := whole
			lean.Parts = append([]transcript.Part{}, whole.Parts...)
			for i, p := range lean.Parts {
				if len(p.Data) > transcript.InlineBytes {
					lean.Parts[i].Data, lean.Parts[i].Blob = nil, blob(p.Data)
				}
				if p.Call != nil && len(p.Call.Result) > transcript.InlineBytes {
					call := *p.Call
					call.Result, call.Blob = nil, blob(p.Call.Result)
					lean.Parts[i].Call = &call
				}
			}
			ctx := b.Context()
			found, err := b.store.FindCall(ctx, talk, "c1")
			if err != nil {
				b.Fatalf("FindCall: %v", err)
			}
			given, err := b.store.Context(ctx, talk, head(), enough)
			if err != nil {
				b.Fatalf("Context: %v", err)
			}
			for what, list := range map[string][]transcript.Entry{
				"Get": {b.get(talk, "a")}, "Path": b.path(talk, head()), "Timeline": b.timeline(transcript.TimelineQuery{Conversation: talk}), "FindCall": found, "Context": given,
			} {
				if len(list) != 1 {
					b.Fatalf("%s: got %v", what, ids(list))
				}
				b.same(what, list[0].NewEntry, lean)
			}
			b.same("Path with blobs", b.pathWith(transcript.PathQuery{Conversation: talk, Blobs: true})[0].NewEntry, whole)
			b.same("Timeline with blobs", b.timeline(transcript.TimelineQuery{Conversation: talk, Blobs: true})[0].NewEntry, whole)
			b.sound(talk)
		}},
		{"open-blob", "What is large is read by its hash, of its conversation only; else ErrNotFound.", func(b *bench) {
			prepared(b)
			b.create(other)
			for _, content := range []json.RawMessage{large, larger} {
				hash := blob(content).Hash
				if got := b.content(talk, hash); got != string(content) {
					b.Errorf("got %s, want %s", short(got), short(string(content)))
				}
				for what, err := range map[string]error{
					"of another conversation": func() error { _, err := b.store.OpenBlob(b.Context(), other, hash); return err }(),
					"in capitals":             func() error { _, err := b.store.OpenBlob(b.Context(), talk, strings.ToUpper(hash)); return err }(),
					"of what is small":        func() error { _, err := b.store.OpenBlob(b.Context(), talk, blob(just).Hash); return err }(),
					"of no hash":              func() error { _, err := b.store.OpenBlob(b.Context(), talk, ""); return err }(),
				} {
					if !errors.Is(err, transcript.ErrNotFound) {
						b.Errorf("%s: got error %v, want ErrNotFound", what, err)
					}
				}
			}
		}},
		{"blob-forked", "A fork has what is large of its own path.", func(b *bench) {
			b.create(talk)
			e := says(transcript.KindUser, "a", "look")
			e.Parts = append(e.Parts, transcript.Part{Type: "image", Data: large})
			late := says(transcript.KindUser, "b", "and that")
			late.Parts = append(late.Parts, transcript.Part{Type: "image", Data: larger})
			b.commit(transcript.Change{Append: []transcript.NewEntry{e, late}})
			for to, byReference := range map[access.ConversationID]bool{other: false, third: true} {
				b.fork(transcript.Fork{From: talk, To: to, At: transcript.After("a"), ByReference: byReference})
				if got := b.content(to, blob(large).Hash); got != string(large) {
					b.Errorf("got %s", short(got))
				}
				if _, err := b.store.OpenBlob(b.Context(), to, blob(larger).Hash); !errors.Is(err, transcript.ErrNotFound) {
					b.Errorf("by reference %v: what is not on its path: got error %v", byReference, err)
				}
				late := late
				b.commit(transcript.Change{Conversation: to, Append: []transcript.NewEntry{late}})
				if got := b.content(to, blob(larger).Hash); got != string(larger) {
					b.Errorf("got %s", short(got))
				}
			}
			b.commit(transcript.Change{Status: transcript.Deleted})
			b.purge(1)
			for _, to := range []access.ConversationID{other, third} {
				if got := b.content(to, blob(large).Hash); got != string(large) {
					b.Errorf("after its source is gone: got %s", short(got))
				}
			}
		}},
		{"blob-late", "A result that came after a fork is not there in it by its hash, nor in what is forked of that, nor once the fork has rows of its own. (invariant 8)", func(b *bench) {
			b.create(talk)
			b.commit(transcript.Change{Append: []transcript.NewEntry{asks("a"), calls("b", "c1")}})
			b.fork(transcript.Fork{From: talk, To: other, ByReference: true})
			b.commit(settles("b", "c1", transcript.CallSucceeded, string(data(2*transcript.InlineBytes, "late"))))
			hash := b.call("b", "c1").Blob.Hash
			b.fork(transcript.Fork{From: other, To: third})
			absent := func(when string) {
				b.Helper()
				for _, c := range []access.ConversationID{other, third} {
					if _, err := b.store.OpenBlob(b.Context(), c, hash); !errors.Is(err, transcript.ErrNotFound) {
						b.Errorf("%s, in %s: got error %v", when, c, err)
					}
				}
			}
			absent("at first")
			b.commit(transcript.Change{Status: transcript.Deleted})
			b.purge(1)
			absent("after the source is gone")
		}},
	}
}
