package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

var (
	errNoConnection = errors.New("no connection")
	errDied         = errors.New("the process has died")
	// errUnknownLease: the reply of an Acquire was lost.
	errUnknownLease = fmt.Errorf("the lease: %w", session.ErrUnknown)
)

const turnLease = time.Minute

// runner is a process that acts on conversations, of which every call to
// anything can be meddled with: meet is called before it and, where that lets it happen, after it.
type runner struct {
	*transcript.Turns
	store  transcript.Store
	inbox  transcript.Inbox
	leases session.Leases

	mu    sync.Mutex
	calls []string
	meet  func(call string, nth int, done bool) error // nth of all calls, from 1; nil: nothing happens
	died  bool
}

// tester is what a *testing.T and a *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// host is a database, and the processes that turns have started.
type host struct {
	t  tester
	db *memory.DB

	mu      sync.Mutex
	running map[int64]bool // by fence
	runners []*runner      // that there ever were
	ids     int
}

func newHost(t tester, opts *memory.Options) *host {
	return &host{t: t, db: memory.New(opts), running: map[int64]bool{}}
}

func (h *host) runner(edit ...func(*transcript.TurnsConfig)) *runner {
	h.t.Helper()
	r := &runner{store: h.db.Transcripts(), inbox: h.db.Inbox(), leases: h.db.Leases()}
	c := transcript.TurnsConfig{
		Store: meddledStore{r.store, r}, Inbox: meddledInbox{r.inbox, r}, Leases: meddledLeases{r.leases, r}, Lease: turnLease, Replica: "r",
		EndProcesses: func(ctx context.Context, _ access.ConversationID, last int64) error {
			return r.call("end processes", func() error {
				h.mu.Lock()
				defer h.mu.Unlock()
				delete(h.running, last)
				return ctx.Err()
			})
		},
		NewID: func() string {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.ids++
			return fmt.Sprint("turn", h.ids)
		},
	}
	for _, f := range edit {
		f(&c)
	}
	turns, err := transcript.NewTurns(c)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Turns = turns
	h.runners = append(h.runners, r)
	return r
}

// begins begins a turn that must begin, and starts something in it.
func (h *host) begins(r *runner) *transcript.Turn {
	h.t.Helper()
	turn, err := r.Begin(context.Background(), talk)
	if err != nil {
		h.t.Fatalf("Begin: %v", err)
	}
	h.starts(turn)
	return turn
}

func (h *host) starts(turn *transcript.Turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running[turn.Fence()] = true
}

// runs are the fences of what runs.
func (h *host) runs() (fences []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for f := range h.running {
		fences = append(fences, f)
	}
	return fences
}

func (h *host) create() {
	h.t.Helper()
	if _, err := h.db.Transcripts().Create(context.Background(), talk); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) commit(c transcript.Change) transcript.Committed {
	h.t.Helper()
	c.Conversation = talk
	done, err := h.db.Transcripts().Commit(context.Background(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return done
}

func (h *host) row() transcript.Transcript {
	h.t.Helper()
	row, err := h.db.Transcripts().Load(context.Background(), talk)
	if err != nil {
		h.t.Fatal(err)
	}
	return row
}

func (h *host) open() transcript.Open {
	h.t.Helper()
	open, err := h.db.Transcripts().Unsettled(context.Background(), talk)
	if err != nil {
		h.t.Fatal(err)
	}
	return open
}

func question(id transcript.EntryID) transcript.NewEntry {
	return transcript.NewEntry{ID: id, Kind: transcript.KindUser, Parts: []transcript.Part{transcript.TextPart(string(id))}}
}

// admit admits an input, and says whether a turn is told to be under way.
func (h *host) admit(in transcript.NewInput) transcript.Admitted {
	h.t.Helper()
	admitted, err := h.db.Inbox().Admit(context.Background(), talk, in, 1000)
	if err != nil {
		h.t.Fatalf("Admit(%s): %v", in.Entry.ID, err)
	}
	return admitted
}

func (h *host) states() map[transcript.EntryID]transcript.InputState {
	h.t.Helper()
	all, err := h.db.Inbox().Inputs(context.Background(), talk, "", 1000,
		transcript.InputPending, transcript.InputClaimed, transcript.InputPromoted, transcript.InputCancelled, transcript.InputExpired, transcript.InputDead)
	if err != nil {
		h.t.Fatal(err)
	}
	states := map[transcript.EntryID]transcript.InputState{}
	for _, in := range all {
		states[in.Entry.ID] = in.State
	}
	return states
}

func (h *host) listed(list func(context.Context, access.ConversationID, int) ([]access.ConversationID, error)) bool {
	h.t.Helper()
	all, err := list(context.Background(), "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(all) > 0
}

// call makes a call that may be meddled with.
func (r *runner) call(name string, do func() error) error {
	r.mu.Lock()
	r.calls = append(r.calls, name)
	n, meet, died := len(r.calls), r.meet, r.died
	r.mu.Unlock()
	if died {
		return errDied
	}
	if meet == nil {
		return do()
	}
	if err := meet(name, n, false); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return meet(name, n, true)
}

// meddle begins to count anew.
func (r *runner) meddle(meet func(call string, nth int, done bool) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.meet = nil, meet
}

// dies ends the process: nothing that it asks for happens any more.
func (r *runner) dies() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.died = true
	return errDied
}

func (r *runner) called() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.calls...)
}

func answer[T any](r *runner, name string, do func() (T, error)) (value T, err error) {
	err = r.call(name, func() (err error) {
		value, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return value, nil
}

type meddledStore struct {
	transcript.Store
	r *runner
}

func (s meddledStore) Load(ctx context.Context, c access.ConversationID) (transcript.Transcript, error) {
	return answer(s.r, "load", func() (transcript.Transcript, error) { return s.Store.Load(ctx, c) })
}

func (s meddledStore) Commit(ctx context.Context, c transcript.Change) (transcript.Committed, error) {
	name := "commit"
	switch {
	case c.Begin:
		name = "begin"
	case c.End:
		name = "end"
	case c.EndIdle:
		name = "end idle"
	case len(c.Settle)+len(c.Abort) > 0:
		name = "settle"
	}
	return answer(s.r, name, func() (transcript.Committed, error) { return s.Store.Commit(ctx, c) })
}

func (s meddledStore) Unsettled(ctx context.Context, c access.ConversationID) (transcript.Open, error) {
	return answer(s.r, "unsettled", func() (transcript.Open, error) { return s.Store.Unsettled(ctx, c) })
}

func (s meddledStore) Unfinished(ctx context.Context, after access.ConversationID, limit int) ([]access.ConversationID, error) {
	return answer(s.r, "unfinished", func() ([]access.ConversationID, error) { return s.Store.Unfinished(ctx, after, limit) })
}

type meddledInbox struct {
	transcript.Inbox
	r *runner
}

func (i meddledInbox) Inputs(ctx context.Context, c access.ConversationID, after transcript.EntryID, limit int, states ...transcript.InputState) ([]transcript.Input, error) {
	return answer(i.r, "inputs", func() ([]transcript.Input, error) { return i.Inbox.Inputs(ctx, c, after, limit, states...) })
}

func (i meddledInbox) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
	return answer(i.r, "change input", func() (transcript.Input, error) { return i.Inbox.ChangeInput(ctx, c, id, cmd) })
}

func (i meddledInbox) Expire(ctx context.Context, c access.ConversationID, limit int) (int, error) {
	return answer(i.r, "expire", func() (int, error) { return i.Inbox.Expire(ctx, c, limit) })
}

type meddledLeases struct {
	session.Leases
	r *runner
}

func (l meddledLeases) Acquire(ctx context.Context, q session.Lease) (session.Lease, error) {
	return answer(l.r, "acquire", func() (session.Lease, error) { return l.Leases.Acquire(ctx, q) })
}

func (l meddledLeases) Renew(ctx context.Context, q session.Lease) (session.Lease, error) {
	return answer(l.r, "renew", func() (session.Lease, error) { return l.Leases.Renew(ctx, q) })
}

func (l meddledLeases) Release(ctx context.Context, q session.Lease) error {
	return l.r.call("release", func() error { return l.Leases.Release(ctx, q) })
}

func (l meddledLeases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	return answer(l.r, "held", func() (session.Lease, error) { return l.Leases.Held(ctx, kind, name) })
}
