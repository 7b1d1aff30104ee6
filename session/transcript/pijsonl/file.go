package pijsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The most that a file may have, else *transcript.LimitError.
const (
	MaxLine    = transcript.MaxEntryBytes + 8<<20 // bytes in a line
	MaxEntries = 250_000
)

// ErrVersion: the file is of a version of the form that is not known here.
var ErrVersion = access.NewSentinel("pijsonl: unknown version", 422, "unknown_version", "This file was written by a version that can't be read here.")

// Options are what is done with a file.
type Options struct {
	// Actor is who has said what the user has; empty: nobody in particular.
	Actor access.UserID
	// Skip is told of each line that can't be read or has no place, and why; not of what only a store refuses, as JSON that is
	// nested too deep. It returns true
	// to go on as pi does: without that line, or where only the entry that it follows is not there, with
	// another root. nil: nothing is left out. It is called in the order of the lines, by Open alone.
	Skip func(line int, err error) bool
}

// Header is what a file says about itself.
type Header struct {
	ID      string // of the session
	Version int    // of the form, 1 to 3
	Created time.Time
	Dir     string // where it worked
	Parent  string // the file that it was forked from
	// Provider, Model and Thinking are what it began with; only in version 1.
	Provider, Model, Thinking string
	// Line is the header as it was.
	Line json.RawMessage
}

// File is a session file of which it is known what stands where. It is safe for concurrent use if what it reads from is.
type File struct {
	header Header
	name   string
	src    io.ReaderAt
	actor  access.UserID
	seed   maphash.Seed // of all hashes
	nodes  []node
	head   int32
	last   int // the number of the last line
}

// Open reads a file and finds out what stands where. It neither closes src nor keeps more than that it may be
// read again: what is imported later has to be the same. A file that has grown since counts as far as it was opened.
//
// *transcript.LineError: what is on a line can't be used; the first line is the header. ErrVersion. *transcript.LimitError: a line
// is over [MaxLine], or there are more than [MaxEntries]. *access.FieldError for bad options. Other errors are those of src.
func Open(src io.ReaderAt, size int64, opts *Options) (*File, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case src == nil:
		return nil, &access.FieldError{Field: "src", Rule: "must be set"}
	case size < 0:
		return nil, &access.FieldError{Field: "size", Rule: "not negative"}
	}
	if err := access.CheckOptionalID("Actor", o.Actor); err != nil {
		return nil, err
	}
	s := scan{File: &File{src: src, actor: o.Actor, seed: maphash.MakeSeed(), head: none}, ids: map[string]int32{}, skip: o.Skip}
	if err := s.all(size); err != nil {
		return nil, err
	}
	return s.File, nil
}

// Header is what the file says about itself.
func (f *File) Header() Header { return f.header }

// Name is the name that the session was given last; empty: none.
func (f *File) Name() string { return f.name }

// Entries is how many entries it has.
func (f *File) Entries() int { return len(f.nodes) }

// read reads the line of an entry anew.
func (f *File) read(i int32) (fields, error) {
	n := f.nodes[i]
	text := make([]byte, n.size)
	switch got, err := f.src.ReadAt(text, n.at); {
	case got == len(text):
	case err == nil || errors.Is(err, io.EOF):
		return nil, fmt.Errorf("pijsonl: reading line %d: %w", n.line, io.ErrUnexpectedEOF)
	default:
		return nil, fmt.Errorf("pijsonl: reading line %d: %w", n.line, err)
	}
	if maphash.Bytes(f.seed, text) != n.hash {
		return nil, fmt.Errorf("pijsonl: reading line %d: it has changed since the file was opened", n.line)
	}
	return parse(text)
}
