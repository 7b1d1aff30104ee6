package transcript

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// imported reports whether a transcript has just what lines say: then an import
// of them has been made. Lines that say something else, or nothing that can be read, make it false; the errors are the store's and the reader's.
func imported(ctx context.Context, s Store, conversation access.ConversationID, r *bufio.Reader) (bool, error) {
	said := saying{r: r, refs: map[string]EntryID{}}
	refs := map[string]EntryID{}
	for l, err := range portable(ctx, s, conversation, time.Time{}) {
		if err != nil {
			return false, err
		}
		if l.Ref != nil {
			refs[l.Ref.Name] = l.Ref.At
			continue
		}
		if same, err := said.next(l); !same || err != nil {
			return false, err
		}
	}
	end, err := said.ends()
	if !end || err != nil || len(refs) != len(said.refs) {
		return false, err
	}
	for name, at := range refs {
		if other, there := said.refs[name]; !there || other != at {
			return false, nil
		}
	}
	return true, nil
}

// saying is what lines say, one after the other, but for refs, which stand anywhere among them.
type saying struct {
	r      *bufio.Reader
	number int
	refs   map[string]EntryID
}

// line is the next that has something on it, and is no ref. What can't be read is an error that [errors.Is] errForm.
func (s *saying) line() (portableLine, error) {
	for {
		text, err := readLine(s.r)
		s.number++
		switch {
		case errors.Is(err, io.EOF):
			return portableLine{}, io.EOF
		case errors.As(err, new(*LimitError)):
			return portableLine{}, errForm
		case err != nil:
			return portableLine{}, &LineError{s.number, err}
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		l, err := parsed(text)
		if err != nil {
			return portableLine{}, errForm
		}
		if l.Ref == nil {
			return l, nil
		}
		if _, twice := s.refs[l.Ref.Name]; twice {
			return portableLine{}, errForm
		}
		s.refs[l.Ref.Name] = l.Ref.At
	}
}

// next reports whether the next line says the same as one that was exported.
func (s *saying) next(want portableLine) (bool, error) {
	l, err := s.line()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errForm):
		return false, nil
	case err != nil:
		return false, err
	case want.Transcript != nil:
		return l.Transcript != nil && l.Transcript.Version == want.Transcript.Version, nil
	case want.Entry != nil:
		return l.Entry != nil && l.Entry.same(*want.Entry), nil
	}
	return l.End != nil && *l.End == *want.End, nil
}

// ends reports whether there are no more lines.
func (s *saying) ends() (bool, error) {
	_, err := s.line()
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if errors.Is(err, errForm) {
		err = nil
	}
	return false, err
}

// new is the entry as it is appended.
func (e portableEntry) new() NewEntry {
	in := NewEntry{
		ID: e.ID, Kind: e.Kind, Turn: e.Turn, Actor: e.Actor, Parts: e.Parts, Payload: e.Payload, Compaction: e.Compaction, State: e.State,
	}
	if e.Usage != nil {
		in.Usage = *e.Usage
	}
	return in
}

// same reports whether an entry would be imported as another is, which was exported: when it was made does not count.
func (e portableEntry) same(was portableEntry) bool {
	if e.ID != was.ID || e.Parent != was.Parent || e.Aborted != was.Aborted || !slices.Equal(labelled(e), labelled(was)) {
		return false
	}
	content, late, err := e.content()
	other, otherLate, otherErr := was.content()
	return err == nil && otherErr == nil && content == other && slices.Equal(late, otherLate)
}

// labelled are the labels of an entry, each once and in order.
func labelled(e portableEntry) []string {
	return slices.Compact(slices.Sorted(slices.Values(e.Labels)))
}

// lateResult is a large result of a call, by its hash.
type lateResult struct {
	CallAddress
	Status CallStatus
	Blob
}

// content is the hash of all there is to an entry, with what its large results are apart.
func (e portableEntry) content() (hash string, late []lateResult, err error) {
	in := e.new()
	if err := in.check(); err != nil {
		return "", nil, err
	}
	parts, settled := unanswered(in)
	for i, p := range parts {
		if e.Aborted && p.Call != nil && !p.Call.Status.Settled() { // nobody was ever to run it
			call := *p.Call
			call.Status = CallInterrupted
			parts[i].Call = &call
		}
	}
	in.Parts = parts
	for _, s := range settled {
		_, blob, _ := s.Seal()
		if blob == nil { // it is small, but for white space
			blob = &Blob{Hash: digest(compacted(s.Result))}
		}
		late = append(late, lateResult{s.CallAddress, s.Status, *blob})
	}
	sealed, err := Seal(in)
	return sealed.Hash, late, err
}
