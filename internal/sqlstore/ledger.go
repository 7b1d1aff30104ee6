package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
)

// ledger has a billing.Book decide everything. A verb takes the key of every
// payer that it is about, loads what the book needs, and writes what has changed.
type ledger struct{ view }

var _ billing.Ledger = ledger{}

// Ledger returns the ledger of accounts.
func (v view) Ledger() billing.Ledger { return ledger{v} }

func accountKey[T ~string](payer T) string { return "account " + string(payer) }

// overtakings is how often a verb is begun anew where somebody else has
// written the same: who pays for what is metered may have changed just now.
const overtakings = 5

// book has a verb decide on what is loaded, under the keys of payers. Where
// it returns an error nothing is written. It is called anew with what is loaded anew
// where somebody else was faster.
func (s ledger) book(ctx context.Context, payers []string, n needs, verb func(ctx context.Context, on place, was *loaded, b *billing.Book) error) error {
	keys := make(keys, len(payers))
	for i, payer := range payers {
		keys[i] = accountKey(payer)
	}
	if len(keys) == 1 && s.host == nil && s.store.writer == nil { // who wants several would keep one from others while it waits for another
		give, err := s.store.accounts.take(ctx, keys[0])
		if err != nil {
			return err
		}
		defer give()
	}
	var err error
	if s.store.dialect.Arrays && s.host == nil {
		for range attempts {
			if err = s.once(ctx, n, verb); !errors.Is(err, errOvertaken) {
				return lost(err)
			}
		}
	}
	for range overtakings {
		err = s.write(ctx, keys, func(ctx context.Context, on place, clock time.Time) error {
			if err := on.keep(ctx, payers); err != nil {
				return err
			}
			n.now = clock
			was, err := on.load(ctx, n)
			if err != nil {
				return err
			}
			b := billing.NewBook(clock)
			if err := verb(ctx, on, &was, b); err != nil {
				return err
			}
			return on.save(ctx, b.Changes(), was)
		})
		if !errors.Is(err, errOvertaken) && !errors.Is(err, session.ErrStale) { // which is what a deadlock is told as
			break
		}
	}
	return lost(err)
}

// attempts is how often a verb is tried without a lock.
const attempts = 3

// once has a verb decide on what there is, and writes what it has changed in a
// statement that does so only if nothing was written about these payers
// meanwhile. That takes half as long as to lock them first.
func (s ledger) once(ctx context.Context, n needs, verb func(context.Context, place, *loaded, *billing.Book) error) error {
	return s.read(ctx, func(ctx context.Context, on place) error {
		was, err := on.load(ctx, n)
		if err != nil {
			return err
		}
		b := billing.NewBook(was.clock)
		if err := verb(ctx, on, &was, b); err != nil {
			return err
		}
		return on.saveAlone(ctx, b.Changes(), was)
	})
}

const keepAccounts = `SELECT payer FROM bunkroom_accounts WHERE payer IN IDS(?) ORDER BY payer FOR UPDATE`

// keep sees to it that the accounts stay as they are until the transaction
// ends, also for those who write without a lock. Where one process writes at a time they do.
func (p place) keep(ctx context.Context, payers []string) error {
	if p.store.writer != nil {
		return nil
	}
	asked := idsJSON(payers)
	if asked == "" {
		return nil
	}
	rows, err := p.rows(ctx, keepAccounts, asked)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // all of them, or it has not locked all
	}
	return rows.Err()
}

// lost is err in the ledger's words, where it is not known what became of a COMMIT.
func lost(err error) error {
	if errors.Is(err, session.ErrUnknown) {
		return fmt.Errorf("%w: %w", billing.ErrUnknown, err)
	}
	return err
}

func (s ledger) Hold(ctx context.Context, r billing.HoldRequest) (h billing.Hold, err error) {
	payer := []string{string(r.Payer)}
	n := needs{payers: payer, left: true, standing: payer, holds: []string{string(r.ID)}}
	err = s.book(ctx, payer, n, func(_ context.Context, _ place, was *loaded, b *billing.Book) (err error) {
		b.Add(was.Facts)
		h, err = b.Hold(r)
		return err
	})
	if err != nil {
		return billing.Hold{}, err
	}
	return h, nil
}

func (s ledger) Post(ctx context.Context, posts ...billing.Post) ([]billing.Posted, error) {
	if err := atMost("posts", len(posts)); err != nil {
		return nil, err
	}
	if len(posts) == 0 {
		return []billing.Posted{}, ctx.Err()
	}
	n := needs{left: true}
	var payers, standing, holds distinct[string]
	marks := distinct[billing.MarkKey]{make(map[billing.MarkKey]bool, len(posts))}
	n.marks = make([]billing.MarkKey, 0, len(posts))
	for _, p := range posts {
		payers.add(&n.payers, string(p.Payer))
		marks.add(&n.marks, p.Key())
		if p.Hold != "" {
			holds.add(&n.holds, string(p.Hold))
		}
		if p.Hold != "" && p.Renew > 0 { // then it is asked whether it may go on
			standing.add(&n.standing, string(p.Payer))
		}
	}
	var out []billing.Posted
	err := s.book(ctx, n.payers, n, func(ctx context.Context, on place, was *loaded, b *billing.Book) (err error) {
		if was.Entries, err = on.entries(ctx, behind(posts, was.marks)); err != nil {
			return err
		}
		b.Add(was.Facts)
		out = make([]billing.Posted, len(posts))
		for i, p := range posts {
			out[i] = b.Post(p)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// behind are the ids of the entries that posts would make, but for those that
// can't be there yet: every entry is behind its watermark.
func behind(posts []billing.Post, marks map[billing.MarkKey]markRow) (ids []string) {
	for _, p := range posts {
		if from := p.From.UTC().Truncate(time.Microsecond); marks[p.Key()].Through.After(from) {
			ids = append(ids, billing.UsageID(p.Key(), from))
		}
	}
	return ids
}

const holdPayer = `SELECT payer FROM bunkroom_holds WHERE id IN IDS(?)`

func (s ledger) Release(ctx context.Context, id billing.HoldID) (h billing.Hold, err error) {
	ids := []string{string(id)}
	var payers []string // which never change
	if asked := idsJSON(ids); asked != "" {
		if payers, err = s.texts(ctx, holdPayer, asked); err != nil {
			return billing.Hold{}, err
		}
	}
	if len(payers) == 0 {
		return billing.NewBook(time.Time{}).Release(id)
	}
	err = s.book(ctx, payers, needs{payers: payers, holds: ids}, func(_ context.Context, _ place, was *loaded, b *billing.Book) (err error) {
		b.Add(was.Facts)
		h, err = b.Release(id)
		return err
	})
	return h, err
}

func (s ledger) Grant(ctx context.Context, g billing.Grant) (is billing.Grant, err error) {
	payer := []string{string(g.Payer)}
	n := needs{payers: payer, left: true, grants: []string{string(g.ID)}}
	err = s.book(ctx, payer, n, func(ctx context.Context, on place, was *loaded, b *billing.Book) (err error) {
		if was.has(g.ID) {
			if was.Entries, err = on.entries(ctx, []string{billing.GrantEntryID(g.ID)}); err != nil {
				return err
			}
		}
		b.Add(was.Facts)
		is, err = b.Grant(g)
		return err
	})
	if err != nil {
		return billing.Grant{}, err
	}
	return is, nil
}

func (l *loaded) has(id billing.GrantID) bool {
	for _, g := range l.Grants {
		if g.ID == id {
			return true
		}
	}
	return false
}

// What has expired is looked for before anything is locked, in the order of an
// index that has nothing else.
const (
	expiredHolds = `SELECT id, payer FROM bunkroom_holds WHERE closed_at IS NULL AND until_at <= COALESCE(NOW(), ?) ORDER BY until_at, id LIMIT ?`
	expiredLeft  = `SELECT id, payer FROM bunkroom_grants
		WHERE NOT used_up AND expires_at IS NOT NULL AND expires_at <= COALESCE(NOW(), ?) - ? ORDER BY expires_at, id LIMIT ?`
)

func (s ledger) Expire(ctx context.Context, lateness time.Duration, limit int) (rep billing.ExpireReport, err error) {
	switch {
	case lateness < 0:
		return rep, field("lateness", "must not be negative")
	case limit < 1:
		return rep, field("limit", "must be at least 1")
	}
	limit = min(limit, billing.MaxPosts)
	var n needs
	var payers distinct[string]
	for _, kind := range []struct {
		text string
		args []any
		ids  *[]string
	}{
		{expiredHolds, []any{s.store.own(), limit + 1}, &n.holds},
		{expiredLeft, []any{s.store.own(), lateness.Microseconds(), limit + 1}, &n.grants},
	} {
		found, err := s.pairs(ctx, kind.text, kind.args...)
		if err != nil {
			return rep, err
		}
		rep.Capped = rep.Capped || len(found) > limit
		for _, f := range found[:min(limit, len(found))] {
			*kind.ids = append(*kind.ids, f[0])
			payers.add(&n.payers, f[1])
		}
	}
	if len(n.payers) == 0 {
		return rep, nil
	}
	capped := rep.Capped
	err = s.book(ctx, n.payers, n, func(_ context.Context, _ place, was *loaded, b *billing.Book) error {
		b.Add(was.Facts)
		rep = b.Expire(lateness) // of what has been renewed or spent meanwhile, nothing
		return nil
	})
	if err != nil {
		return billing.ExpireReport{}, err
	}
	rep.Capped = capped
	return rep, nil
}

// distinct collects what differs.
type distinct[T comparable] struct{ known map[T]bool }

func (s *distinct[T]) add(to *[]T, v T) {
	if s.known == nil {
		s.known = map[T]bool{}
	}
	if !s.known[v] {
		s.known[v] = true
		*to = append(*to, v)
	}
}

// atMost refuses what is asked for too much of at once.
func atMost(name string, n int) error {
	if n > billing.MaxPosts {
		return field(name, fmt.Sprintf("must be at most %d", billing.MaxPosts))
	}
	return nil
}

// paged is atMost of the size of a page.
func paged(name string, limit int) error {
	if limit < 1 || limit > billing.MaxPosts {
		return field(name, fmt.Sprintf("must be 1 to %d", billing.MaxPosts))
	}
	return nil
}
