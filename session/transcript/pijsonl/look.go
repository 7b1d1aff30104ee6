package pijsonl

import (
	"encoding/json"
	"hash/maphash"
	"strings"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// look finds out what has to be known of an entry before others are made.
// said stands for what it says to a model; 0: nothing.
func (s *scan) look(n *node, f fields, kind string, i int32) (said uint64, err error) {
	switch kind {
	case "message":
		m := f.object("message")
		switch m.text("role") {
		case "assistant":
			if blocks, ok := blocksOf(m["content"]); ok && len(blocks) <= transcript.MaxParts { // else it can't be imported
				n.calls = callsOf(blocks)
			}
			if len(n.calls) > 0 {
				n.caller = i
			}
		case "toolResult":
			n.answers = s.answer(n.caller, m.text("toolCallId"), i)
		}
		return s.saidBy(m), nil
	case "custom_message":
		return s.saidBy(fields{"role": json.RawMessage(`"custom"`), "content": f["content"]}), nil
	case "branch_summary":
		return s.saidBy(fields{"role": json.RawMessage(`"branchSummary"`), "summary": f["summary"]}), nil
	case "compaction":
		s.compaction(n, f)
	case "label":
		if to, ok := s.ids[f.text("targetId")]; ok {
			s.nodes[to].label = clean(f.text("label"))
		}
	case "session_info":
		if name := strings.TrimSpace(f.text("name")); name != "" {
			s.name = name
		}
	}
	return 0, nil
}

// moved moves the head: to what is new, or to where that says.
func (s *scan) moved(f fields, kind string, i int32) {
	to, ok := s.ids[f.text("targetId")]
	switch {
	case kind != "leaf":
		s.head = i
	case ok:
		s.head = to
	case !f.has("targetId"):
		s.head = none
	}
}

// answer gives a call its result: the first of the nearest calls above it that has that id and no result.
func (s *scan) answer(caller int32, id string, result int32) bool {
	if caller == none {
		return false
	}
	for k, c := range s.nodes[caller].calls {
		if c.id == id && c.result == none {
			s.nodes[caller].calls[k].result = result
			return true
		}
	}
	return false
}

// compaction finds the first entry that a compaction keeps.
func (s *scan) compaction(n *node, f fields) {
	if s.header.Version == 1 {
		var from int
		if json.Unmarshal(f["firstKeptEntryIndex"], &from) != nil || !f.has("firstKeptEntryIndex") || from < 0 {
			return
		}
		if from < len(s.order) && s.order[from] < int32(len(s.nodes)) { // of lines, and the header is one of them
			n.kept = s.order[from]
		}
		return
	}
	if n.kept = s.tail(n.parent, f["retainedTail"]); n.kept != none {
		n.repeats = true
		return
	}
	if kept, ok := s.ids[f.text("firstKeptEntryId")]; ok && n.parent != none && s.above(kept, n.parent) {
		n.kept = kept
	}
}

// tail is the first of the entries up to one that say the same, in the same order, as the messages of a tail; none if they don't.
func (s *scan) tail(to int32, text json.RawMessage) (first int32) {
	var all []fields
	if json.Unmarshal(text, &all) != nil {
		return none
	}
	first = none
	for k := len(all) - 1; k >= 0; k-- {
		if to != none {
			to = s.nodes[to].speaks
		}
		if to == none || s.nodes[to].said != s.saidBy(all[k]) {
			return none
		}
		first, to = to, s.nodes[to].parent
	}
	return first
}

// saidBy stands for what a message says to a model: who says it, and what. 0: nobody says anything.
func (f *File) saidBy(m fields) uint64 {
	role := m.text("role")
	if role == "" {
		return 0
	}
	if role == "hookMessage" { // what it was called in version 2
		role = "custom"
	}
	var h maphash.Hash
	h.SetSeed(f.seed)
	for _, text := range [][]byte{[]byte(role), m["content"], m["summary"], m["command"], m["output"]} {
		h.Write(text)
		h.WriteByte(0)
	}
	return max(h.Sum64(), 1)
}
