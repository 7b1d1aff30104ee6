package transcript

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sealed is an entry as stores keep it: what never changes as one document,
// without what is large, and its calls, which do change, apart. JSON is kept
// by its meaning: white space between its tokens is not.
type Sealed struct {
	Body    []byte            // JSON; see [Unseal]
	Calls   []Call            // in the order of the parts; a large Result is a Blob
	Blobs   map[string][]byte // by hash
	Hash    string            // of all of the content as it was given; SHA-256, in hex
	Bytes   int64             // of the content
	Preview string
}

// body is the document that appendDoc makes.
type body struct {
	Parts      []Part          `json:"parts,omitempty"` // of a call only its id, name and arguments
	Payload    json.RawMessage `json:"payload,omitempty"`
	Compaction *Compaction     `json:"compaction,omitempty"`
	State      *StateDelta     `json:"state,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
}

// Seal turns an entry that [Change.Check] lets pass into the form that is
// kept. *LimitError: it is over [MaxEntryBytes].
func Seal(e NewEntry) (Sealed, error) {
	var s Sealed
	parts, size := e.Parts, 256+len(e.Payload)
	if slices.ContainsFunc(parts, apart) {
		parts = slices.Clone(parts)
	}
	for i, p := range parts {
		switch {
		case p.Call != nil:
			call := *p.Call
			if call.Status == "" {
				call.Status = CallPending
			}
			call.Arguments = compacted(call.Arguments)
			call.Result, call.Blob = s.out(call.Result)
			s.Calls = append(s.Calls, call)
			parts[i].Call = &Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments}
			size += len(call.Arguments)
		case apart(p):
			parts[i].Data, parts[i].Blob = s.out(p.Data)
		}
		size += len(parts[i].Data) + 64
	}
	// What is hashed is everything that was given, what is large by its own hash: the body, and this before it.
	all, err := hashed(make([]byte, 0, size), e, s.Calls)
	head := len(all)
	if err == nil {
		all, err = appendDoc(all, e, parts)
	}
	if err != nil {
		return Sealed{}, fmt.Errorf("transcript: %s: %w", e.ID, err)
	}
	s.Body = all[head:]
	s.Bytes += int64(len(s.Body))
	for _, c := range s.Calls {
		s.Bytes += int64(len(c.Result))
	}
	if s.Bytes > MaxEntryBytes {
		return Sealed{}, &LimitError{Of: "bytes in an entry", Max: MaxEntryBytes}
	}
	s.Hash = digest(all)
	s.Preview = preview(e)
	return s, nil
}

// apart reports whether a part is not as it is in the body. (White space whatever encodes it leaves out.)
func apart(p Part) bool { return p.Call != nil || len(p.Data) > InlineBytes }

// hashed adds what is hashed beside the body.
func hashed(b []byte, e NewEntry, calls []Call) ([]byte, error) {
	b = appendText(append(b, '['), string(e.Kind))
	b = appendText(append(b, ','), string(e.Turn))
	b = appendText(append(b, ','), string(e.Actor))
	var err error
	if b = append(b, ','); len(calls) == 0 {
		b = append(b, "null"...)
	} else {
		b, err = appendAny(b, calls)
	}
	return append(b, ']'), err
}

// digest is SHA-256, in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// out takes what is large out of the document.
func (s *Sealed) out(data json.RawMessage) (json.RawMessage, *Blob) {
	small, blob, large := cut(data)
	if blob != nil {
		if _, again := s.Blobs[blob.Hash]; !again {
			s.Bytes += blob.Size
		}
		if s.Blobs == nil {
			s.Blobs = map[string][]byte{}
		}
		s.Blobs[blob.Hash] = large
	}
	return small, blob
}

// cut is data as it is kept: small enough for its row, or as a blob.
func cut(data json.RawMessage) (small json.RawMessage, blob *Blob, large []byte) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	kept := compacted(data)
	if len(kept) <= InlineBytes {
		return kept, nil, nil
	}
	return nil, &Blob{Hash: digest(kept), Size: int64(len(kept))}, kept
}

// compacted is JSON without the white space between its tokens, in memory of its own.
func compacted(data json.RawMessage) json.RawMessage {
	return appendTight(make([]byte, 0, len(data)), data)
}

// Unseal puts the content of an entry together again: into e, which has the
// rest, from its body and its calls as they are now, in any order.
func Unseal(e *Entry, kept []byte, calls []Call) error {
	var doc body
	if !decodeDoc(kept, &doc) {
		doc = body{}
		if err := json.Unmarshal(kept, &doc); err != nil {
			return fmt.Errorf("transcript: entry %s can't be read: %w", e.ID, err)
		}
	}
	e.Parts, e.Payload, e.Compaction, e.State = doc.Parts, doc.Payload, doc.Compaction, doc.State
	if doc.Usage != nil {
		e.Usage = *doc.Usage
	}
	for i := range e.Parts {
		call := e.Parts[i].Call
		if call == nil {
			continue
		}
		for _, c := range calls {
			if c.ID == call.ID {
				call.Status, call.Result, call.Blob = c.Status, c.Result, c.Blob
			}
		}
		if call.Status == "" {
			return fmt.Errorf("transcript: entry %s has lost its call %s", e.ID, call.ID)
		}
	}
	return nil
}

// preview is how the text of an entry begins, on one line.
func preview(e NewEntry) string {
	if e.Compaction != nil {
		return line(e.Compaction.Summary)
	}
	for _, p := range e.Parts {
		if p.Type != PartText {
			continue
		}
		if text := line(beginning(p.Data)); utf8.RuneCountInString(text) == PreviewRunes {
			return text
		}
		var t struct{ Text string }
		if json.Unmarshal(p.Data, &t) == nil {
			return line(t.Text)
		}
	}
	return ""
}

// previewBytes are enough of a text for a preview, whatever white space there is.
const previewBytes = 16 * PreviewRunes

// line is the first of a text with one space where there is white space.
func line(text string) string {
	var b strings.Builder
	b.Grow(min(len(text), 2*PreviewRunes))
	n, space := 0, false
	text = text[:min(len(text), previewBytes)]
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				continue // no character, or a part of one
			}
		}
		if r == 0 {
			continue // which not every database takes
		}
		if unicode.IsSpace(r) {
			space = n > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			if n++; n == PreviewRunes {
				break
			}
			space = false
		}
		b.WriteRune(r)
		if n++; n == PreviewRunes {
			break
		}
	}
	return b.String()
}

// beginning is how the text of a part begins, as a rule, so that it need not be
// read to its end; empty: it has to be.
func beginning(data json.RawMessage) string {
	const quote, end = len(`{"text":`), 4 * PreviewRunes
	if len(data) < end+8 || !bytes.HasPrefix(data, []byte(`{"text":"`)) {
		return ""
	}
	to, plain := quote+1, true
	for to < end && data[to] != '"' {
		if data[to] == '\\' {
			if plain = false; data[to+1] == 'u' {
				to += 4
			}
			to++
		}
		to++
	}
	if to < end {
		return ""
	}
	if plain {
		return string(data[quote+1 : to])
	}
	var text string
	if json.Unmarshal(append(slices.Clone(data[quote:to]), '"'), &text) != nil {
		return ""
	}
	return strings.TrimRight(text, string(utf8.RuneError)) // the last character may have been cut
}

// Seal is the result of a settlement as it is kept: as it is, or as a blob
// with its bytes.
func (s Settlement) Seal() (result json.RawMessage, blob *Blob, large []byte) { return cut(s.Result) }
