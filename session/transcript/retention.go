package transcript

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// RetentionConfig says how long what is kept. Of what has no age nothing is removed.
type RetentionConfig struct {
	// Store keeps the transcripts. Required.
	Store Store
	// Inbox, where it is given, is asked whether an input waits before Allow is asked of what would be archived. What
	// an input waits in is left alone in any case; one that has expired waits until it is put away, as [Turns.Recover] does.
	Inbox Inbox
	// Facts is how long what happened can be told by [Store.Since]; inputs that are done with go with that, see [Store.Forget].
	Facts time.Duration
	// Archive is how long nothing is committed to a transcript before it is archived.
	Archive time.Duration
	// Delete is how long nothing is committed to one that is archived before it is deleted. The conversation
	// that the host has is another thing: see Allow.
	Delete time.Duration
	// Imports is how long nothing comes of an import before what is there of it is deleted. 0: a day.
	Imports time.Duration
	// Allow is asked before something is archived or deleted, with what is known of it; it may do what is
	// to be done first. false: it is left alone, and asked for again in the next round. nil: everything is allowed.
	Allow func(ctx context.Context, t Transcript, to Status) (bool, error)
	// Limit is how many transcripts a run looks at, how many facts it forgets and how many rows it
	// purges, at most; the next goes on from there. 0: 10,000 of each.
	Limit int
	// Log gets what a run has done, where it has done something. nil: nobody is told.
	Log *slog.Logger
}

// Retention removes what is not to be kept any longer: of all transcripts, a stretch at a time. Several may be at it,
// in several processes. All methods may be called concurrently; runs of one come one after the other.
type Retention struct {
	store Store
	inbox Inbox
	allow func(context.Context, Transcript, Status) (bool, error)
	limit int
	log   *slog.Logger
	rules []retentionRule

	mu    sync.Mutex
	rule  int // of the round that is under way
	round round
	ended bool // a round has, since everything was done
}

// retentionRule is what becomes of what was left alone for so long; to is empty where facts are forgotten.
type retentionRule struct {
	age      time.Duration
	from, to Status
}

// Retained is what a run of [Retention] has done.
type Retained struct {
	Archived []access.ConversationID
	Deleted  []access.ConversationID
	Facts    int  // that were forgotten
	Inputs   int  // that went with those
	Rows     int  // of what was deleted, by whomever, that were purged
	Done     bool // everything was looked at since a round began, and nothing is left to be purged
}

// none reports whether nothing was done.
func (r Retained) none() bool {
	return len(r.Archived)+len(r.Deleted)+r.Facts+r.Inputs+r.Rows == 0
}

// NewRetention returns a retention by c. A *access.FieldError names what is wrong with it.
func NewRetention(c RetentionConfig) (*Retention, error) {
	if c.Store == nil {
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	}
	for _, age := range []struct {
		field string
		time.Duration
	}{{"Facts", c.Facts}, {"Archive", c.Archive}, {"Delete", c.Delete}, {"Imports", c.Imports}} {
		if age.Duration < 0 {
			return nil, &access.FieldError{Field: age.field, Rule: "must not be negative"}
		}
	}
	limit, err := checkRound(c.Limit)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &Retention{store: c.Store, inbox: c.Inbox, allow: c.Allow, limit: limit, log: c.Log}
	for _, rule := range []retentionRule{
		{cmp.Or(c.Imports, 24*time.Hour), Importing, Deleted},
		{c.Delete, Archived, Deleted}, // before others are archived
		{c.Archive, Active, Archived},
		{age: c.Facts},
	} {
		if rule.age > 0 {
			r.rules = append(r.rules, rule)
		}
	}
	return r, nil
}

// purgeRows is how many rows are purged in one transaction.
const purgeRows = 500

// Run goes on with the round where the run before has stopped, in this process, and then purges. A transcript that it fails with
// keeps it from no other, but that after ten it stops; the error names those. What was done is done, whatever the error.
func (r *Retention) Run(ctx context.Context) (done Retained, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round.failed = nil
	left, facts := r.limit, r.limit
	for r.rule < len(r.rules) && left > 0 && err == nil {
		rule, ended := r.rules[r.rule], false
		q := IdleQuery{For: rule.age, Status: rule.from}
		if rule.to == "" {
			q.For = 0 // what happened long ago may be forgotten wherever something happens
		}
		ended, err = r.round.stretch(ctx, r.store, q, &left, func(ctx context.Context, t Transcript) (bool, error) {
			if rule.to == "" {
				return r.forget(ctx, t, rule.age, &facts, &done)
			}
			return true, r.become(ctx, t, rule.to, &done)
		})
		if !ended {
			break
		}
		r.rule++
	}
	if r.rule == len(r.rules) { // whatever is left to be purged, the next round begins
		r.rule, r.ended = 0, true
	}
	if err == nil {
		err = r.purge(ctx, &done)
	}
	if done.Done = done.Done && r.ended; done.Done {
		r.ended = false
	}
	return done, errors.Join(append(r.round.failed, err)...)
}

// become archives or deletes what still is as it was when it was found.
func (r *Retention) become(ctx context.Context, t Transcript, to Status, done *Retained) error {
	if t.InTurn {
		return nil
	}
	if to == Archived && r.inbox != nil {
		if waiting, err := r.inbox.Inputs(ctx, t.Conversation, "", 1); err != nil || len(waiting) > 0 {
			return still(err)
		}
	}
	if r.allow != nil {
		if ok, err := r.allow(ctx, t, to); err != nil || !ok {
			return err
		}
	}
	// Not everything that is done to it raises its version, and an import that begins anew has the same.
	switch now, err := r.store.Load(ctx, t.Conversation); {
	case err != nil:
		return still(err)
	case now.InTurn || now.LastSeq != t.LastSeq || !now.CreatedAt.Equal(t.CreatedAt) || !now.UpdatedAt.Equal(t.UpdatedAt):
		return nil
	}
	change := Change{Conversation: t.Conversation, Status: to, Version: t.Version, CancelWaiting: to == Deleted}
	switch _, err := r.store.Commit(ctx, change); {
	case err != nil:
		return still(err)
	case to == Deleted:
		done.Deleted = append(done.Deleted, t.Conversation)
	default:
		done.Archived = append(done.Archived, t.Conversation)
	}
	return nil
}

// still is err, but nil where somebody has done something with a transcript since it was listed.
func still(err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrInTurn) || errors.Is(err, ErrArchived) || errors.Is(err, ErrWaiting) || errors.As(err, new(*VersionError)) {
		return nil
	}
	return err
}

// forget forgets facts of a transcript while some may be forgotten in this run, and reports whether there are none left.
func (r *Retention) forget(ctx context.Context, t Transcript, older time.Duration, left *int, done *Retained) (bool, error) {
	for *left > 0 {
		gone, err := r.store.Forget(ctx, t.Conversation, older, min(MaxListed, *left))
		done.Facts, done.Inputs = done.Facts+gone.Facts, done.Inputs+gone.Inputs
		*left -= gone.Facts
		if err != nil || !gone.More {
			return true, still(err)
		}
	}
	return false, nil
}

// purge purges what was deleted. Done: there is nothing left.
func (r *Retention) purge(ctx context.Context, done *Retained) error {
	for done.Rows < r.limit {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := r.store.Purge(ctx, min(purgeRows, r.limit-done.Rows))
		done.Rows += n
		if err != nil || n == 0 {
			done.Done = err == nil
			return err
		}
	}
	return nil
}

// Chore is a [Retention.Run] every so often, for session.Keeper.Serve.
func (r *Retention) Chore(every time.Duration) session.Chore {
	return session.Chore{Name: "retention of transcripts", Every: every, Run: func(ctx context.Context) error {
		done, err := r.Run(ctx)
		if !done.none() {
			r.log.InfoContext(ctx, "transcripts retained", "archived", len(done.Archived), "deleted", len(done.Deleted),
				"facts", done.Facts, "inputs", done.Inputs, "rows", done.Rows, "round", done.Done)
		}
		return err
	}}
}
