package sqlstore

import (
	"context"
	"slices"

	"github.com/bunkroom/bunkroom/session/transcript"
)

// Search first sees to it that all that was there as it began has its words kept.
func (s transcripts) Search(ctx context.Context, q transcript.SearchQuery) (page transcript.SearchPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	limit, err := transcript.Page(q.Limit)
	if err != nil {
		return page, err
	}
	goals := map[int64]int64{}
	for range attempts { // what it reads may get rows of its own meanwhile
		behind, err := s.behind(ctx, q.Conversation, goals)
		if err != nil {
			return page, err
		}
		for _, b := range behind {
			for more := true; more; {
				if _, more, err = s.index(ctx, b.tree, indexEntries); err != nil {
					return page, err
				}
			}
		}
		if len(behind) == 0 {
			break
		}
	}
	_, err = s.of(ctx, q.Conversation, func(ctx context.Context, on place, t *tree) (err error) {
		page, err = on.search(ctx, t, q, limit)
		if err != nil || !t.reads() {
			return err
		}
		now, err := on.find(ctx, loadTree, q.Conversation)
		if err == nil && now.baseSeq != t.baseSeq {
			err = errUprooted
		}
		return err
	})
	return page, err
}

// search reads a page of what has the words.
func (p place) search(ctx context.Context, t *tree, q transcript.SearchQuery, limit int) (page transcript.SearchPage, err error) {
	before := q.Before
	if before == 0 {
		before = unread
	}
	var path, base []span
	if t.reads() {
		if base, err = p.spans(ctx, t.base); err != nil {
			return page, err
		}
	}
	if q.Path {
		to, err := p.position(ctx, t, q.At)
		if err != nil {
			return page, err
		}
		if path, err = p.spans(ctx, to.at()); err != nil {
			return page, err
		}
	}
	all, err := p.scopes(ctx, t)
	if err != nil {
		return page, err
	}
	want := transcript.Want(q.Text)
	var found []spotted
	for i, in := range all {
		if len(found) > limit {
			break
		}
		more, err := p.having(ctx, want, in, min(before, in.through+1), limit+1-len(found), func(f spotted) bool {
			switch {
			case f.seq <= in.base, len(q.Kinds) > 0 && !slices.Contains(q.Kinds, f.kind):
				return false
			case q.Path:
				return covers(path, f.spot)
			}
			return i == 0 || covers(base, f.spot)
		})
		if err != nil {
			return page, err
		}
		found = append(found, more...)
	}
	if len(found) > limit {
		found = found[:limit]
		page.Next = found[limit-1].seq
	}
	page.Hits, err = p.hits(ctx, t, want, found)
	return page, err
}

// spotted is an entry that has the words.
type spotted struct {
	spot
	seq  int64
	kind transcript.Kind
}

// having are the newest entries of a tree that have what is wanted, as far as they suit, at most so many.
func (p place) having(ctx context.Context, want transcript.Wanted, in scope, before int64, most int, suits func(spotted) bool) (found []spotted, err error) {
	words := p.store.dialect.Words
	// The newest block first, and then more and more at once, so that what is
	// seldom is found with few questions and what is frequent with little to sort.
	const together = 64
	for block, n := (before-1)/words.Block, int64(1); block >= in.base/words.Block && len(found) < most; n = min(2*n, together) {
		var any []string
		first := block * words.Block
		for ; block >= in.base/words.Block && int64(len(any)) < n; block-- {
			first = block * words.Block
			any = append(any, p.asked(want, in.tree, first))
		}
		more, err := p.spotted(ctx, words.Any(any), in.tree, before, most-len(found), suits)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
		before = first
	}
	return found, nil
}

// asked is what is wanted, of a block of seqs, in the dialect's words.
func (p place) asked(want transcript.Wanted, tree, first int64) string {
	before := p.wordsOf(tree, first)
	all := make([]string, len(want.Words))
	for i, word := range want.Words {
		all[i] = before + word
	}
	prefix := want.Prefix
	if prefix != "" {
		prefix = before + prefix
	}
	return p.store.dialect.Words.All(all, prefix)
}

func (p place) spotted(ctx context.Context, asked string, tree, before int64, most int, suits func(spotted) bool) (found []spotted, err error) {
	rows, err := p.rows(ctx, p.store.dialect.Words.Find, asked, tree, before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for len(found) < most && rows.Next() {
		f := spotted{spot: spot{tree: tree}}
		if err := rows.Scan(&f.branch, &f.seq, &f.depth, (*string)(&f.kind)); err != nil {
			return nil, err
		}
		if suits(f) {
			found = append(found, f)
		}
	}
	return found, rows.Err()
}

const (
	// A seq is given with its tree, and its row looked up by both.
	ofSeqs    = ` FROM ROWS(tree bigint, seq bigint) AS r JOIN bunkroom_transcript_entries AS e ON e.tree = r.tree AND e.seq = r.seq`
	ownHits   = `SELECT ` + ownHeader + ofSeqs
	readHits  = `SELECT ` + readHeader + ofSeqs
	hitBodies = `SELECT ` + talkColumns + ofSeqs
)

// hits are entries that were found, with their headers and how they read.
func (p place) hits(ctx context.Context, t *tree, want transcript.Wanted, found []spotted) ([]transcript.Hit, error) {
	own := slices.IndexFunc(found, func(f spotted) bool { return f.tree != t.key })
	if own < 0 {
		own = len(found)
	}
	headers := map[int64]header{}
	for _, some := range []struct {
		text string
		args []any
		of   []spotted
	}{{ownHits, nil, found[:own]}, {readHits, []any{t.key, t.base.tree, t.base.branch, t.base.depth, t.key}, found[own:]}} {
		if len(some.of) == 0 {
			continue
		}
		text, args := p.store.table(some.text, seqColumns(some.of)...)
		got, err := p.headersOf(ctx, nil, len(some.of), text, append(some.args, args...)...)
		if err != nil {
			return nil, err
		}
		for _, h := range got {
			headers[h.Seq] = h
		}
	}
	if len(headers) != len(found) {
		return nil, errUprooted
	}
	if len(found) == 0 {
		return nil, nil
	}
	text, args := p.store.table(hitBodies, seqColumns(found)...)
	entries, err := p.entriesOf(ctx, nil, text, args...)
	if err != nil {
		return nil, err
	}
	texts := map[int64]string{}
	for _, e := range entries {
		if texts[e.Seq], err = p.searched(ctx, &e); err != nil {
			return nil, err
		}
	}
	hits := make([]transcript.Hit, len(found))
	for i, f := range found {
		hits[i].Header = headers[f.seq].Header
		hits[i].Snippet, hits[i].Places = want.Snippet(texts[f.seq])
	}
	return hits, nil
}

func seqColumns(found []spotted) []column {
	return []column{numbers(found, func(f *spotted) int64 { return f.tree }), numbers(found, func(f *spotted) int64 { return f.seq })}
}
