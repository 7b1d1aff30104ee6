package pijsonl

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func limited(err error, max int64) bool {
	over, ok := errors.AsType[*transcript.LimitError](err)
	return ok && over.Max == max
}

// A line has at most so many bytes, its end among them.
func TestReadLine(t *testing.T) {
	whole := append(bytes.Repeat([]byte{' '}, MaxLine-1), '\n')
	r := bufio.NewReader(io.MultiReader(bytes.NewReader(whole), strings.NewReader(" "), bytes.NewReader(whole)))
	if line, err := readLine(r); err != nil || len(line) != MaxLine {
		t.Errorf("as long as may be: %d bytes, %v", len(line), err)
	}
	if _, err := readLine(r); !limited(err, MaxLine) {
		t.Errorf("longer: got error %v", err)
	}
}

// A file has at most so many entries, and one more can't be left out.
func TestMaxEntries(t *testing.T) {
	s := scan{File: &File{header: Header{Version: 1}, nodes: make([]node, MaxEntries-1)}, ids: map[string]int32{}, begun: true}
	s.skip = func(int, error) bool { return true }
	entry := []byte(`{"type":"x"}`)
	if err := s.line(node{line: 7}, entry); err != nil || len(s.nodes) != MaxEntries {
		t.Errorf("as many as may be: %v", err)
	}
	if err := s.line(node{line: 8}, entry); !limited(err, MaxEntries) || len(s.nodes) != MaxEntries {
		t.Errorf("one more: got error %v", err)
	}
}

// The results of one entry are not read into memory without end, and the entry is to blame.
func TestManyLargeResults(t *testing.T) {
	f := &File{nodes: []node{{line: 3, calls: []call{{"a", 1}, {"b", none}, {"c", 2}}}, {size: MaxLine}, {size: MaxLine}, {size: 1}}}
	m := making{File: f}
	if err := m.bounded(f.nodes[0].calls); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	err := m.bounded(append(f.nodes[0].calls, call{"d", 3}))
	if !limited(err, 2*MaxLine) {
		t.Errorf("larger: got error %v", err)
	}
	if at, ok := errors.AsType[*transcript.LineError](f.wrong(0, err)); !ok || at.Line != 3 {
		t.Errorf("got %v", at)
	}
}
