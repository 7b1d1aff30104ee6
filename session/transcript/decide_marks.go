package transcript

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// calls starts and settles what was called.
func (d *decision) calls() error {
	for _, a := range d.change.Start {
		call, ok := d.Calls[a]
		switch {
		case !ok:
			return fmt.Errorf("%w: call %s of entry %s of %s", ErrNotFound, a.Call, a.Entry, d.change.Conversation)
		case call.Status.Settled():
			return &SettledError{Entry: a.Entry, Call: a.Call, Status: call.Status}
		case call.Status == CallRunning:
			continue
		}
		call.Status = CallRunning
		d.plan.Started = append(d.plan.Started, a)
		d.note(Fact{Kind: FactCallStarted, Entry: a.Entry, Call: &call})
	}
	for _, s := range d.change.Settle {
		call, ok := d.Calls[s.CallAddress]
		if !ok {
			return fmt.Errorf("%w: call %s of entry %s of %s", ErrNotFound, s.Call, s.Entry, d.change.Conversation)
		}
		result, blob, large := s.Seal()
		if call.Status.Settled() {
			if call.Status == s.Status && bytes.Equal(call.Result, result) && sameBlob(call.Blob, blob) {
				continue // a retry
			}
			return &SettledError{Entry: s.Entry, Call: s.Call, Status: call.Status}
		}
		d.plan.Calls[s.CallAddress] = s
		d.plan.Transcript.Bytes += int64(len(result) + len(large))
		call.Status, call.Result, call.Blob = s.Status, nil, nil
		d.note(Fact{Kind: FactCallSettled, Entry: s.Entry, Call: &call})
	}
	return nil
}

func sameBlob(a, b *Blob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// draft keeps what is not finished.
func (d *decision) draft() error {
	c := d.change
	if c.Draft == nil {
		return nil
	}
	if d.Draft != nil && d.Draft.ID != c.Draft.ID && !slices.Contains(c.Abort, d.Draft.ID) {
		return &PathError{Entry: c.Draft.ID, Rule: "another draft is being made"}
	}
	if k, ok := d.Known[c.Draft.ID]; ok {
		rule := "it is in the tree already"
		if k.Aborted {
			rule = "it was given up"
		}
		return &PathError{Entry: c.Draft.ID, Rule: rule}
	}
	draft := *c.Draft
	if draft.After.IsZero() {
		draft.After = d.plan.Transcript.Head
	}
	if _, err := d.depthAt(draft.After); err != nil {
		return err
	}
	if _, err := Seal(draft.NewEntry); err != nil {
		return err
	}
	d.plan.SaveDraft = &draft
	return nil
}

// abort gives drafts up. What has been given up already is a retry.
func (d *decision) abort() error {
	for _, id := range d.change.Abort {
		if k, ok := d.Known[id]; ok && k.Aborted {
			continue
		}
		if d.Draft == nil || d.Draft.ID != id {
			return fmt.Errorf("%w: draft %s of %s", ErrNotFound, id, d.change.Conversation)
		}
		if err := d.giveUp(); err != nil {
			return err
		}
	}
	return nil
}

// giveUp makes an aborted entry of the draft that is kept.
func (d *decision) giveUp() error {
	given := d.Draft.NewEntry
	given.Parts = slices.Clone(given.Parts)
	for i, p := range given.Parts {
		if p.Call != nil && !p.Call.Status.Settled() { // nobody was ever to run it
			call := *p.Call
			call.Status = CallInterrupted
			given.Parts[i].Call = &call
		}
	}
	depth, err := d.depthAt(d.Draft.After)
	if err != nil {
		return err
	}
	sealed, err := Seal(given)
	if err != nil {
		return err
	}
	d.plan.Entries = append(d.plan.Entries, Planned{
		Entry{NewEntry: given, Seq: d.seq(), Parent: d.Draft.After, Depth: depth + 1, Aborted: true, CreatedAt: d.Clock}, sealed,
	})
	d.plan.Transcript.Entries++
	d.plan.Transcript.Bytes += sealed.Bytes
	d.plan.Transcript.Usage = d.plan.Transcript.Usage.Add(given.Usage)
	d.plan.DropDraft = true
	return nil
}

// interrupt leaves nothing open, as what is archived takes no settlement any
// more: nobody acts on it, so that nobody will ever know how a call that is not settled has ended.
func (d *decision) interrupt() error {
	open := slices.DeleteFunc(slices.Clone(d.Open), func(a CallAddress) bool {
		_, settled := d.plan.Calls[a] // by this change
		return settled
	})
	slices.SortFunc(open, func(a, b CallAddress) int {
		return cmp.Or(cmp.Compare(d.Known[a.Entry].Seq, d.Known[b.Entry].Seq), cmp.Compare(a.Call, b.Call))
	})
	for _, a := range open {
		call := d.Calls[a]
		call.Status = CallInterrupted
		d.plan.Calls[a] = Settlement{CallAddress: a, Status: CallInterrupted}
		d.note(Fact{Kind: FactCallSettled, Entry: a.Entry, Call: &call})
	}
	if d.Draft == nil || d.plan.DropDraft {
		return nil
	}
	return d.giveUp()
}

func (d *decision) refs() error {
	count := len(d.Refs)
	for _, r := range d.change.Refs {
		was, there := d.Refs[r.Name]
		if r.Version >= 0 && r.Version != was.Version {
			return &VersionError{Of: "ref", Name: r.Name, Expected: r.Version, Actual: was.Version}
		}
		switch {
		case r.To.IsZero() && !there:
			continue
		case r.To.IsZero():
			count--
			d.note(Fact{Kind: FactRefRemoved, Ref: r.Name})
		default:
			if _, err := d.depthAt(r.To); err != nil {
				return err
			}
			if !there {
				count++
			}
			d.note(Fact{Kind: FactRefMoved, Ref: r.Name, At: r.To})
		}
		r.Version = was.Version + 1
		d.plan.Refs = append(d.plan.Refs, r)
	}
	if count > MaxRefs {
		return &LimitError{Of: "refs in a conversation", Max: MaxRefs}
	}
	return nil
}

func (d *decision) labels() error {
	now := map[EntryID][]string{}
	for _, l := range d.change.Labels {
		has, seen := now[l.Entry]
		if !seen {
			k, ok := d.Known[l.Entry]
			if !ok {
				if _, err := d.committed(l.Entry); err != nil {
					return err
				}
			}
			has = slices.Clone(k.Labels)
		}
		at := slices.Index(has, l.Label)
		switch {
		case l.Remove && at >= 0:
			has = slices.Delete(has, at, at+1)
			d.note(Fact{Kind: FactUnlabelled, Entry: l.Entry, Label: l.Label})
		case !l.Remove && at < 0:
			if len(has) >= MaxLabels {
				return &LimitError{Of: "labels on an entry", Max: MaxLabels}
			}
			has = append(has, l.Label)
			d.note(Fact{Kind: FactLabelled, Entry: l.Entry, Label: l.Label})
		default: // as it is
			now[l.Entry] = has
			continue
		}
		now[l.Entry] = has
		d.plan.Labels = append(d.plan.Labels, l)
	}
	return nil
}

// hold stops and resumes the delivery of inputs.
func (d *decision) hold() error {
	t := &d.plan.Transcript
	if d.change.Hold && !t.Held {
		t.Held = true
		d.note(Fact{Kind: FactHeld})
	}
	if d.change.Resume && t.Held {
		t.Held = false
		d.note(Fact{Kind: FactResumed})
	}
	return nil
}
