package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// inbox has transcript.DecideAdmit and transcript.DecideInput decide, with the tree locked.
type inbox struct{ transcripts }

var _ transcript.Inbox = inbox{}

// Inbox returns the store of the inputs that wait in conversations.
func (v view) Inbox() transcript.Inbox { return inbox{transcripts{v}} }

const (
	insertInput = `INSERT INTO bunkroom_transcript_inputs (tree, id, state, version, lane, place, admitted, not_before, expires, created_at,
		after_entry, after_root, ref, wait, life, billing, hash, entry) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateInput = `UPDATE bunkroom_transcript_inputs SET state = ?, version = ?, lane = ?, place = ?, promoted = ?, fence = ?, cancel_asked = ?,
		attempts = ?, last_error = ?, not_before = ? WHERE tree = ? AND id = ?`
	editInput  = `UPDATE bunkroom_transcript_inputs SET entry = ? WHERE tree = ? AND id = ?`
	placeInput = `UPDATE bunkroom_transcript_inputs SET place = ? WHERE tree = ? AND id = ?`
	// countWaiting are those that have not expired.
	countWaiting = `SELECT count(*) FROM bunkroom_transcript_inputs AS i WHERE i.tree = ? AND i.state IN ('pending', 'claimed') AND (i.expires IS NULL OR i.expires > ?)`
	// putAway has inputs that wait without a claim be done with.
	putAway = `UPDATE bunkroom_transcript_inputs SET state = ?, version = version + 1, fence = 0 WHERE tree = ? AND id IN IDS(?) AND state IN ('pending', 'claimed')`
	// noteInput is what an input's change does to its transcript.
	noteInput = `UPDATE bunkroom_transcripts SET last_seq = ?, inputs = inputs + ?, updated_at = ? WHERE tree = ?`
)

func (s inbox) Admit(ctx context.Context, c access.ConversationID, in transcript.NewInput, most int) (answer transcript.Admitted, err error) {
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
	text, err := entryText(in.Entry)
	if err != nil {
		return answer, err
	}
	err = s.change(ctx, func(ctx context.Context, on place, clock time.Time) error {
		t, err := on.find(ctx, keepTree, c)
		if err != nil {
			return err
		}
		f, err := on.admitFacts(ctx, t, in, most, clock)
		if err != nil {
			return err
		}
		a, err := transcript.DecideAdmit(f, in, sealed.Hash, most)
		if err != nil {
			return err
		}
		if answer = a.Admitted; !a.Created {
			return nil
		}
		if err := on.putAway(ctx, t, a.Expired); err != nil {
			return err
		}
		i := a.Input
		if _, err := on.exec(ctx, insertInput, t.key, string(i.Entry.ID), string(i.State), i.Version, string(i.Lane), i.Order, i.Admitted, micros(i.NotBefore),
			micros(i.Expires), micros(i.CreatedAt), string(i.After.Entry), i.After.Root, i.Ref, int64(i.Wait), int64(i.Life), i.Billing, sealed.Hash, text); err != nil {
			return err
		}
		return on.noted(ctx, t, a.Facts, int64(1-len(a.Expired)), clock)
	})
	if err != nil {
		return transcript.Admitted{}, err
	}
	return answer, nil
}

// noted writes the facts of a change, by which so many more inputs wait.
func (p place) noted(ctx context.Context, t *tree, facts []transcript.Fact, more int64, clock time.Time) error {
	rows := make([][]any, len(facts))
	for i, f := range facts {
		rows[i] = factArgs(t.key, f, clock)
	}
	if err := p.insert(ctx, intoFacts, rows); err != nil {
		return err
	}
	_, err := p.exec(ctx, noteInput, facts[len(facts)-1].Seq, more, micros(clock), t.key)
	return err
}

// putAway writes inputs that have all become of one state, none of which waits any more.
func (p place) putAway(ctx context.Context, t *tree, inputs []transcript.Input) error {
	if len(inputs) == 0 {
		return nil
	}
	ids := make([]string, len(inputs))
	for i, in := range inputs {
		ids[i] = string(in.Entry.ID)
	}
	n, err := p.exec(ctx, putAway, string(inputs[0].State), t.key, idsJSON(ids))
	if err == nil && n != int64(len(inputs)) {
		err = errDisagrees
	}
	return err
}

// admitFacts loads what it rests on whether an input may come.
func (p place) admitFacts(ctx context.Context, t *tree, in transcript.NewInput, most int, clock time.Time) (f transcript.AdmitFacts, err error) {
	f = transcript.AdmitFacts{Transcript: t.Transcript, Clock: clock, After: in.After.Entry == "", Waiting: int(t.inputs)}
	there, err := p.input(ctx, t, in.Entry.ID)
	if err != nil {
		return f, err
	}
	if there != nil {
		f.There, f.Hash = &there.Input, there.hash
	}
	ids := []transcript.EntryID{in.Entry.ID}
	if !f.After && in.After.Entry != in.Entry.ID {
		ids = append(ids, in.After.Entry)
	}
	known, err := p.known(ctx, t, ids)
	if err != nil {
		return f, err
	}
	_, f.Entry = known[in.Entry.ID]
	if k := known[in.After.Entry]; k != nil {
		f.After = !k.Aborted
	}
	if f.Waiting < most {
		return f, nil
	}
	if err := p.row(ctx, countWaiting, t.key, micros(clock)).Scan(&f.Waiting); err != nil {
		return f, err
	}
	f.Due, err = p.inputs(ctx, leanDue, t.key, micros(clock), transcript.ExpireBatch)
	return f, err
}

func (s inbox) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (now transcript.Input, err error) {
	if err := access.CheckID("Conversation", c); err != nil {
		return now, err
	}
	if err := access.CheckID("Input", id); err != nil {
		return now, err
	}
	if err := cmd.Check(); err != nil {
		return now, err
	}
	err = s.change(ctx, func(ctx context.Context, on place, clock time.Time) error {
		t, err := on.find(ctx, keepTree, c)
		if err != nil {
			return err
		}
		was, err := on.input(ctx, t, id)
		if err != nil {
			return err
		}
		if was == nil {
			return fmt.Errorf("%w: input %s of %s", transcript.ErrNotFound, id, c)
		}
		now, err = on.changeInput(ctx, t, was.Input, cmd, clock)
		return err
	})
	if err != nil {
		return transcript.Input{}, err
	}
	return now, nil
}

func (p place) changeInput(ctx context.Context, t *tree, was transcript.Input, cmd transcript.InputCommand, clock time.Time) (transcript.Input, error) {
	f := transcript.InputFacts{Transcript: t.Transcript, Input: was, Clock: clock}
	var renumbered []transcript.Input
	if cmd.Move != nil {
		waiting, err := p.inputs(ctx, leanWaiting, t.key)
		if err != nil {
			return was, err
		}
		f.Order, renumbered, f.Room = cmd.Move.Place(was, waiting)
	}
	now, err := transcript.DecideInput(f, cmd)
	if err != nil || now.Version == was.Version {
		return now, err
	}
	for _, in := range renumbered {
		if _, err := p.exec(ctx, placeInput, in.Order, t.key, string(in.Entry.ID)); err != nil {
			return was, err
		}
	}
	if cmd.Edit != nil {
		text, err := entryText(now.Entry)
		if err != nil {
			return was, err
		}
		if _, err := p.exec(ctx, editInput, text, t.key, string(now.Entry.ID)); err != nil {
			return was, err
		}
	}
	if err := p.updateInput(ctx, t, now); err != nil {
		return was, err
	}
	more := int64(0)
	if !waits(now.State) {
		more = -1
	}
	return now, p.noted(ctx, t, []transcript.Fact{f.Fact(now)}, more, clock)
}

func waits(s transcript.InputState) bool {
	return s == transcript.InputPending || s == transcript.InputClaimed
}

// updateInput writes what may change of an input, but its content.
func (p place) updateInput(ctx context.Context, t *tree, in transcript.Input) error {
	n, err := p.exec(ctx, updateInput, string(in.State), in.Version, string(in.Lane), in.Order, in.Promoted, in.Fence, in.CancelAsked,
		in.Attempts, in.LastError, micros(in.NotBefore), t.key, string(in.Entry.ID))
	if err == nil && n != 1 {
		err = errDisagrees
	}
	return err
}

// inbox loads the inputs that a change rests on.
func (d *deciding) inbox(ctx context.Context, needs transcript.Needs) error {
	d.facts.Inputs = map[transcript.EntryID]transcript.Input{}
	for _, id := range needs.Inputs {
		in, err := d.input(ctx, d.t, id)
		if err != nil {
			return err
		}
		if in != nil {
			d.facts.Inputs[id] = in.Input
		}
	}
	if d.t.inputs == 0 || !needs.Claimed && !needs.Queue {
		return nil
	}
	waiting, err := d.place.inputs(ctx, leanWaiting, d.t.key)
	if err != nil {
		return err
	}
	d.facts.Queue = waiting
	for _, in := range waiting {
		if in.State == transcript.InputClaimed {
			d.facts.Claimed = append(d.facts.Claimed, in)
		}
	}
	d.facts.Waiting = needs.Waiting && transcript.Deliverable(waiting, needs.Inputs, d.Fence, d.facts.Clock)
	return nil
}

// inputs writes the inputs that become something else.
func (w *writing) inputs(ctx context.Context) error {
	var cancelled, expired []transcript.Input
	for _, in := range w.plan.Inputs {
		if !waits(in.State) {
			w.heard++
		}
		switch in.State {
		case transcript.InputCancelled:
			cancelled = append(cancelled, in)
		case transcript.InputExpired:
			expired = append(expired, in)
		default:
			if err := w.updateInput(ctx, w.t, in); err != nil {
				return err
			}
		}
	}
	if err := w.putAway(ctx, w.t, cancelled); err != nil {
		return err
	}
	return w.putAway(ctx, w.t, expired)
}
