package transcript

import (
	"fmt"
	"slices"
	"time"
)

// Facts are what [Decide] goes by: all of it as it is at one instant, under
// a lock on the transcript. A store loads what [Change.Needs] names.
type Facts struct {
	Transcript Transcript
	Known      map[EntryID]Known // of those needed that are there
	OnPath     map[EntryID]bool  // those of Needs.Kept that are on the path to Needs.Base
	Calls      map[CallAddress]Call
	Refs       map[string]Ref    // all
	Open       []CallAddress     // where Needs.Open: all calls that are not settled, in any order; Known and Calls have them too
	Draft      *Draft            // the one that is kept
	Inputs     map[EntryID]Input // those of Needs.Inputs that are there
	Claimed    []Input           // those that are claimed, by whichever turn; their content is not looked at
	Waiting    bool              // see [Deliverable]
	Queue      []Input           // where Needs.Queue: all that wait, in any order; their content is not looked at
	Clock      time.Time
}

// Known is an entry that is there.
type Known struct {
	Seq     int64
	Depth   int64
	Parent  Position
	Hash    string
	Aborted bool
	Labels  []string
}

// Needs are the facts that a change rests on.
type Needs struct {
	Entries []EntryID     // that it names, or means to append
	Base    Position      // what its first entry follows
	Kept    []EntryID     // of which it must be known whether they are on the path to Base
	Calls   []CallAddress // that it starts or settles
	Open    bool          // every call that is not settled
	Refs    bool
	Draft   bool      // and with it, among Known, the entry that the kept draft follows
	Inputs  []EntryID // that it promotes
	Claimed bool      // what is claimed: a turn begins or ends
	Waiting bool      // whether anything waits that could be delivered
	Queue   bool      // all that waits, for nothing may
}

// Needs names the facts that the change rests on, given where the head is.
func (c Change) Needs(head Position) Needs {
	n := Needs{Base: c.After, Inputs: c.Promote, Claimed: c.Begin || c.End || c.EndIdle, Waiting: c.EndIdle, Refs: len(c.Refs) > 0, Open: c.Status == Archived}
	n.Queue = c.Status == Archived || c.Status == Deleted && !c.CancelWaiting
	n.Draft = c.Draft != nil || len(c.Abort) > 0 || len(c.Append) > 0 || n.Open
	if n.Base.IsZero() {
		n.Base = head
	}
	name := func(ids ...EntryID) {
		for _, id := range ids {
			if id != "" && !slices.Contains(n.Entries, id) {
				n.Entries = append(n.Entries, id)
			}
		}
	}
	name(n.Base.Entry, c.Head.Entry)
	own := map[EntryID]bool{}
	for _, e := range c.Append {
		name(e.ID)
		for _, kept := range e.Compaction.keeps() {
			if !own[kept] {
				name(kept)
				n.Kept = append(n.Kept, kept)
			}
		}
		own[e.ID] = true
	}
	if c.Draft != nil {
		name(c.Draft.ID, c.Draft.After.Entry)
	}
	name(c.Abort...)
	for _, r := range c.Refs {
		name(r.To.Entry)
	}
	for _, l := range c.Labels {
		name(l.Entry)
	}
	n.Calls = slices.Clone(c.Start)
	for _, s := range c.Settle {
		n.Calls = append(n.Calls, s.CallAddress)
	}
	return n
}

// Plan is what a change comes to: rows to write, in one transaction.
type Plan struct {
	Transcript Transcript // as it is then
	Entries    []Planned  // to insert, committed ones and those given up
	Facts      []Fact     // to insert, but for FactAppended and FactAborted, which the entries are
	Calls      map[CallAddress]Settlement
	Started    []CallAddress
	Refs       []RefChange // that change something
	Labels     []LabelChange
	Inputs     []Input // that become something else, as they are then
	SaveDraft  *Draft
	DropDraft  bool // of the draft that was kept
	Retried    bool // all of Append is there; see [Plan.Empty]
}

// Empty reports whether there is nothing to write: so it is of a retry, but
// where an input waits still whose entry is there.
func (p Plan) Empty() bool { return p.Retried && len(p.Inputs) == 0 }

// Planned is an entry to insert.
type Planned struct {
	Entry
	Sealed
}

// Decide says what a change that [Change.Check] lets pass comes to. It is
// pure; an error is a refusal, one of those that [Store.Commit] names.
func Decide(f Facts, c Change) (Plan, error) {
	d := decision{Facts: f, change: c, plan: Plan{Transcript: f.Transcript, Calls: map[CallAddress]Settlement{}}}
	if f.Transcript.Status == Deleted {
		return Plan{}, fmt.Errorf("%w: %s", ErrNotFound, c.Conversation)
	}
	switch again, err := d.retried(); {
	case err != nil:
		return Plan{}, err
	case again:
		d.plan.Retried = true
		if err := d.caughtUp(); err != nil {
			return Plan{}, err
		}
		return d.plan, nil
	}
	for _, step := range []func() error{
		d.mayWrite, d.expected, d.begin, d.calls, d.append, d.moveHead, d.draft, d.abort, d.promote, d.refs, d.labels, d.hold, d.status, d.end,
	} {
		if err := step(); err != nil {
			return Plan{}, err
		}
	}
	d.plan.Transcript.UpdatedAt = f.Clock
	return d.plan, nil
}

// decision is a plan in the making. The steps go in the order of their facts.
type decision struct {
	Facts
	change Change
	plan   Plan
	sealed []Sealed // of Append
}

// seq is the next number.
func (d *decision) seq() int64 {
	d.plan.Transcript.LastSeq++
	return d.plan.Transcript.LastSeq
}

func (d *decision) note(f Fact) {
	f.Seq = d.seq()
	d.plan.Facts = append(d.plan.Facts, f)
}

// retried reports whether all of Append is there already.
func (d *decision) retried() (bool, error) {
	c := d.change
	there := 0
	for i, e := range c.Append {
		s, err := Seal(e)
		if err != nil {
			return false, err
		}
		d.sealed = append(d.sealed, s)
		k, ok := d.Known[e.ID]
		if !ok {
			continue
		}
		there++
		parent := c.After
		if i > 0 {
			parent = After(c.Append[i-1].ID)
		}
		switch {
		case k.Hash != s.Hash || k.Aborted:
			return false, &EntryConflictError{Conversation: c.Conversation, Entry: e.ID, Hash: s.Hash, Stored: k.Hash}
		case !parent.IsZero() && k.Parent != parent:
			return false, &PathError{Entry: e.ID, Rule: "it is in the tree already, in another place"}
		}
	}
	if there > 0 && there < len(c.Append) {
		return false, &PathError{Entry: c.Append[0].ID, Rule: "only some of what is appended with it are in the tree already"}
	}
	return there > 0, nil
}

// keeps are the entries that a compaction names.
func (c *Compaction) keeps() []EntryID {
	switch {
	case c == nil:
		return nil
	case c.FirstKept == "":
		return c.Pinned
	}
	return append([]EntryID{c.FirstKept}, c.Pinned...)
}

// ofTurn reports whether the change is what only a turn does while there is one.
func (c Change) ofTurn() bool {
	return len(c.Append) > 0 || !c.Head.IsZero() || len(c.Start) > 0 || len(c.Settle) > 0 || c.Draft != nil || len(c.Abort) > 0 || len(c.Promote) > 0
}

func (d *decision) mayWrite() error {
	t, c := d.Transcript, d.change
	switch {
	case t.Status == Archived && (c.Status == "" || c.ofTurn()):
		return fmt.Errorf("%w: %s", ErrArchived, c.Conversation)
	case c.Fence == 0 && t.InTurn && (c.ofTurn() || c.Status != ""):
		return fmt.Errorf("%w: %s", ErrInTurn, c.Conversation)
	case c.Begin && c.Fence < t.Fence, c.Fence != 0 && c.Fence == t.Fence && !t.InTurn, c.Fence != 0 && !c.Begin && c.Fence != t.Fence:
		return fmt.Errorf("%w: %s: turn %d, not %d", ErrFenced, c.Conversation, t.Fence, c.Fence)
	}
	return nil
}

func (d *decision) expected() error {
	t, c := d.Transcript, d.change
	switch {
	case !c.Expect.IsZero() && c.Expect != t.Head:
		return &HeadError{Conversation: c.Conversation, Expected: c.Expect, Actual: t.Head}
	case c.Version != 0 && c.Version != t.Version:
		return &VersionError{Of: "head", Name: string(c.Conversation), Expected: c.Version, Actual: t.Version}
	}
	return nil
}

func (d *decision) begin() error {
	t := &d.plan.Transcript
	if d.change.Begin && t.Fence != d.change.Fence {
		t.Fence, t.InTurn = d.change.Fence, true
		d.note(Fact{Kind: FactTurnBegun, Fence: t.Fence})
		d.giveBack()
	}
	return nil
}

func (d *decision) end() error {
	if d.change.EndIdle && d.Waiting && !d.plan.Transcript.Held {
		return fmt.Errorf("%w: %s", ErrWaiting, d.change.Conversation)
	}
	if d.change.End || d.change.EndIdle {
		d.giveBack()
		d.plan.Transcript.InTurn = false
		d.note(Fact{Kind: FactTurnEnded, Fence: d.change.Fence})
	}
	return nil
}

// committed is what is known of an entry that something may follow, or name.
func (d *decision) committed(id EntryID) (Known, error) {
	for _, e := range d.plan.Entries { // appended by this change
		if e.ID == id && !e.Aborted {
			return Known{Seq: e.Seq, Depth: e.Depth, Parent: e.Parent, Hash: e.Hash}, nil
		}
	}
	k, ok := d.Known[id]
	switch {
	case !ok:
		return Known{}, fmt.Errorf("%w: entry %s of %s", ErrNotFound, id, d.change.Conversation)
	case k.Aborted:
		return Known{}, &PathError{Entry: id, Rule: "it was given up, and nothing follows it"}
	}
	return k, nil
}

// depthAt is how long the path to a position is.
func (d *decision) depthAt(p Position) (int64, error) {
	if p.Root {
		return 0, nil
	}
	k, err := d.committed(p.Entry)
	return k.Depth, err
}

func (d *decision) append() error {
	c, t := d.change, &d.plan.Transcript
	if len(c.Append) == 0 {
		return nil
	}
	at := c.After
	if at.IsZero() {
		at = t.Head
	}
	depth, err := d.depthAt(at)
	if err != nil {
		return err
	}
	var bytes int64
	for i, e := range c.Append {
		if err := d.keeps(e, c.Append[:i]); err != nil {
			return err
		}
		depth++
		d.plan.Entries = append(d.plan.Entries, Planned{Entry{NewEntry: e, Seq: d.seq(), Parent: at, Depth: depth, CreatedAt: d.Clock}, d.sealed[i]})
		at = After(e.ID)
		bytes += d.sealed[i].Bytes
		t.Usage = t.Usage.Add(e.Usage)
		if d.Draft != nil && d.Draft.ID == e.ID {
			d.plan.DropDraft = true
		}
	}
	t.Entries += int64(len(c.Append))
	t.Bytes += bytes
	switch {
	case bytes > MaxBatchBytes:
		return &LimitError{Of: "bytes in a change", Max: MaxBatchBytes}
	case c.MaxBytes > 0 && t.Bytes > c.MaxBytes:
		return &LimitError{Of: "bytes in a conversation", Max: c.MaxBytes}
	}
	if !c.KeepHead {
		t.Head = at
		t.Version++
	}
	return nil
}

// keeps refuses a compaction that keeps what is not on its path, or pins what
// is not before that, in order: a context would have it twice, or turned round.
func (d *decision) keeps(e NewEntry, before []NewEntry) error {
	for _, kept := range e.Compaction.keeps() {
		own := slices.ContainsFunc(before, func(o NewEntry) bool { return o.ID == kept })
		if !own && !d.OnPath[kept] {
			return &PathError{Entry: e.ID, Rule: "what it keeps is not on its path"}
		}
	}
	if e.Compaction == nil {
		return nil
	}
	last, ordered := int64(0), e.Compaction.Pinned
	if e.Compaction.FirstKept != "" {
		ordered = append(slices.Clone(ordered), e.Compaction.FirstKept)
	}
	for _, kept := range ordered {
		k, err := d.committed(kept)
		if err != nil {
			return err
		}
		if k.Depth <= last {
			return &PathError{Entry: e.ID, Rule: "what it pins is not in order before what it keeps"}
		}
		last = k.Depth
	}
	return nil
}

func (d *decision) moveHead() error {
	to, t := d.change.Head, &d.plan.Transcript
	if to.IsZero() {
		return nil
	}
	if _, err := d.depthAt(to); err != nil {
		return err
	}
	t.Head = to
	t.Version++
	d.note(Fact{Kind: FactHead, At: to})
	return nil
}

func (d *decision) status() error {
	to, t := d.change.Status, &d.plan.Transcript
	if to == "" || to == t.Status {
		return nil
	}
	if to == Importing && t.LastSeq > 0 {
		return fmt.Errorf("%w: %s", ErrExists, d.change.Conversation)
	}
	if to == Archived {
		if err := d.interrupt(); err != nil {
			return err
		}
	}
	if to == Archived || to == Deleted {
		if err := d.emptyQueue(to); err != nil {
			return err
		}
	}
	t.Status = to
	t.Version++
	d.note(Fact{Kind: FactStatus, To: to})
	return nil
}
