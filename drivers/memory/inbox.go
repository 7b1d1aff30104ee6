package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// input is an input as it is kept.
type input struct {
	transcript.Input
	hash string // of its content as it came
}

// read is an input in memory of its own.
func (in *input) read() transcript.Input {
	out := in.Input
	out.Entry = cloned(in.Entry)
	return out
}

// Inbox returns the store of the inputs that wait in conversations.
func (db *DB) Inbox() transcript.Inbox { return inboxStore{transcriptStore{db}} }

type inboxStore struct{ transcriptStore }

var _ transcript.Inbox = inboxStore{}

func (s inboxStore) Admit(ctx context.Context, c access.ConversationID, in transcript.NewInput, most int) (answer transcript.Admitted, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return answer, err
	}
	if err := in.Check(); err != nil {
		return answer, err
	}
	sealed, err := transcript.Seal(in.Entry)
	if err != nil {
		return answer, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		t, err := all.find(c)
		if err != nil {
			return err
		}
		f := transcript.AdmitFacts{Transcript: t.row, Clock: now, After: in.After.Entry == ""}
		if was, there := t.inputs[in.Entry.ID]; there {
			old := was.read()
			f.There, f.Hash = &old, was.hash
		}
		_, f.Entry = t.byID[in.Entry.ID]
		if l, there := t.byID[in.After.Entry]; there {
			f.After = !l.Aborted
		}
		waiting := t.waiting()
		for _, w := range waiting {
			if w.Expires.IsZero() || w.Expires.After(now) {
				f.Waiting++
			}
		}
		if len(waiting) >= most {
			f.Due = due(waiting, now, transcript.ExpireBatch)
		}
		a, err := transcript.DecideAdmit(f, in, sealed.Hash, most)
		if err != nil {
			return err
		}
		answer = a.Admitted
		if a.Created {
			kept := &input{a.Input, sealed.Hash}
			kept.Entry = cloned(in.Entry)
			t.inputs[in.Entry.ID] = kept
			for _, late := range a.Expired {
				t.become(late)
			}
			t.row = a.Transcript
			t.tell(now, a.Facts...)
		}
		return nil
	})
	return answer, err
}

// waiting are the inputs that wait.
func (t *tree) waiting() (out []transcript.Input) {
	for _, in := range t.inputs {
		if in.State == transcript.InputPending || in.State == transcript.InputClaimed {
			out = append(out, in.Input)
		}
	}
	return out
}

// due are the first of those that wait whose time is over.
func due(waiting []transcript.Input, now time.Time, limit int) []transcript.Input {
	late := slices.DeleteFunc(slices.Clone(waiting), func(in transcript.Input) bool { return !in.Due(now) })
	transcript.Sort(late)
	return late[:min(limit, len(late))]
}

func (s inboxStore) Input(ctx context.Context, c access.ConversationID, id transcript.EntryID) (in transcript.Input, err error) {
	if err := access.CheckID("Input", id); err != nil {
		return in, err
	}
	err = s.of(ctx, c, func(t *tree) error {
		kept, there := t.inputs[id]
		if !there {
			return fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, id, c)
		}
		in = kept.read()
		return nil
	})
	return in, err
}

func (s inboxStore) Inputs(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) (out []transcript.Input, err error) {
	if err := transcript.CheckInputs(after, limit, states); err != nil {
		return nil, err
	}
	if len(states) == 0 {
		states = []transcript.InputState{transcript.InputPending, transcript.InputClaimed}
	}
	err = s.of(ctx, c, func(t *tree) error {
		last, there := t.inputs[after]
		if after != "" && !there {
			return fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, after, c)
		}
		for _, in := range t.inputs {
			if slices.Contains(states, in.State) && (last == nil || cmp.Or(cmp.Compare(in.Order, last.Order), cmp.Compare(in.Admitted, last.Admitted)) > 0) {
				out = append(out, in.read())
			}
		}
		transcript.Sort(out)
		out = out[:min(limit, len(out))]
		return nil
	})
	return out, err
}

func (s inboxStore) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (now transcript.Input, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return now, err
	}
	if err := access.CheckID("Input", id); err != nil {
		return now, err
	}
	if err := cmd.Check(); err != nil {
		return now, err
	}
	err = s.locked(ctx, func(all *talks, clock time.Time) error {
		t, err := all.find(c)
		if err != nil {
			return err
		}
		was, there := t.inputs[id]
		if !there {
			return fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, id, c)
		}
		f := transcript.InputFacts{Transcript: t.row, Input: was.Input, Clock: clock}
		var renumbered []transcript.Input
		if cmd.Move != nil {
			f.Order, renumbered, f.Room = cmd.Move.Place(was.Input, t.waiting())
		}
		becomes, err := transcript.DecideInput(f, cmd)
		if err != nil {
			return err
		}
		for _, in := range renumbered {
			t.inputs[in.Entry.ID].Order = in.Order
		}
		if becomes.Version != was.Version {
			t.become(becomes)
			fact := f.Fact(becomes)
			t.row.LastSeq, t.row.UpdatedAt = fact.Seq, clock
			t.tell(clock, fact)
		}
		now = t.inputs[id].read()
		return nil
	})
	return now, err
}

// become keeps an input as it is from now on.
func (t *tree) become(in transcript.Input) {
	kept := t.inputs[in.Entry.ID]
	kept.Input = in
	kept.Entry = cloned(in.Entry)
}

func (s inboxStore) Waiting(ctx context.Context, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	if err := transcript.CheckWaiting(after, limit); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		for _, id := range slices.Sorted(maps.Keys(all.trees)) {
			t := all.trees[id]
			idle := t.row.Status == transcript.Active && !t.row.InTurn && !t.row.Held
			if id > after && len(ids) < limit && idle && transcript.Deliverable(t.waiting(), nil, t.row.Fence, now) {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

func (s inboxStore) Expire(ctx context.Context, c access.ConversationID, limit int) (expired int, err error) {
	if err := transcript.CheckExpire(c, limit); err != nil {
		return 0, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		t, err := all.find(c)
		if err != nil {
			return err
		}
		e, err := transcript.DecideExpire(t.row, due(t.waiting(), now, limit), now)
		if err != nil {
			return err
		}
		for _, in := range e.Inputs {
			t.become(in)
		}
		t.row = e.Transcript
		t.tell(now, e.Facts...)
		expired = len(e.Inputs)
		return nil
	})
	return expired, err
}

func (s inboxStore) Expired(ctx context.Context, after access.ConversationID, limit int) (ids []access.ConversationID, err error) {
	if err := transcript.CheckWaiting(after, limit); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		for _, id := range slices.Sorted(maps.Keys(all.trees)) {
			t := all.trees[id]
			if id > after && len(ids) < limit && t.row.Status == transcript.Active && len(due(t.waiting(), now, 1)) > 0 {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}
