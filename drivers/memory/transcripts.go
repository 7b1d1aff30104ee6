package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// tree is the content of one conversation. One that is made again under the
// name of a deleted one is another.
type tree struct {
	name    string // of its rows; never used twice
	row     transcript.Transcript
	entries []*leaf // by Seq: those a fork began with, its own, those given up
	byID    map[transcript.EntryID]*leaf
	facts   []transcript.Fact // by Seq, without what the entries are
	refs    map[string]transcript.Ref
	blobs   map[string][]byte
	draft   *transcript.Draft
	inputs  map[transcript.EntryID]*input
	words   index
	told    map[int64]time.Time // when each fact happened, by its seq
}

// leaf is an entry as it is kept.
type leaf struct {
	transcript.Planned
	labels    []string // sorted
	children  int      // committed ones
	branch    int64    // which stretch of which rows it is on
	rows      string
	inherited bool // a fork began with it
}

// talks are the transcripts.
type talks struct {
	trees  map[access.ConversationID]*tree
	made   int    // how many ever were
	purges []*int // of what was deleted: how many rows of each are left
}

func newTalks() talks { return talks{trees: map[access.ConversationID]*tree{}} }

// Transcripts returns the store of what was said in conversations.
func (db *DB) Transcripts() transcript.Store { return transcriptStore{db} }

type transcriptStore struct{ db *DB }

var _ transcript.Store = transcriptStore{}

// locked calls do with the lock held, unless ctx has ended.
func (s transcriptStore) locked(ctx context.Context, do func(*talks, time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	return do(&s.db.talks, s.db.clock())
}

// of calls do with the tree of a conversation.
func (s transcriptStore) of(ctx context.Context, c access.ConversationID, do func(*tree) error) error {
	if err := access.CheckID("Conversation", c); err != nil {
		return err
	}
	return s.locked(ctx, func(all *talks, _ time.Time) error {
		t, err := all.find(c)
		if err != nil {
			return err
		}
		return do(t)
	})
}

func (all *talks) find(c access.ConversationID) (*tree, error) {
	if t, there := all.trees[c]; there && t.row.Status != transcript.Deleted {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", transcript.ErrNotFound, c)
}

// plant makes a tree, in place of a deleted one.
func (all *talks) plant(row transcript.Transcript) *tree {
	all.made++
	t := &tree{
		name: strconv.Itoa(all.made), row: row,
		byID: map[transcript.EntryID]*leaf{}, refs: map[string]transcript.Ref{}, blobs: map[string][]byte{},
		inputs: map[transcript.EntryID]*input{}, told: map[int64]time.Time{},
	}
	all.trees[row.Conversation] = t
	return t
}

func (s transcriptStore) Create(ctx context.Context, c access.ConversationID) (row transcript.Transcript, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return row, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		t, err := all.find(c)
		if err != nil {
			t = all.plant(transcript.Empty(c, now))
		}
		row = t.row
		return nil
	})
	return row, err
}

func (s transcriptStore) Load(ctx context.Context, c access.ConversationID) (row transcript.Transcript, err error) {
	err = s.of(ctx, c, func(t *tree) error {
		row = t.row
		return nil
	})
	return row, err
}

func (s transcriptStore) LoadMany(ctx context.Context, conversations ...access.ConversationID) (rows []transcript.Transcript, err error) {
	if err := transcript.CheckMany(conversations); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(all *talks, _ time.Time) error {
		for _, c := range conversations {
			if t, err := all.find(c); err == nil {
				rows = append(rows, t.row)
			}
		}
		return nil
	})
	return rows, err
}

func (s transcriptStore) Commit(ctx context.Context, c transcript.Change) (done transcript.Committed, err error) {
	if err := c.Check(); err != nil {
		return done, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		t, err := all.find(c.Conversation)
		if err != nil {
			return err
		}
		plan, err := transcript.Decide(t.known(c, now), c)
		if err != nil {
			return err
		}
		if !plan.Empty() {
			t.write(plan)
		}
		done = transcript.Committed{Transcript: t.row, Retried: plan.Retried}
		for _, e := range c.Append {
			done.Seqs = append(done.Seqs, t.byID[e.ID].Seq)
		}
		if t.row.Status == transcript.Deleted {
			all.bury(t)
		}
		return nil
	})
	return done, err
}

// known are the facts that a change rests on.
func (t *tree) known(c transcript.Change, now time.Time) transcript.Facts {
	needs := c.Needs(t.row.Head)
	f := transcript.Facts{
		Transcript: t.row, Clock: now, Refs: t.refs, Draft: t.draft,
		Known: map[transcript.EntryID]transcript.Known{}, OnPath: map[transcript.EntryID]bool{}, Calls: map[transcript.CallAddress]transcript.Call{},
		Inputs: map[transcript.EntryID]transcript.Input{},
	}
	for _, id := range needs.Inputs {
		if in, there := t.inputs[id]; there {
			f.Inputs[id] = in.Input
		}
	}
	if needs.Claimed {
		f.Claimed = slices.DeleteFunc(t.waiting(), func(in transcript.Input) bool { return in.State != transcript.InputClaimed })
		transcript.Sort(f.Claimed)
	}
	if needs.Queue {
		f.Queue = t.waiting()
	}
	f.Waiting = needs.Waiting && transcript.Deliverable(t.waiting(), needs.Inputs, c.Fence, now)
	if t.draft != nil {
		needs.Entries = append(needs.Entries, t.draft.After.Entry)
	}
	if needs.Open {
		for _, open := range t.open() {
			at := transcript.CallAddress{Entry: open.Entry, Call: open.Call.ID}
			f.Open = append(f.Open, at)
			needs.Entries, needs.Calls = append(needs.Entries, at.Entry), append(needs.Calls, at)
		}
	}
	for _, id := range needs.Entries {
		if l, there := t.byID[id]; there {
			f.Known[id] = transcript.Known{Seq: l.Seq, Depth: l.Depth, Parent: l.Parent, Hash: l.Hash, Aborted: l.Aborted, Labels: l.labels}
		}
	}
	if len(needs.Kept) > 0 {
		for l := t.byID[needs.Base.Entry]; l != nil; l = t.byID[l.Parent.Entry] {
			if slices.Contains(needs.Kept, l.ID) {
				f.OnPath[l.ID] = true
			}
		}
	}
	for _, at := range needs.Calls {
		if call := t.call(at); call != nil {
			f.Calls[at] = *call
		}
	}
	return f
}

// call is a call as it is kept; nil: there is none.
func (t *tree) call(at transcript.CallAddress) *transcript.Call {
	l, there := t.byID[at.Entry]
	if !there {
		return nil
	}
	for i := range l.Calls {
		if l.Calls[i].ID == at.Call {
			return &l.Calls[i]
		}
	}
	return nil
}

// write does what was decided.
func (t *tree) write(p transcript.Plan) {
	t.row = p.Transcript
	for _, e := range p.Entries {
		t.put(&leaf{Planned: e, rows: t.name})
	}
	t.tell(p.Transcript.UpdatedAt, p.Facts...)
	for _, at := range p.Started {
		t.call(at).Status = transcript.CallRunning
	}
	for at, settled := range p.Calls {
		call := t.call(at)
		result, blob, large := settled.Seal()
		call.Status, call.Result, call.Blob = settled.Status, result, blob
		t.byID[at.Entry].Bytes += int64(len(result) + len(large))
		if blob != nil {
			t.blobs[blob.Hash] = large
		}
	}
	for _, r := range p.Refs {
		if r.To.IsZero() {
			delete(t.refs, r.Name)
		} else {
			t.refs[r.Name] = transcript.Ref{Name: r.Name, At: r.To, Version: r.Version}
		}
	}
	for _, label := range p.Labels {
		l := t.byID[label.Entry]
		if at, has := slices.BinarySearch(l.labels, label.Label); label.Remove && has {
			l.labels = slices.Delete(l.labels, at, at+1)
		} else if !label.Remove && !has {
			l.labels = slices.Insert(l.labels, at, label.Label)
		}
	}
	for _, in := range p.Inputs {
		t.become(in)
	}
	if p.DropDraft {
		t.draft = nil
	}
	if p.SaveDraft != nil {
		draft := *p.SaveDraft
		draft.NewEntry = cloned(draft.NewEntry)
		t.draft = &draft
	}
}

// put adds an entry, newer than all.
func (t *tree) put(l *leaf) {
	l.NewEntry = transcript.NewEntry{ID: l.ID, Kind: l.Kind, Turn: l.Turn, Actor: l.Actor, Usage: l.Usage} // the rest is sealed
	l.branch = l.Seq
	parent := t.byID[l.Parent.Entry]
	if parent != nil && !l.Aborted {
		if parent.children == 0 && parent.rows == l.rows {
			l.branch = parent.branch
		}
		parent.children++
	}
	for hash, large := range l.Blobs {
		t.blobs[hash] = large
	}
	t.entries = append(t.entries, l)
	t.byID[l.ID] = l
}

// bury leaves of a deleted tree how many rows it had.
func (all *talks) bury(t *tree) {
	left := 1 + len(t.entries) + len(t.facts) + len(t.inputs)
	all.purges = append(all.purges, &left)
	*t = tree{row: t.row}
}
