package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func (s transcripts) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	if err := c.Check(); err != nil {
		return transcript.Committed{}, err
	}
	sealed := make([]transcript.Sealed, len(c.Append))
	for i, e := range c.Append {
		var err error
		if sealed[i], err = transcript.Seal(e); err != nil {
			return transcript.Committed{}, err
		}
	}
	if appendable(c, sealed) {
		a, write := newAppending(c, sealed), s.append
		if s.host == nil && s.store.dialect.Arrays {
			g := &guest{appending: a}
			if now := s.store.crowds.enter(ctx, g); !now.turn {
				return now.done, now.err
			}
			defer s.store.crowds.pass(c.Conversation)
			write = func(ctx context.Context, _ *appending) (transcript.Committed, error) { return s.appendInTurn(ctx, g) }
		}
		done, err := write(ctx, a)
		if !errors.Is(err, errRefused) && !s.store.taken(err) {
			return done, err
		}
	}
	var done transcript.Committed
	err := s.change(ctx, func(ctx context.Context, on place, clock time.Time) (err error) {
		done, err = on.decide(ctx, c, clock)
		return err
	})
	if err != nil {
		return transcript.Committed{}, err
	}
	return done, nil
}

// taken reports whether an error says that a row with that key is there already.
func (s *store) taken(err error) bool {
	return err != nil && s.dialect.Unique != nil && s.dialect.Unique(err)
}

// deciding is a change under way that is decided on, with the tree locked.
type deciding struct {
	place
	transcript.Change
	t     *tree
	facts transcript.Facts
	known map[transcript.EntryID]*knownEntry
}

// decide loads what a change rests on, and writes what it comes to.
func (p place) decide(ctx context.Context, c transcript.Change, clock time.Time) (done transcript.Committed, err error) {
	d := &deciding{place: p, Change: c}
	if d.t, err = p.find(ctx, keepTree, c.Conversation); err != nil {
		return done, err
	}
	if d.t.reads() {
		p.store.readers.add(c.Conversation)
	}
	d.facts = transcript.Facts{
		Transcript: d.t.Transcript, Clock: clock, Known: map[transcript.EntryID]transcript.Known{}, OnPath: map[transcript.EntryID]bool{},
		Calls: map[transcript.CallAddress]transcript.Call{}, Refs: map[string]transcript.Ref{},
	}
	if err := d.load(ctx); err != nil {
		return done, err
	}
	plan, err := transcript.Decide(d.facts, c)
	if err != nil {
		return done, err
	}
	if !plan.Empty() {
		w := writing{place: p, t: d.t, known: d.known, plan: plan, spots: map[transcript.EntryID]*knownEntry{}}
		if err := w.all(ctx); err != nil {
			return done, err
		}
	}
	done = transcript.Committed{Transcript: plan.Transcript, Retried: plan.Retried}
	for _, e := range c.Append {
		if plan.Retried {
			done.Seqs = append(done.Seqs, d.known[e.ID].Seq)
		}
	}
	if !plan.Retried {
		for _, e := range plan.Entries[:len(c.Append)] { // those that were given up come after
			done.Seqs = append(done.Seqs, e.Seq)
		}
	}
	return done, nil
}

const (
	loadLabels = `SELECT l.seq, l.label FROM bunkroom_transcript_labels AS l WHERE l.tree = ? AND l.seq = ? ORDER BY l.label`
	loadOpen   = `SELECT e.id, o.call_id FROM bunkroom_transcript_calls AS o JOIN bunkroom_transcript_entries AS e ON e.tree = o.tree AND e.seq = o.seq
		WHERE o.tree = ? AND o.settled_at IS NULL`
	loadCall = `SELECT c.status, c.settled_at, c.hash, c.size, c.result FROM bunkroom_transcript_calls AS c WHERE c.tree = ? AND c.seq = ? AND c.call_id = ?`
)

// load loads the facts.
func (d *deciding) load(ctx context.Context) (err error) {
	needs := d.Needs(d.t.Head)
	if needs.Draft {
		if d.facts.Draft, err = d.draft(ctx, d.t); err != nil {
			return err
		}
		if draft := d.facts.Draft; draft != nil && draft.After.Entry != "" && !slices.Contains(needs.Entries, draft.After.Entry) {
			needs.Entries = append(needs.Entries, draft.After.Entry)
		}
	}
	if needs.Open && d.t.open > 0 {
		if d.facts.Open, err = d.openCalls(ctx); err != nil {
			return err
		}
		for _, a := range d.facts.Open {
			if !slices.Contains(needs.Calls, a) {
				needs.Calls = append(needs.Calls, a)
			}
		}
	}
	for _, a := range needs.Calls {
		if !slices.Contains(needs.Entries, a.Entry) {
			needs.Entries = append(needs.Entries, a.Entry)
		}
	}
	if d.known, err = d.place.known(ctx, d.t, needs.Entries); err != nil {
		return err
	}
	for _, l := range d.Labels {
		if k := d.known[l.Entry]; k != nil && k.Labels == nil {
			if k.Labels, err = d.labels(ctx, k.Seq); err != nil {
				return err
			}
		}
	}
	for id, k := range d.known {
		d.facts.Known[id] = k.Known
	}
	if err := d.onPath(ctx, needs); err != nil {
		return err
	}
	if needs.Refs {
		refs, err := d.refs(ctx, d.t)
		if err != nil {
			return err
		}
		for _, r := range refs {
			d.facts.Refs[r.Name] = r
		}
	}
	if err := d.inbox(ctx, needs); err != nil {
		return err
	}
	return d.calls(ctx, needs.Calls)
}

// openCalls are the calls that are not settled.
func (d *deciding) openCalls(ctx context.Context) (open []transcript.CallAddress, err error) {
	rows, err := d.rows(ctx, loadOpen, d.t.key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a transcript.CallAddress
		if err := rows.Scan(str(&a.Entry), str(&a.Call)); err != nil {
			return nil, err
		}
		open = append(open, a)
	}
	return open, rows.Err()
}

func (d *deciding) labels(ctx context.Context, seq int64) (labels []string, err error) {
	rows, err := d.rows(ctx, loadLabels, d.t.key, seq)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	labels = []string{}
	for rows.Next() {
		var label string
		if err := rows.Scan(&seq, &label); err != nil {
			return nil, err
		}
		labels = append(labels, label)
	}
	return labels, rows.Err()
}

// onPath finds out which of the entries that are kept are on the path they have to be on.
func (d *deciding) onPath(ctx context.Context, needs transcript.Needs) error {
	base := d.known[needs.Base.Entry]
	if len(needs.Kept) == 0 || base == nil || base.Aborted {
		return nil
	}
	path, err := d.spans(ctx, base.spot)
	if err != nil {
		return err
	}
	for _, id := range needs.Kept {
		if k := d.known[id]; k != nil && !k.Aborted && covers(path, k.spot) {
			d.facts.OnPath[id] = true
		}
	}
	return nil
}

// calls loads the calls that are started or settled.
func (d *deciding) calls(ctx context.Context, asked []transcript.CallAddress) error {
	if len(asked) == 0 {
		return nil
	}
	sees, err := d.sight(ctx, d.t)
	if err != nil {
		return err
	}
	for _, a := range asked {
		k := d.known[a.Entry]
		if k == nil {
			continue
		}
		row := callRow{ID: a.Call}
		switch err := d.row(ctx, loadCall, k.spot.tree, k.Seq, string(a.Call)).Scan((*string)(&row.Status), num(&row.Settled), &row.Hash, &row.Size, &row.Result); {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		default:
			d.facts.Calls[a] = row.as(sees.through(k.spot.tree))
		}
	}
	return nil
}

const (
	saveDraft = `INSERT INTO bunkroom_transcript_drafts (tree, draft) VALUES (?, ?) ON CONFLICT (tree) DO UPDATE SET draft = excluded.draft`
	dropDraft = `DELETE FROM bunkroom_transcript_drafts WHERE tree = ?`
)

// draftJSON is a draft as it is kept.
func draftJSON(d *transcript.Draft) (string, error) {
	text, err := json.Marshal(d)
	return string(text), err
}
