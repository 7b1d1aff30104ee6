package transcript

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

// IndexingConfig is what [NewIndexing] is given.
type IndexingConfig struct {
	// Store keeps the transcripts. Required.
	Store Store
	// Limit is how many transcripts a run looks at, and of how many entries it keeps the words,
	// at most; the next goes on from there. 0: 10,000 of each.
	Limit int
	// Log gets what a run has done, where it has done something. nil: nobody is told.
	Log *slog.Logger
}

// Indexing keeps the words of what was said, so that whoever searches need not wait for it: of all
// transcripts, a stretch at a time, which takes a few reads of each. Several may be at it, in several processes. All methods may be called concurrently; runs of one
// come one after the other.
type Indexing struct {
	store Store
	limit int
	log   *slog.Logger

	mu    sync.Mutex
	round round
}

// Indexed is what a run of [Indexing] has done.
type Indexed struct {
	Entries int  // of which the words are kept now
	Done    bool // everything was looked at since a round began
}

// NewIndexing returns an indexing by c. A *access.FieldError names what is wrong with it.
func NewIndexing(c IndexingConfig) (*Indexing, error) {
	if c.Store == nil {
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	}
	limit, err := checkRound(c.Limit)
	if err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Indexing{store: c.Store, limit: limit, log: c.Log}, nil
}

// Run goes on with the round where the run before has stopped, in this process. A transcript that it fails with
// keeps it from no other, but that after ten it stops; the error names those. What was done is done, whatever the error.
func (x *Indexing) Run(ctx context.Context) (done Indexed, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.round.failed = nil
	left := x.limit
	done.Done, err = x.round.stretch(ctx, x.store, IdleQuery{}, &left, func(ctx context.Context, t Transcript) (bool, error) {
		return x.index(ctx, t, &done)
	})
	return done, errors.Join(append(x.round.failed, err)...)
}

// index keeps the words of a transcript while there may be more in this run, and reports whether there are none left.
func (x *Indexing) index(ctx context.Context, t Transcript, done *Indexed) (bool, error) {
	if t.Status == Importing { // it may be thrown away
		return true, nil
	}
	for done.Entries < x.limit {
		n, err := x.store.Index(ctx, t.Conversation, min(MaxListed, x.limit-done.Entries))
		done.Entries += n
		if err != nil || n == 0 {
			return true, still(err)
		}
	}
	return false, nil
}

// Chore is an [Indexing.Run] every so often, for session.Keeper.Serve.
func (x *Indexing) Chore(every time.Duration) session.Chore {
	return session.Chore{Name: "index of transcripts", Every: every, Run: func(ctx context.Context) error {
		done, err := x.Run(ctx)
		if done.Entries > 0 {
			x.log.InfoContext(ctx, "transcripts indexed", "entries", done.Entries, "round", done.Done)
		}
		return err
	}}
}
