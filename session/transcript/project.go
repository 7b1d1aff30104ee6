package transcript

import (
	"encoding/json"
	"slices"
	"strings"
)

// Role says who speaks in a message to a model.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is what a model is given. Providers differ in its form, not in what it has.
type Message struct {
	Role  Role
	Entry EntryID // where it is from
	Parts []Part  // of a user and an assistant; never empty
	// Call is what a tool answers to; its Status is final, and where that is
	// interrupted or denied, its Result may be empty.
	Call *Call
}

// Project makes the messages of a context: entries of one path, oldest first, as
// [Store.Context] reads them. What comes out is what every provider accepts,
// whatever the entries are:
//
//   - each tool call has one result, right behind the message that calls; one
//     that is not settled is answered as interrupted,
//   - the summary of the newest compaction comes first and older ones are left out,
//   - no message is empty,
//   - what is aborted, hidden, of the conversation's own affairs or of a kind
//     nobody knows is left out.
//
// It is pure, and shares what it is given.
func Project(entries []Entry) []Message {
	var out []Message
	newest := -1
	for i, e := range entries {
		if e.Compaction != nil && !e.Aborted {
			newest = i
		}
	}
	if newest >= 0 && strings.TrimSpace(entries[newest].Compaction.Summary) != "" {
		out = append(out, Message{Role: RoleUser, Entry: entries[newest].ID, Parts: []Part{TextPart(entries[newest].Compaction.Summary)}})
	}
	for _, e := range entries {
		if e.Aborted || !e.Kind.Message() {
			continue
		}
		parts := slices.DeleteFunc(slices.Clone(e.Parts), Part.empty)
		if len(parts) == 0 {
			continue
		}
		role := RoleUser
		if e.Kind == KindAssistant {
			role = RoleAssistant
		}
		out = append(out, Message{Role: role, Entry: e.ID, Parts: parts})
		for _, p := range parts {
			if p.Call == nil {
				continue
			}
			call := *p.Call
			if !call.Status.Settled() {
				call.Status, call.Result, call.Blob = CallInterrupted, nil, nil
			}
			out = append(out, Message{Role: RoleTool, Entry: e.ID, Call: &call})
		}
	}
	return out
}

// TextPart is a part of plain text.
func TextPart(text string) Part {
	data, err := marshal(struct {
		Text string `json:"text"`
	}{strings.ToValidUTF8(text, "\uFFFD")})
	if err != nil {
		panic(err) // a string is always JSON
	}
	return Part{Type: PartText, Data: data}
}

// Text is the text of a part of text or of thinking; empty of any other.
func (p Part) Text() string {
	var t struct {
		Text string `json:"text"`
	}
	if p.Type != PartText && p.Type != PartThinking || json.Unmarshal(p.Data, &t) != nil {
		return ""
	}
	return t.Text
}

// empty reports whether there is nothing in a part that a provider would accept.
func (p Part) empty() bool {
	return (p.Type == PartText || p.Type == PartThinking) && p.Blob == nil && strings.TrimSpace(p.Text()) == ""
}
