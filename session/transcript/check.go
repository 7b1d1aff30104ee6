package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/access"
)

// Check refuses what no store has to look at: a *access.FieldError names the
// field, a *LimitError what is too large.
func (c Change) Check() error {
	if err := access.CheckID("Conversation", c.Conversation); err != nil {
		return err
	}
	switch {
	case c.Fence < 0:
		return &access.FieldError{Field: "Fence", Rule: "not negative"}
	case (c.Begin || c.End || c.EndIdle) && c.Fence == 0:
		return &access.FieldError{Field: "Fence", Rule: "given where a turn begins or ends"}
	case c.Hold && c.Resume:
		return &access.FieldError{Field: "Hold", Rule: "not with Resume"}
	case c.Version < 0:
		return &access.FieldError{Field: "Version", Rule: "not negative"}
	case c.MaxBytes < 0:
		return &access.FieldError{Field: "MaxBytes", Rule: "not negative"}
	case len(c.Append) > MaxAppend:
		return &access.FieldError{Field: "Append", Rule: fmt.Sprintf("at most %d entries", MaxAppend)}
	case len(c.Append) > 0 && !c.Head.IsZero():
		return &access.FieldError{Field: "Head", Rule: "not moved by a change that appends"}
	case len(c.Append) == 0 && (!c.After.IsZero() || c.KeepHead):
		return &access.FieldError{Field: "Append", Rule: "not empty where After or KeepHead is given"}
	case c.Status != "" && c.Status != Active && c.Status != Archived && c.Status != Deleted && c.Status != Importing:
		return &access.FieldError{Field: "Status", Rule: "active, archived, deleted or importing"}
	case c.Status != "" && c.Fence != 0:
		return &access.FieldError{Field: "Status", Rule: "not changed within a turn"}
	case c.CancelWaiting && c.Status != Archived && c.Status != Deleted:
		return &access.FieldError{Field: "CancelWaiting", Rule: "only where it is archived or deleted"}
	case c.Status == Archived && c.leavesOpen():
		return &access.FieldError{Field: "Status", Rule: "not archived by a change that leaves something open"}
	}
	for _, at := range []struct {
		field string
		Position
	}{{"Expect", c.Expect}, {"After", c.After}, {"Head", c.Head}} {
		if err := at.Check(at.field); err != nil {
			return err
		}
	}
	return firstOf(c.checkAppend, c.checkPromote, c.checkDrafts, c.checkCalls, c.checkNames)
}

// leavesOpen reports whether the change brings what is to be finished later.
func (c Change) leavesOpen() bool {
	return c.Draft != nil || len(c.Start) > 0 || slices.ContainsFunc(c.Append, func(e NewEntry) bool {
		return slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Call != nil && !p.Call.Status.Settled() })
	})
}

func firstOf(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c Change) checkAppend() error {
	seen := make(map[EntryID]bool, len(c.Append))
	for i, e := range c.Append {
		err := e.check()
		if err == nil && seen[e.ID] {
			err = &access.FieldError{Field: "ID", Rule: "not the id of another of the change"}
		}
		if err != nil {
			return within(fmt.Sprintf("Append[%d]", i), err)
		}
		seen[e.ID] = true
	}
	return nil
}

func (c Change) checkPromote() error {
	for i, id := range c.Promote {
		appended := slices.ContainsFunc(c.Append, func(e NewEntry) bool { return e.ID == id })
		if !appended || slices.Contains(c.Promote[:i], id) {
			return &access.FieldError{Field: fmt.Sprintf("Promote[%d]", i), Rule: "of an entry that is appended, once"}
		}
	}
	return nil
}

func (c Change) checkDrafts() error {
	if c.Draft != nil {
		if err := c.Draft.check(); err != nil {
			return within("Draft", err)
		}
		if err := c.Draft.After.Check("Draft.After"); err != nil {
			return err
		}
		if len(c.Append) > 0 {
			return &access.FieldError{Field: "Draft", Rule: "not saved by a change that appends"}
		}
	}
	for i, id := range c.Abort {
		field := fmt.Sprintf("Abort[%d]", i)
		if err := access.CheckID(field, id); err != nil {
			return err
		}
		for _, e := range c.Append {
			if e.ID == id {
				return &access.FieldError{Field: field, Rule: "not appended by the same change"}
			}
		}
		if c.Draft != nil && c.Draft.ID == id {
			return &access.FieldError{Field: field, Rule: "not saved by the same change"}
		}
		if slices.Contains(c.Abort[:i], id) {
			return &access.FieldError{Field: field, Rule: "given up once by a change"}
		}
	}
	return nil
}

func (c Change) checkCalls() error {
	for i, a := range c.Start {
		field := fmt.Sprintf("Start[%d]", i)
		if err := a.check(field); err != nil {
			return err
		}
		if slices.Contains(c.Start[:i], a) {
			return &access.FieldError{Field: field, Rule: "started once by a change"}
		}
	}
	seen := make(map[CallAddress]bool, len(c.Settle))
	for i, s := range c.Settle {
		field := fmt.Sprintf("Settle[%d]", i)
		switch {
		case !s.Status.Settled():
			return &access.FieldError{Field: field + ".Status", Rule: "a final one"}
		case len(s.Result) > 0 && !valid(s.Result):
			return &access.FieldError{Field: field + ".Result", Rule: jsonRule}
		case len(s.Result) > MaxEntryBytes:
			return &LimitError{Of: "bytes in a result", Max: MaxEntryBytes}
		case seen[s.CallAddress]:
			return &access.FieldError{Field: field, Rule: "settled once by a change"}
		}
		seen[s.CallAddress] = true
		if err := s.check(field); err != nil {
			return err
		}
	}
	return nil
}

func (a CallAddress) check(field string) error {
	if err := access.CheckID(field+".Entry", a.Entry); err != nil {
		return err
	}
	return access.CheckID(field+".Call", a.Call)
}

func (c Change) checkNames() error {
	for i, r := range c.Refs {
		field := fmt.Sprintf("Refs[%d]", i)
		if err := checkName(field+".Name", r.Name); err != nil {
			return err
		}
		if err := r.To.Check(field + ".To"); err != nil {
			return err
		}
		for _, other := range c.Refs[:i] {
			if other.Name == r.Name {
				return &access.FieldError{Field: field + ".Name", Rule: "changed once by a change"}
			}
		}
	}
	for i, l := range c.Labels {
		field := fmt.Sprintf("Labels[%d]", i)
		if err := access.CheckID(field+".Entry", l.Entry); err != nil {
			return err
		}
		if err := checkName(field+".Label", l.Label); err != nil {
			return err
		}
	}
	return nil
}

// checkName refuses what is no name of a ref, a label, a tool or a type.
func checkName(field, name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &access.FieldError{Field: field, Rule: fmt.Sprintf("1 to %d bytes of UTF-8 without control characters", MaxName)}
	}
	return nil
}

// within is err with the field named in which it is: that is said only where there is one.
func within(field string, err error) error {
	if in, ok := err.(*access.FieldError); ok {
		return &access.FieldError{Field: field + "." + in.Field, Rule: in.Rule}
	}
	return err
}

// check refuses an entry by its own content.
func (e NewEntry) check() error {
	if err := access.CheckID("ID", e.ID); err != nil {
		return err
	}
	if err := checkName("Kind", string(e.Kind)); err != nil {
		return err
	}
	if err := access.CheckOptionalID("Turn", e.Turn); err != nil {
		return err
	}
	if err := access.CheckOptionalID("Actor", e.Actor); err != nil {
		return err
	}
	u := e.Usage
	switch {
	case len(e.Parts) > 0 && !e.Kind.Message():
		return &access.FieldError{Field: "Parts", Rule: "only of messages"}
	case len(e.Parts) > MaxParts:
		return &access.FieldError{Field: "Parts", Rule: fmt.Sprintf("at most %d", MaxParts)}
	case len(e.Payload) > 0 && !object(e.Payload):
		return &access.FieldError{Field: "Payload", Rule: "an object: " + jsonRule}
	case min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.CostMicros) < 0:
		return &access.FieldError{Field: "Usage", Rule: "not negative"}
	case (e.Compaction != nil) != (e.Kind == KindCompaction):
		return &access.FieldError{Field: "Compaction", Rule: "given of a compaction, and of nothing else"}
	case (e.State != nil) != (e.Kind == KindState):
		return &access.FieldError{Field: "State", Rule: "given of a state, and of nothing else"}
	}
	if c := e.Compaction; c != nil {
		if c.TokensBefore < 0 {
			return &access.FieldError{Field: "Compaction.TokensBefore", Rule: "not negative"}
		}
		if err := access.CheckOptionalID("Compaction.FirstKept", c.FirstKept); err != nil {
			return err
		}
		if len(c.Pinned) > MaxPinned {
			return &access.FieldError{Field: "Compaction.Pinned", Rule: fmt.Sprintf("at most %d", MaxPinned)}
		}
		for _, id := range c.Pinned {
			if err := access.CheckID("Compaction.Pinned", id); err != nil {
				return err
			}
		}
	}
	if e.State != nil {
		for key, value := range e.State.Set {
			if key == "" || !utf8.ValidString(key) || !valid(value) {
				return &access.FieldError{Field: "State.Set", Rule: jsonRule + ", by keys of UTF-8"}
			}
		}
	}
	var calls map[CallID]bool
	for i, p := range e.Parts {
		if err := e.checkPart(p, calls); err != nil {
			return within(fmt.Sprintf("Parts[%d]", i), err)
		}
		if p.Call == nil {
			continue
		}
		if calls == nil { // most entries have none
			calls = map[CallID]bool{}
		}
		calls[p.Call.ID] = true
	}
	return nil
}

// checkPart refuses a part. calls are those of the parts before it.
func (e NewEntry) checkPart(p Part, calls map[CallID]bool) error {
	if err := checkName("Type", p.Type); err != nil {
		return err
	}
	switch {
	case p.Blob != nil:
		return &access.FieldError{Field: "Blob", Rule: "left to the store: give Data"}
	case (p.Call != nil) != (p.Type == PartCall):
		return &access.FieldError{Field: "Call", Rule: "given of a tool call, and of nothing else"}
	case p.Call != nil && len(p.Data) > 0:
		return &access.FieldError{Field: "Data", Rule: "empty of a tool call"}
	case p.Call == nil && !object(p.Data):
		return &access.FieldError{Field: "Data", Rule: "an object: " + jsonRule}
	case p.Call == nil:
		return nil
	case e.Kind != KindAssistant:
		return &access.FieldError{Field: "Call", Rule: "only of an assistant's entry"}
	case calls[p.Call.ID]:
		return &access.FieldError{Field: "Call.ID", Rule: "not the id of another call of the entry"}
	}
	return within("Call", p.Call.check())
}

func (c Call) check() error {
	if err := access.CheckID("ID", c.ID); err != nil {
		return err
	}
	if err := checkName("Name", c.Name); err != nil {
		return err
	}
	switch open := c.Status == "" || c.Status == CallPending || c.Status == CallRunning; {
	case !valid(c.Arguments):
		return &access.FieldError{Field: "Arguments", Rule: jsonRule}
	case !open && !c.Status.Settled():
		return &access.FieldError{Field: "Status", Rule: "pending, running or a final one"}
	case len(c.Result) > 0 && (open || !valid(c.Result)):
		return &access.FieldError{Field: "Result", Rule: jsonRule + ", of a call that is settled"}
	case c.Blob != nil:
		return &access.FieldError{Field: "Blob", Rule: "left to the store: give Result"}
	}
	return nil
}

// object reports whether b is a JSON object.
func object(b json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) && valid(b)
}

// valid reports whether b is JSON, which is UTF-8, of at most [MaxNesting] levels.
func valid(b []byte) bool { return utf8.Valid(b) && json.Valid(b) && shallow(b) }

// jsonRule is what valid asks for.
const jsonRule = "JSON, of at most 1000 levels"

// shallow reports whether JSON has at most MaxNesting levels.
func shallow(b []byte) bool {
	if bytes.Count(b, []byte("{"))+bytes.Count(b, []byte("[")) <= MaxNesting {
		return true
	}
	deep := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += quoted(b[i:]) - 1
		case '{', '[':
			if deep++; deep > MaxNesting {
				return false
			}
		case '}', ']':
			deep--
		}
	}
	return true
}
