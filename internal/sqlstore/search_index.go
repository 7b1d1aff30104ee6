package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// The words of a tree's entries are kept apart from them, and behind them: who
// searches brings them up to date. A stretch of its seqs has its words kept, which
// grows upwards as entries come and, once a fork has been given rows of its own
// for what it began with, down to the first of those.

const (
	lookByKey = `SELECT ` + treeColumns + ` FROM bunkroom_transcripts AS t WHERE t.tree = ?`
	treeByKey = lookByKey + ` FOR KEY SHARE` // it is not purged meanwhile
	kept      = `SELECT s.from_seq, s.through_seq FROM bunkroom_search AS s WHERE s.tree = ?`
	keep      = `INSERT INTO bunkroom_search AS s (tree, from_seq, through_seq) VALUES (?, ?, ?)
		ON CONFLICT (tree) DO UPDATE SET through_seq = s.through_seq RETURNING from_seq, through_seq`
	keptNow = `UPDATE bunkroom_search SET from_seq = ?, through_seq = ? WHERE tree = ?`

	unkeptNewer = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq LIMIT ?`
	unkeptOlder = `SELECT ` + talkColumns + ` FROM bunkroom_transcript_entries AS e WHERE e.tree = ? AND e.seq > ? AND e.seq <= ? ORDER BY e.seq DESC LIMIT ?`
)

const (
	indexEntries = 100     // whose words are kept in one transaction
	indexBytes   = 4 << 20 // of text, about
)

// stretchKept is the stretch of a tree's seqs of which the words are kept.
type stretchKept struct{ from, through int64 }

// covers reports whether that is all of a tree that is newer than base, up to a seq.
func (k stretchKept) covers(base, through int64) bool { return k.from <= base && k.through >= through }

// kept is how far the words of a tree are kept.
func (p place) kept(ctx context.Context, tree int64) (k stretchKept, err error) {
	k.from = unread // nothing yet
	if err = p.row(ctx, kept, tree).Scan(&k.from, &k.through); errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return k, err
}

// index keeps the words of some more entries of a tree, at most so many, and
// reports whether there are more.
func (s transcripts) index(ctx context.Context, key int64, most int) (done int, more bool, err error) {
	err = s.change(ctx, func(ctx context.Context, on place, _ time.Time) error {
		done, more = 0, false
		t, err := scanned(on.row(ctx, treeByKey, key))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // purged
		}
		if err != nil {
			return err
		}
		var k stretchKept
		if err := on.row(ctx, keep, key, t.baseSeq, t.baseSeq).Scan(&k.from, &k.through); err != nil {
			return err
		}
		was := k
		if k.through < t.LastSeq {
			n, last, all, err := on.keepWords(ctx, unkeptNewer, key, k.through, t.LastSeq, most)
			if err != nil {
				return err
			}
			if done, k.through = n, last; all {
				k.through = t.LastSeq
			}
		}
		if k.from > t.baseSeq && done < most && k.through == t.LastSeq {
			n, last, all, err := on.keepWords(ctx, unkeptOlder, key, t.baseSeq, k.from, most-done)
			if err != nil {
				return err
			}
			if done, k.from = done+n, last-1; all {
				k.from = t.baseSeq
			}
		}
		if more = !k.covers(t.baseSeq, t.LastSeq); k == was {
			return nil
		}
		_, err = on.exec(ctx, keptNow, k.from, k.through, key)
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return done, more, nil
}

// keepWords keeps the words of the entries that a statement finds, and tells which was the last, and whether these were all.
func (p place) keepWords(ctx context.Context, text string, key, from, to int64, most int) (n int, last int64, all bool, err error) {
	found, err := p.entriesOf(ctx, nil, text, key, from, to, most)
	if err != nil {
		return 0, 0, false, err
	}
	bytes := 0
	for _, e := range found {
		if bytes > indexBytes {
			return n, last, false, nil
		}
		n++
		if last = e.Seq; e.Aborted {
			continue
		}
		searched, err := p.searched(ctx, &e)
		if err != nil {
			return 0, 0, false, err
		}
		bytes += len(searched)
		words := transcript.Words(searched)
		slices.Sort(words)
		if words = slices.Compact(words); len(words) == 0 {
			continue
		}
		before := p.wordsOf(key, e.Seq)
		for i, word := range words {
			words[i] = before + word
		}
		if _, err := p.exec(ctx, p.store.dialect.Words.Put, key, e.Seq, strings.Join(words, " ")); err != nil {
			return 0, 0, false, err
		}
	}
	return n, last, len(found) < most, nil
}

// wordsOf is what stands before each word of an entry.
func (p place) wordsOf(tree, seq int64) string {
	return strconv.FormatInt(tree, 10) + "_" + strconv.FormatInt(seq/p.store.dialect.Words.Block, 10) + "_"
}

// searched is the text of an entry that is searched, what is large of it as well.
func (p place) searched(ctx context.Context, e *entry) (string, error) {
	for i := range e.Parts {
		if part := &e.Parts[i]; part.Blob != nil && transcript.Texts(*part) {
			if err := p.row(ctx, loadBlob, e.tree, part.Blob.Hash).Scan((*[]byte)(&part.Data)); err != nil {
				return "", orUprooted(err)
			}
			part.Blob = nil
		}
	}
	return transcript.Searched(e.NewEntry), nil
}

// scope is a tree whose words are searched: those of entries newer than base.
type scope struct{ tree, base, through int64 }

// scopes are the trees whose rows a tree reads: its own first, then from the newest on.
func (p place) scopes(ctx context.Context, t *tree) ([]scope, error) {
	all := []scope{{t.key, t.baseSeq, t.LastSeq}}
	if !t.reads() {
		return all, nil
	}
	sees, err := p.sight(ctx, t)
	if err != nil {
		return nil, err
	}
	base, err := p.spans(ctx, t.base)
	if err != nil {
		return nil, err
	}
	for _, s := range slices.Backward(base) {
		if all[len(all)-1].tree == s.tree {
			continue
		}
		source, err := scanned(p.row(ctx, lookByKey, s.tree))
		if err != nil {
			return nil, orUprooted(err)
		}
		all = append(all, scope{s.tree, source.baseSeq, sees.through(s.tree)})
	}
	return all, nil
}

func (s transcripts) Index(ctx context.Context, c access.ConversationID, limit int) (indexed int, err error) {
	if limit < 1 || limit > transcript.MaxListed {
		return 0, field("limit", fmt.Sprintf("1 to %d", transcript.MaxListed))
	}
	behind, err := s.behind(ctx, c, nil)
	if err != nil {
		return 0, err
	}
	for _, b := range behind {
		for more := true; more && indexed < limit; {
			var n int
			if n, more, err = s.index(ctx, b.tree, min(indexEntries, limit-indexed)); err != nil {
				return indexed, err
			}
			indexed += n
		}
	}
	return indexed, nil
}

// behind are the trees whose words are not kept as far as they are to be searched. goals are how far that was, once.
func (s transcripts) behind(ctx context.Context, c access.ConversationID, goals map[int64]int64) (behind []scope, err error) {
	_, err = s.of(ctx, c, func(ctx context.Context, on place, t *tree) error {
		behind = nil
		all, err := on.scopes(ctx, t)
		if err != nil {
			return err
		}
		for _, b := range all {
			if goal, set := goals[b.tree]; set {
				b.through = goal
			} else if goals != nil {
				goals[b.tree] = b.through
			}
			k, err := on.kept(ctx, b.tree)
			if err != nil {
				return err
			}
			if !k.covers(b.base, b.through) {
				behind = append(behind, b)
			}
		}
		return nil
	})
	return behind, err
}
