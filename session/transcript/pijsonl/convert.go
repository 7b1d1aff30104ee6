package pijsonl

import (
	"encoding/json"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// making is an entry in the making. What has found its place in it is taken out of line and message.
type making struct {
	*File
	i       int32
	line    fields
	message fields            // of a message
	calls   map[string]fields // what of calls has no place in them
	entry
}

// convert makes an entry of its line.
func (f *File) convert(i int32) (entry, error) {
	line, err := f.read(i)
	if err != nil {
		return entry{}, err
	}
	n := f.nodes[i]
	m := making{File: f, i: i, line: line, entry: entry{ID: transcript.EntryID(n.id), Kind: transcript.KindHidden, Created: line.when("timestamp")}}
	if n.parent != none {
		m.Parent = transcript.EntryID(f.nodes[n.parent].id)
	}
	if n.label != "" {
		m.Labels = []string{n.label}
	}
	delete(line, "id")
	delete(line, "parentId")
	if err := m.fill(); err != nil {
		return entry{}, err
	}
	m.Payload, err = m.payload()
	return m.entry, err
}

// payload is what is left over.
func (m *making) payload() (json.RawMessage, error) {
	if m.message != nil {
		text, err := raw(m.message)
		if err != nil {
			return nil, err
		}
		m.line["message"] = text
	}
	return raw(struct {
		Pi    fields            `json:"pi"`
		Calls map[string]fields `json:"calls,omitempty"`
	}{m.line, m.calls})
}

func (m *making) fill() error {
	used := m.line
	switch m.line.text("type") {
	case "message":
		m.message = m.line.object("message")
		if err := m.said(); err != nil {
			return err
		}
		used = m.message
	case "custom_message":
		if err := m.says(transcript.KindContext, m.line); err != nil {
			return err
		}
	case "branch_summary":
		m.tells(transcript.KindSummary, m.line)
	case "compaction":
		m.compacts()
	case "model_change", "thinking_level_change", "active_tools_change":
		m.Kind = transcript.KindConfig
	}
	if u := usageOf(used.object("usage")); u != (transcript.Usage{}) {
		m.Usage = &u
	}
	return nil
}

// said makes an entry of a message.
func (m *making) said() error {
	switch m.message.text("role") {
	case "user":
		return m.user()
	case "assistant":
		return m.assistant()
	case "toolResult":
		if m.nodes[m.i].answers {
			delete(m.message, "content") // it is with the call
		}
	case "custom", "hookMessage":
		return m.says(transcript.KindContext, m.message)
	case "bashExecution":
		if !m.message.is("excludeFromContext") {
			m.Kind, m.Parts = transcript.KindContext, []transcript.Part{transcript.TextPart(ran(m.message))}
			m.message.take("output")
		}
	case "branchSummary":
		m.tells(transcript.KindSummary, m.message)
	case "compactionSummary":
		m.tells(transcript.KindContext, m.message)
	case "system":
		m.Kind = transcript.KindConfig
	}
	return nil
}

// says takes the parts of a message, where it has such.
func (m *making) says(kind transcript.Kind, of fields) (err error) {
	blocks, ok := blocksOf(of["content"])
	if !ok {
		return nil
	}
	m.Kind = kind
	m.Parts, err = parts(blocks)
	delete(of, "content")
	return err
}

// tells takes a summary.
func (m *making) tells(kind transcript.Kind, of fields) {
	m.Kind, m.Parts = kind, []transcript.Part{transcript.TextPart(of.take("summary"))}
}

func (m *making) user() error {
	if err := m.says(transcript.KindUser, m.message); err != nil || m.Kind != transcript.KindUser {
		return err
	}
	m.Actor = m.actor
	blocks, rest := attached(m.message)
	more, err := parts(blocks)
	if m.Parts = append(m.Parts, more...); err != nil || rest == nil {
		return err
	}
	m.message["attachments"], err = raw(rest)
	return err
}

func (m *making) assistant() error {
	blocks, ok := blocksOf(m.message["content"])
	if !ok {
		return nil
	}
	if len(blocks) > transcript.MaxParts { // before anything is looked for among them
		return &transcript.LimitError{Of: "parts in an entry", Max: transcript.MaxParts}
	}
	m.Kind = transcript.KindAssistant
	delete(m.message, "content")
	calls, nth := m.nodes[m.i].calls, 0
	if err := m.bounded(calls); err != nil {
		return err
	}
	taken := map[transcript.CallID]bool{}
	for _, b := range blocks {
		if b.text("type") != callBlock {
			p, err := part(b)
			if err != nil {
				return err
			}
			m.Parts = append(m.Parts, p)
			continue
		}
		c, rest := called(b, nth, func(id transcript.CallID) bool { return taken[id] })
		if taken[c.ID] = true; len(rest) > 0 {
			if m.calls == nil {
				m.calls = map[string]fields{}
			}
			m.calls[string(c.ID)] = rest
		}
		if result := calls[nth].result; result != none {
			if err := m.answered(&c, result); err != nil {
				return err
			}
		}
		nth++
		m.Parts = append(m.Parts, transcript.Part{Type: transcript.PartCall, Call: &c})
	}
	return nil
}

// bounded refuses results that are too much to be read at once.
func (m *making) bounded(calls []call) error {
	size := 0
	for _, c := range calls {
		if c.result != none {
			size += m.nodes[c.result].size
		}
	}
	if size > 2*MaxLine {
		return &transcript.LimitError{Of: "bytes in the results of an entry", Max: 2 * MaxLine}
	}
	return nil
}

// answered gives a call its result.
func (m *making) answered(c *transcript.Call, result int32) error {
	line, err := m.read(result)
	if err != nil {
		return err
	}
	message := line.object("message")
	c.Status = transcript.CallSucceeded
	if message.is("isError") {
		c.Status = transcript.CallFailed
	}
	content := message["content"]
	if !message.has("content") {
		content = json.RawMessage("[]")
	}
	c.Result, err = raw(fields{"content": content})
	return err
}

func (m *making) compacts() {
	n := m.nodes[m.i]
	m.Kind = transcript.KindCompaction
	m.Compaction = &transcript.Compaction{Summary: m.line.take("summary"), TokensBefore: m.line.number("tokensBefore", 1, 1<<40)}
	if n.repeats {
		delete(m.line, "retainedTail")
	}
	if n.kept != none {
		m.Compaction.FirstKept = transcript.EntryID(m.nodes[n.kept].id)
	}
}
