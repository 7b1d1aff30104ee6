package transcript

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// LineError says which line of what was to be imported is wrong, counted from
// one, and why. Nothing was imported.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("transcript: line %d: %v", e.Line, e.Err) }

// Unwrap is why.
func (e *LineError) Unwrap() error { return e.Err }

// Problem is the same for every line.
func (e *LineError) Problem() (status int, code, sentence string) {
	return 422, "bad_line", "This is not a conversation that was exported, or it was changed since."
}

// Import makes a transcript of what [Export] has written, with the same ids;
// seqs and times are new. It is all there or not at all: until it is done, the transcript is
// [Importing], and what a process that died has left of one is thrown away by the next
// that imports to the same conversation, so that two must not do so at the same time. Where the conversation has
// exactly what is to be imported, entries, labels, refs and head, nothing is written: an import whose
// reply was lost may be repeated until something else is said. ErrExists: the
// conversation has something else already. *LineError: a line can't be read, or is refused; other errors are the store's.
func Import(ctx context.Context, s Store, conversation access.ConversationID, r io.Reader) (t Transcript, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if t, err = vacant(ctx, s, conversation); errors.Is(err, ErrExists) && t.Status == Active {
		switch same, failed := imported(ctx, s, conversation, in); {
		case failed != nil:
			return Transcript{}, failed
		case same:
			return t, nil
		}
	}
	if err != nil {
		return Transcript{}, err
	}
	if _, err = s.Commit(ctx, Change{Conversation: conversation, Status: Importing}); err != nil {
		return Transcript{}, err
	}
	im := importing{store: s, conversation: conversation}
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWithin)
		defer cancel()
		_, undone := s.Commit(ctx, Change{Conversation: conversation, Status: Deleted})
		err = errors.Join(err, undone)
	}()
	if err = im.lines(ctx, in); err != nil {
		return Transcript{}, err
	}
	if err = im.commit(ctx, im.last); err != nil {
		return Transcript{}, err
	}
	return s.Load(ctx, conversation)
}

// undoWithin is how long it may take to throw away what failed.
const undoWithin = 10 * time.Second

// vacant is a transcript that has nothing.
func vacant(ctx context.Context, s Store, conversation access.ConversationID) (Transcript, error) {
	t, err := s.Create(ctx, conversation)
	if err != nil {
		return t, err
	}
	if t.Status == Importing {
		if _, err := s.Commit(ctx, Change{Conversation: conversation, Status: Deleted}); err != nil {
			return t, err
		}
		return s.Create(ctx, conversation)
	}
	if t.LastSeq > 0 {
		return t, fmt.Errorf("%w: %s", ErrExists, conversation)
	}
	return t, nil
}

// importing is an import under way.
type importing struct {
	store        Store
	conversation access.ConversationID

	number  int       // of the line
	entries int64     // so far
	pending []waiting // entries that are chained
	bytes   int       // of them
	last    Change    // refs, head and status
	refs    []int     // the lines of its refs
}

// waiting is an entry that is to be appended, with its labels.
type waiting struct {
	Change
	line int
	late []Settlement // what is settled once it is there
}

// The most that is imported in one commit.
const (
	importEntries = 100
	importBytes   = 1 << 20
	maxLine       = 8 * MaxEntryBytes // with the results of its calls
	importTries   = 3                 // of a commit whose reply is lost
)

// errForm says that a line is not what it has to be.
var errForm = errors.New("not a line of an exported transcript")

func (im *importing) lines(ctx context.Context, r *bufio.Reader) error {
	im.last = Change{Conversation: im.conversation}
	for {
		text, err := readLine(r)
		im.number++
		switch {
		case errors.Is(err, io.EOF) && im.last.Status == "":
			return &LineError{im.number, io.ErrUnexpectedEOF}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &LineError{im.number, err}
		case len(bytes.TrimSpace(text)) == 0:
			continue
		case im.last.Status != "":
			return &LineError{im.number, errors.New("it follows the end")}
		}
		l, err := parsed(text)
		if err != nil {
			return &LineError{im.number, err}
		}
		if err := im.line(ctx, l, len(text)); err != nil {
			return im.at(im.number, err)
		}
	}
}

// parsed is what a line says.
func parsed(text []byte) (l portableLine, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return l, fmt.Errorf("%w: there is more than one thing on it", errForm)
	}
	return l, nil
}

// readLine is bufio's, with a limit.
func readLine(r *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := r.ReadSlice('\n')
		all = append(all, part...)
		switch {
		case len(all) > maxLine:
			return nil, &LimitError{Of: "bytes in a line", Max: maxLine}
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case err != nil:
			return nil, err
		default:
			return all, nil
		}
	}
}

func (im *importing) line(ctx context.Context, l portableLine, size int) error {
	begun := im.number > 1
	switch {
	case begun != (l.Transcript == nil):
		return fmt.Errorf("%w: what it is stands on the first line, and nowhere else", errForm)
	case l.Transcript != nil && l.Transcript.Version != portableVersion:
		return fmt.Errorf("%w: version %d of the form, not %d", errForm, l.Transcript.Version, portableVersion)
	case l.Transcript != nil:
		return nil
	case l.Entry != nil:
		im.entries++
		return im.entry(ctx, *l.Entry, size)
	case l.Ref != nil && slices.ContainsFunc(im.last.Refs, func(r RefChange) bool { return r.Name == l.Ref.Name }):
		return fmt.Errorf("%w: there is such a ref already", errForm)
	case l.Ref != nil:
		im.refs = append(im.refs, im.number)
		im.last.Refs = append(im.last.Refs, RefChange{Name: l.Ref.Name, To: position(l.Ref.At), Version: -1})
		return nil
	case l.End == nil:
		return fmt.Errorf("%w: there is nothing on it", errForm)
	}
	if err := im.flush(ctx); err != nil {
		return err
	}
	if l.End.Entries != im.entries {
		return fmt.Errorf("%w: there should be %d entries, and are %d", errForm, l.End.Entries, im.entries)
	}
	return im.marks(ctx, position(l.End.Head))
}

// marks writes the refs, each by itself where they are refused together, and
// leaves to the last what says that all is done.
func (im *importing) marks(ctx context.Context, head Position) error {
	refs := Change{Conversation: im.conversation, Refs: im.last.Refs}
	im.last = Change{Conversation: im.conversation, Head: head, Status: Active}
	if err := im.last.Check(); err != nil {
		return err
	}
	if len(refs.Refs) == 0 {
		return im.there(ctx, head)
	}
	if err := im.commit(ctx, refs); err != nil {
		if !refused(err) {
			return err
		}
		for i, r := range refs.Refs {
			if err := im.commit(ctx, Change{Conversation: im.conversation, Refs: []RefChange{r}}); err != nil {
				return im.at(im.refs[i], err)
			}
		}
		return err
	}
	return im.there(ctx, head)
}

// there refuses a head that is not among what was imported.
func (im *importing) there(ctx context.Context, head Position) error {
	if head.Root {
		return nil
	}
	found, err := im.store.Get(ctx, im.conversation, head.Entry)
	if err == nil && (len(found) == 0 || found[0].Aborted) {
		err = fmt.Errorf("%w: entry %s of %s, which is the head", ErrNotFound, head.Entry, im.conversation)
	}
	return err
}

func position(id EntryID) Position {
	if id == "" {
		return BeforeRoot()
	}
	return After(id)
}

// entry adds an entry to those that wait, if it follows them.
func (im *importing) entry(ctx context.Context, e portableEntry, size int) error {
	in := e.new()
	after := position(e.Parent)
	one := waiting{Change: Change{Conversation: im.conversation}, line: im.number}
	for _, label := range e.Labels {
		one.Labels = append(one.Labels, LabelChange{Entry: e.ID, Label: label})
	}
	n := len(im.pending)
	if n > 0 && (e.Aborted || after != After(im.pending[n-1].Append[0].ID) || n == importEntries || im.bytes+size > importBytes) {
		if err := im.flush(ctx); err != nil {
			return err
		}
	}
	if e.Aborted {
		return im.aborted(ctx, Draft{NewEntry: in, After: after}, one.Change)
	}
	in.Parts, one.late = unanswered(in)
	one.Append, one.After, one.KeepHead = []NewEntry{in}, after, true
	im.pending = append(im.pending, one)
	im.bytes += size
	return nil
}
