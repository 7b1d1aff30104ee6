package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// tell adds facts, and when they happened.
func (t *tree) tell(at time.Time, facts ...transcript.Fact) {
	t.facts = append(t.facts, facts...)
	for _, f := range facts {
		t.told[f.Seq] = at
	}
}

func (s transcriptStore) Forget(ctx context.Context, c access.ConversationID, older time.Duration, limit int) (gone transcript.Forgotten, err error) {
	if err := transcript.CheckForget(c, older, limit); err != nil {
		return gone, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		t, err := all.find(c)
		if err != nil {
			return err
		}
		var last transcript.Fact
		for len(t.facts) > 0 && !t.told[t.facts[0].Seq].After(now.Add(-older)) {
			f := t.facts[0]
			if f.Kind != transcript.FactForgotten {
				if gone.Facts == limit {
					gone.More = true
					break
				}
				gone.Facts++
			}
			if in := t.inputs[f.Entry]; f.Kind == transcript.FactInput && f.Input.Done() && in != nil && in.State == f.Input {
				delete(t.inputs, f.Entry)
				gone.Inputs++
			}
			last, t.facts = f, t.facts[1:]
		}
		if last.Seq > 0 {
			t.facts = slices.Insert(slices.Clone(t.facts), 0, transcript.Fact{Seq: last.Seq, Kind: transcript.FactForgotten})
			maps.DeleteFunc(t.told, func(seq int64, _ time.Time) bool { return seq < last.Seq })
		}
		return nil
	})
	return gone, err
}

func (s transcriptStore) Idle(ctx context.Context, q transcript.IdleQuery) (page transcript.IdlePage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	err = s.locked(ctx, func(all *talks, now time.Time) error {
		seen, last := 0, q.After
		for _, c := range slices.Sorted(maps.Keys(all.trees)) {
			row := all.trees[c].row
			if c <= q.After || row.Status == transcript.Deleted {
				continue
			}
			if seen == limit {
				page.Next = last
				break
			}
			seen, last = seen+1, c
			if !row.UpdatedAt.After(now.Add(-q.For)) && (q.Status == "" || row.Status == q.Status) {
				page.Transcripts = append(page.Transcripts, row)
			}
		}
		return nil
	})
	return page, err
}
