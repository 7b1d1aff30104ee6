package pijsonl

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// blocksOf are the parts of a content, which is a text or a list. Not ok: it is neither, or has what is no part.
func blocksOf(content json.RawMessage) (blocks []fields, ok bool) {
	if len(content) == 0 || string(content) == "null" {
		return nil, true
	}
	if content[0] == '"' {
		return []fields{{"type": json.RawMessage(`"text"`), "text": content}}, true
	}
	if json.Unmarshal(content, &blocks) != nil {
		return nil, false
	}
	for _, b := range blocks {
		if clean(b.text("type")) == "" {
			return nil, false
		}
	}
	return blocks, true
}

// callsOf are the calls among parts.
func callsOf(blocks []fields) (calls []call) {
	for _, b := range blocks {
		if b.text("type") == callBlock {
			calls = append(calls, call{b.text("id"), none})
		}
	}
	return calls
}

// callBlock is the type of a part of pi's that calls a tool.
const callBlock = "toolCall"

// part makes a part of one of pi's that calls nothing. Its data is what that has beside its type.
func part(b fields) (transcript.Part, error) {
	kind := clean(b.text("type"))
	delete(b, "type")
	switch kind {
	case transcript.PartThinking:
		if text, ok := b["thinking"]; ok {
			b["text"] = text
			delete(b, "thinking")
		}
	case transcript.PartCall:
		kind = "pi_" + kind // which is no call there
	}
	data, err := raw(b)
	return transcript.Part{Type: kind, Data: data}, err
}

// parts makes parts of those that call nothing.
func parts(blocks []fields) (all []transcript.Part, err error) {
	for _, b := range blocks {
		p, err := part(b)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// called makes the call of a part, but for what it has come to. rest is what of it has no place there.
func called(b fields, nth int, taken func(transcript.CallID) bool) (c transcript.Call, rest fields) {
	id, name := b.text("id"), b.text("name")
	c = transcript.Call{ID: transcript.CallID(id), Name: clean(name), Arguments: b["arguments"], Status: transcript.CallInterrupted}
	short := strings.ReplaceAll(id, "\x00", "")
	short = strings.ToValidUTF8(short[:min(len(short), access.MaxID/2)], "")
	for n := nth + 1; access.CheckID("id", c.ID) != nil || taken(c.ID); n++ {
		c.ID = transcript.CallID(fmt.Sprintf("%s#%d", short, n))
	}
	if c.Name == "" {
		c.Name = "unknown"
	}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	if string(c.ID) == id {
		delete(b, "id")
	}
	if c.Name == name {
		delete(b, "name")
	}
	delete(b, "type")
	delete(b, "arguments")
	return c, b
}

// usageOf is what pi has counted. Its numbers are bounded, so that no sum of them overflows.
func usageOf(f fields) transcript.Usage {
	const most = 1 << 40
	return transcript.Usage{
		Input: f.number("input", 1, most), Output: f.number("output", 1, most),
		CacheRead: f.number("cacheRead", 1, most), CacheWrite: f.number("cacheWrite", 1, most),
		CostMicros: f.object("cost").number("total", 1e6, most),
	}
}

// attached makes parts of what version 1 has attached to a message: of an image the image, of a document
// its text. What remains is not for a model.
func attached(m fields) (blocks []fields, rest []fields) {
	var all []fields
	if json.Unmarshal(m["attachments"], &all) != nil {
		return nil, nil
	}
	for _, a := range all {
		switch text := a.text("extractedText"); {
		case a.text("type") == "image" && a.has("content"):
			blocks = append(blocks, fields{"type": json.RawMessage(`"image"`), "data": a["content"], "mimeType": a["mimeType"]})
			delete(a, "content")
		case text != "":
			blocks = append(blocks, fields{"type": json.RawMessage(`"text"`), "text": a["extractedText"]})
			delete(a, "extractedText")
		}
		rest = append(rest, a)
	}
	return blocks, rest
}

// ran tells a model of a command that the user has run.
func ran(m fields) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The user ran a command:\n$ %s\n", m.text("command"))
	if out := m.text("output"); strings.TrimSpace(out) != "" {
		b.WriteString(strings.TrimSuffix(out, "\n") + "\n")
	}
	switch code := string(m["exitCode"]); {
	case m.is("cancelled"):
		b.WriteString("(cancelled)\n")
	case m.has("exitCode") && code != "0":
		fmt.Fprintf(&b, "(exit code %s)\n", code)
	}
	if m.is("truncated") {
		b.WriteString("(some of the output is missing)\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
