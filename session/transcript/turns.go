package transcript

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session"
)

// TurnsConfig is what [NewTurns] is given.
type TurnsConfig struct {
	// Store, Inbox and Leases keep the rows, all in one database. Required.
	Store  Store
	Inbox  Inbox
	Leases session.Leases

	// EndProcesses ends what turns of a conversation up to that fence have
	// started, and returns nil once none of it runs. session.Keeper.EndTurns is one, for what is
	// started through sessions' works that were opened for turns; see [EndOlder] for what is started otherwise. It is asked before
	// every turn of a conversation that had one, with the fence of the newest before it; those of older turns
	// were ended when that one began. Where the transcript knows of none, which may be because it was deleted and made anew, it is asked with
	// the greatest fence that any before it can have had. It may be asked again for the same. nil: turns start nothing that could outlast its process.
	EndProcesses func(ctx context.Context, conversation access.ConversationID, last int64) error

	// Replica is this process, as it shows in leases. Default: a new random id.
	Replica string
	// Lease is how long the lease of a turn lasts unless it is renewed; it is renewed three times in that time. At
	// least 1 second; default 1 minute. It is how long a conversation waits for a runner that died.
	Lease time.Duration
	// Single delivers one steer at a time instead of all that wait.
	Single bool
	// Log gets what nobody is told otherwise, as a lease that could not be renewed. nil: nothing is logged.
	Log *slog.Logger
	// NewID makes the ids of turns. nil: random ones.
	NewID func() string
}

// Turns hands out turns. All methods may be called concurrently.
type Turns struct {
	store   Store
	inbox   Inbox
	leases  session.Leases
	end     func(context.Context, access.ConversationID, int64) error
	replica string
	lease   time.Duration
	single  bool
	log     *slog.Logger
	newID   func() string
}

const (
	defaultLease = time.Minute
	// minLease is the shortest lease: shorter ones expire before a slow database answers.
	minLease = time.Second
	// closing is how long giving a turn up may take, whatever became of the request.
	closing = 30 * time.Second
)

// NewTurns returns turns by c. A *access.FieldError names what is wrong with it.
func NewTurns(c TurnsConfig) (*Turns, error) {
	switch {
	case c.Store == nil:
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	case c.Inbox == nil:
		return nil, &access.FieldError{Field: "Inbox", Rule: "must be set"}
	case c.Leases == nil:
		return nil, &access.FieldError{Field: "Leases", Rule: "must be set"}
	case c.Lease != 0 && c.Lease < minLease:
		return nil, &access.FieldError{Field: "Lease", Rule: fmt.Sprintf("must be at least %v", minLease)}
	}
	if c.Lease == 0 {
		c.Lease = defaultLease
	}
	if c.NewID == nil {
		c.NewID = id.New
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Replica == "" {
		c.Replica = c.NewID()
	}
	if err := access.CheckID("Replica", c.Replica); err != nil {
		return nil, err
	}
	return &Turns{
		store: c.Store, inbox: c.Inbox, leases: c.Leases, end: c.EndProcesses, replica: c.Replica, lease: c.Lease,
		single: c.Single, log: c.Log, newID: c.NewID,
	}, nil
}

// grace is how long before its lease expires a turn has stopped; it stops two of these before.
func (s *Turns) grace() time.Duration { return s.lease / 8 }

// Begin makes the caller the one who acts on a conversation. It takes over
// what was left: it ends the processes of the turn before, and settles as interrupted what that has left open.
// Whatever it fails at, it gives the right back; a turn that is begun another time, by whomever, goes on from there.
//
// *session.HeldError: somebody else acts on it. ErrNotFound, ErrArchived; ErrBusy while it is imported. ErrFenced: it took
// longer than the lease lasts. The context of the turn ends with ctx, among others; see [Turn.Context]. Whoever has a turn ends it
// by [Turn.Finish], or else by [Turn.Close].
func (s *Turns) Begin(ctx context.Context, conversation access.ConversationID) (*Turn, error) {
	if err := access.CheckID("conversation", conversation); err != nil {
		return nil, err
	}
	t, err := s.acquire(ctx, conversation)
	if err != nil {
		return nil, fmt.Errorf("transcript: turn of %s: %w", conversation, err)
	}
	handed := false
	defer func() {
		if !handed { // also where what the host has ended processes with panics
			t.abandon(ctx)
		}
	}()
	if err := t.takeOver(); err != nil {
		return nil, err
	}
	handed = true
	return t, nil
}

// acquire takes the lease and begins to renew it. No two turns have one
// holder, so that of two in one process only one has it.
func (s *Turns) acquire(ctx context.Context, conversation access.ConversationID) (*Turn, error) {
	l := session.Lease{Kind: session.LeaseTurn, Name: string(conversation), Holder: s.newID(), Replica: s.replica, For: s.lease}
	asked := time.Now()
	held, err := s.leases.Acquire(ctx, l)
	if errors.Is(err, session.ErrUnknown) { // the same holder is given what it has
		asked = time.Now()
		held, err = s.leases.Acquire(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	t := &Turn{
		turns: s, conversation: conversation, id: TurnID(l.Holder), fence: held.Fence, lease: held,
		quit: make(chan struct{}), beating: make(chan struct{}), ending: make(chan struct{}, 1),
	}
	t.ctx, t.stop = context.WithCancelCause(ctx)
	t.held, t.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	t.renewed(held, asked)
	go t.beat()
	return t, nil
}

// takeOver leaves nothing of older turns. Every step may be done again: a
// crash between any two is made good by whoever begins the next turn.
func (t *Turn) takeOver() error {
	s := t.turns
	row, err := s.store.Load(t.ctx, t.conversation)
	switch {
	case err != nil:
		return t.because(err)
	case row.Status == Archived:
		return fmt.Errorf("%w: %s", ErrArchived, t.conversation)
	case row.Status == Importing:
		return fmt.Errorf("%w: %s is being imported", ErrBusy, t.conversation)
	}
	// A turn was begun only once nothing of the ones before it ran, and one
	// that could not be was never handed out: only the newest can have left something.
	last := row.Fence
	if last == 0 { // unless the transcript is another of that name
		last = t.fence - 1
	}
	if last > 0 && s.end != nil {
		if err := s.end(t.ctx, t.conversation, last); err != nil {
			return t.because(fmt.Errorf("transcript: %s: ending what turn %d has started: %w", t.conversation, last, err))
		}
	}
	if err := t.mayAct(); err != nil {
		return err
	}
	t.begun = true
	if _, err := t.write(t.ctx, Change{Begin: true}); err != nil {
		return t.because(err)
	}
	if err := t.settle(t.ctx); err != nil {
		return t.because(err)
	}
	return t.mayAct()
}

// abandon gives back what was not handed out.
func (t *Turn) abandon(ctx context.Context) {
	ctx, cancel := detached(ctx)
	defer cancel()
	if t.begun { // else it would look as if somebody acted on it
		if err := t.end(ctx, Change{End: true}); err != nil {
			t.turns.log.WarnContext(ctx, "turn not ended", "conversation", t.conversation, "turn", t.fence, "error", err)
		}
	}
	t.giveBack(ctx)
}

// detached is a context for what is to be done whatever has become of ctx.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), closing)
}
