package pijsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// portable is a line of what transcript.Import takes.
type portable struct {
	Transcript *head  `json:"transcript,omitempty"`
	Entry      *entry `json:"entry,omitempty"`
	End        *end   `json:"end,omitempty"`
}

type head struct {
	Version      int       `json:"version"`
	Conversation string    `json:"conversation"`
	Exported     time.Time `json:"exported"`
}

type entry struct {
	ID         transcript.EntryID     `json:"id"`
	Parent     transcript.EntryID     `json:"parent,omitempty"`
	Kind       transcript.Kind        `json:"kind"`
	Actor      access.UserID          `json:"actor,omitempty"`
	Created    time.Time              `json:"created"`
	Parts      []transcript.Part      `json:"parts,omitempty"`
	Payload    json.RawMessage        `json:"payload,omitempty"`
	Usage      *transcript.Usage      `json:"usage,omitempty"`
	Compaction *transcript.Compaction `json:"compaction,omitempty"`
	Labels     []string               `json:"labels,omitempty"`
}

type end struct {
	Entries int                `json:"entries"`
	Head    transcript.EntryID `json:"head,omitempty"`
}

// Reader returns the session as lines that [transcript.Import] takes: a first one, one for each entry, and the
// end. A *transcript.LineError has the number of the line in the session file.
func (f *File) Reader() io.Reader { return &reader{file: f} }

// reader makes the lines, one when the one before it has been read. It is no one's but its caller's.
type reader struct {
	file *File
	next int // of the lines: 0 is the first, then the entries
	rest []byte
	err  error // what it ends by
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		r.rest, r.err = r.line()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) line() ([]byte, error) {
	f, i := r.file, r.next-1
	r.next++
	var l portable
	switch {
	case i < 0:
		l.Transcript = &head{Version: 1, Conversation: f.header.ID, Exported: f.header.Created}
	case i < len(f.nodes):
		e, err := f.convert(int32(i))
		if err != nil {
			return nil, f.wrong(int32(i), err)
		}
		l.Entry = &e
	case i == len(f.nodes):
		l.End = &end{Entries: len(f.nodes)}
		if f.head != none {
			l.End.Head = transcript.EntryID(f.nodes[f.head].id)
		}
	default:
		return nil, io.EOF
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, f.wrong(int32(i), err)
	}
	return b.Bytes(), nil
}

// wrong says which line is to blame, where one is.
func (f *File) wrong(i int32, err error) error {
	if i < 0 || !errors.As(err, new(*transcript.LimitError)) && !errors.As(err, new(*json.MarshalerError)) {
		return err
	}
	return &transcript.LineError{Line: f.nodes[i].line, Err: err}
}

// Import makes a transcript of the session, as [transcript.Import] does: whole, or not at all. *transcript.LineError: a line is
// refused, by its number in the session file. The other errors are those of transcript.Import, and of what the file is read from.
func (f *File) Import(ctx context.Context, s transcript.Store, conversation access.ConversationID) (transcript.Transcript, error) {
	r := &reader{file: f}
	t, err := transcript.Import(ctx, s, conversation, r)
	at, ok := errors.AsType[*transcript.LineError](err)
	switch {
	case !ok:
	case r.err != nil && !errors.Is(r.err, io.EOF): // the reader knows which line it is, if it is one
		return t, errors.Join(r.err, undone(err))
	default:
		at.Line = f.number(at.Line)
	}
	return t, err
}

// undone is what an import failed with after the line that it failed at: to throw away what was there.
func undone(err error) error {
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	return errors.Join(all.Unwrap()[1:]...)
}

// number is that of the line of which a line of the reader was made.
func (f *File) number(line int) int {
	switch i := line - 2; { // the first is the header's
	case i < 0:
		return 1
	case i < len(f.nodes):
		return f.nodes[i].line
	}
	return f.last
}
