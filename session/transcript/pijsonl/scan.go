package pijsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// scan is the first reading of a file.
type scan struct {
	*File
	ids   map[string]int32
	skip  func(int, error) bool
	begun bool    // the header was read
	order []int32 // in version 1: what stands on each line that has something; for a header the entry that comes next
}

func (s *scan) all(size int64) error {
	r := bufio.NewReaderSize(io.NewSectionReader(s.src, 0, size), 64<<10)
	for at := int64(0); ; {
		text, err := readLine(r)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case len(text) == 0 && err != nil && !s.begun:
			return &transcript.LineError{Line: 1, Err: io.ErrUnexpectedEOF}
		case len(text) == 0 && err != nil:
			return nil
		}
		s.last++
		n := node{at: at, size: len(text), line: s.last, hash: maphash.Bytes(s.seed, text)}
		at += int64(len(text))
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := s.line(n, text); err != nil {
			return err
		}
	}
}

// readLine is bufio's, with a limit.
func readLine(r *bufio.Reader) ([]byte, error) {
	var all []byte
	for {
		part, err := r.ReadSlice('\n')
		if all = append(all, part...); len(all) > MaxLine {
			return nil, &transcript.LimitError{Of: "bytes in a line", Max: MaxLine}
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return all, err
		}
	}
}

// line takes in a line. Of what is wrong with one it asks whether it is to be left out.
func (s *scan) line(n node, text []byte) error {
	f, err := parse(text)
	if err == nil && !s.begun {
		return s.begin(f, n, text)
	}
	if err == nil {
		err = s.entry(n, f)
	}
	if errors.As(err, new(*transcript.LimitError)) {
		return err
	}
	if err != nil && s.begun && !errors.Is(err, errParent) && s.skip != nil && s.skip(n.line, err) {
		return nil
	}
	if err != nil {
		return &transcript.LineError{Line: n.line, Err: err}
	}
	return nil
}

// begin takes in the header.
func (s *scan) begin(f fields, n node, text []byte) error {
	id := f.text("id")
	if f.text("type") != "session" || id == "" {
		return &transcript.LineError{Line: n.line, Err: fmt.Errorf("%w: the first has to be the session's", errForm)}
	}
	s.header = Header{
		ID: id, Version: 1, Created: f.when("timestamp"), Dir: f.text("cwd"), Parent: f.text("parentSession"),
		Provider: f.text("provider"), Model: f.text("modelId"), Thinking: f.text("thinkingLevel"), Line: bytes.TrimSpace(text),
	}
	if s.header.Parent == "" {
		s.header.Parent = f.text("branchedFrom") // what it was called once
	}
	if f.has("version") {
		s.header.Version = 0
		if err := json.Unmarshal(f["version"], &s.header.Version); err != nil || s.header.Version < 1 || s.header.Version > 3 {
			return fmt.Errorf("%w: %.20s", ErrVersion, f["version"])
		}
	}
	s.begun = true
	s.order = append(s.order, 0)
	return nil
}

// entry takes in an entry. What is refused is left out by that.
func (s *scan) entry(n node, f fields) error {
	kind := f.text("type")
	switch {
	case kind == "":
		return fmt.Errorf("%w: it has no type", errForm)
	case kind == "session": // pi has written some twice
		s.order = append(s.order, int32(len(s.nodes)))
		return nil
	case len(s.nodes) == MaxEntries:
		return &transcript.LimitError{Of: "entries in a session file", Max: MaxEntries}
	}
	i := int32(len(s.nodes))
	parent, again, err := s.identify(&n, f)
	if err != nil || again {
		return err
	}
	s.place(&n, i, parent)
	said, err := s.look(&n, f, kind, i)
	if err != nil {
		return err
	}
	if said != 0 {
		n.said, n.speaks = said, i
	}
	s.nodes = append(s.nodes, n)
	s.ids[n.id] = i
	if s.header.Version == 1 {
		s.order = append(s.order, i)
	}
	s.moved(f, kind, i)
	return nil
}

// identify finds out which entry it is, and what it follows. again: it is there already, as pi has written some.
func (s *scan) identify(n *node, f fields) (parent int32, again bool, err error) {
	if s.header.Version == 1 {
		n.id = fmt.Sprint("line-", n.line)
		return int32(len(s.nodes)) - 1, false, nil
	}
	n.id = f.text("id")
	if err := access.CheckID("id", n.id); err != nil {
		return none, false, err
	}
	if i, ok := s.ids[n.id]; ok {
		if was := s.nodes[i]; was.hash == n.hash && was.size == n.size {
			return none, true, nil
		}
		return none, false, fmt.Errorf("%w: %s", errTwice, n.id)
	}
	if !f.has("parentId") {
		return none, false, nil
	}
	var id string
	if err := json.Unmarshal(f["parentId"], &id); err != nil {
		return none, false, fmt.Errorf("%w: parentId: %w", errForm, err)
	}
	parent, ok := s.ids[id]
	switch {
	case id == "": // pi takes it for none
		return none, false, nil
	case ok:
		return parent, false, nil
	}
	err = fmt.Errorf("%w: %s follows %.300s", errParent, n.id, id)
	if s.skip != nil && s.skip(n.line, err) {
		err = nil
	}
	return none, false, err
}
