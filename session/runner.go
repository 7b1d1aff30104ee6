package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/host"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Runner lets work into sessions, and ends sessions. A live sandbox is had
// from [Runner.Open] and from nowhere else, so that nothing runs without
// having been allowed, paid for and counted.
type Runner struct {
	rows     rows
	machines *machines
	leases   Leases
	gate     billing.Gate
	mounts   *mount.Manager
	process  string // this one, as no other ever is
	replica  string // its name, as others have had it
	lease    time.Duration
	holding  time.Duration // how long a hold lasts unless it is renewed
	now      func() time.Time
	newID    func() string
	log      *slog.Logger

	mu       sync.Mutex
	works    map[string]*Work // those open or being opened in this process, by id
	draining bool             // no call of Open may begin
	stopped  bool             // no work may begin
	opening  sync.WaitGroup   // calls of Open that have not returned
	// unsettled are works that were closed and could not be accounted for, by id.
	unsettled map[string]*Work
	late      chan struct{} // holds a token while they are accounted for
	doubts    *doubts
}

// grace is what is left of a lease when its work is stopped; twice that is left when it is told to.
func (r *Runner) grace() time.Duration { return r.lease / 8 }

// minLease is the shortest work lease: shorter ones expire before a slow database answers.
const minLease = time.Second

// WorkRequest asks for work in a session.
type WorkRequest struct {
	// Conversation is what the work is for; it happens in the conversation's
	// session. Or Session, for work that belongs to no conversation, such as a
	// person's shell. Exactly one is set.
	Conversation ConversationID
	Session      ID
	// Turn is the fence of the turn of the Conversation that the work is for, such as a transcript.Turn has, by whose
	// context it is best opened, so that it ends with it at once, and else as it next renews itself. What the work has started is then ended by whoever takes that turn over,
	// before anything else: see [Keeper.EndTurns]. 0: it is for no turn, and nobody does. Where the turn is not had any more that is ErrFenced.
	Turn int64
	// AgentName labels the agent of the conversation in paths. Empty: its id.
	AgentName string
	// Ensure has a machine made where there is none. Without it that is ErrNoMachine.
	Ensure bool
	// Reopen reopens the session where it has ended, and it stays open
	// whatever comes after. Without it that is ErrEnded.
	Reopen bool
	// AcceptLoss is the generation of a lost machine (sandbox.LostError) whose
	// files the caller does without. A new one starts empty, for everybody who
	// works in that sandbox.
	AcceptLoss int64
}

// Open lets work begin: it asks whether the actor may, has the payer's account
// admit it, takes a slot, gets the machine, binds the session's own folder, if
// that is its working directory, and the agent's, in this order; a failure
// undoes what was done, in reverse, and charges nothing.
// The caller must close the Work. When ctx ends, so does the work.
//
// Two conversations of one session work in the same sandbox, and so do two
// sessions that borrow one environment.
//
// ErrNotFound, *access.DeniedError, *access.FieldError; ErrNoSession; ErrFenced, where the turn that it is for was lost;
// ErrEnded; ErrEnvironmentGone; ErrNoMachine; *billing.RefusedError; *LimitError;
// *sandbox.ProvisioningError, where ctx ended while somebody else was having the machine made;
// *sandbox.LostError; *sandbox.AttemptsError; *ElsewhereError;
// *WorkdirError, before anything wakes; *mount.InUseError; *mount.MountError where a folder is
// required, as a durable working directory always is; ErrUnavailable; ErrDraining.
func (r *Runner) Open(ctx context.Context, a access.Actor, q WorkRequest) (*Work, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.opening.Done()

	in, err := r.admit(ctx, a, q)
	if err != nil {
		return nil, err
	}
	w := &Work{
		runner: r, id: r.newID(), session: in.Session.ID, environment: in.Session.Environment, conversation: in.Conversation.ID, turn: q.Turn,
		free: true, vouched: in.vouched, bill: bill{ttl: r.holding}, saying: make(chan struct{}, 1),
		entry: entry{actor: a, object: string(q.Conversation) + string(q.Session), session: in.Session, conversation: in.Conversation},
	}
	if lost := in.Sandbox; lost.State == sandbox.Lost && lost.Generation == q.AcceptLoss {
		w.replaced = q.AcceptLoss
	}
	if err := w.begin(ctx, in, q); err != nil {
		return nil, err
	}
	return w, nil
}

// enter counts a call of Open, unless the process is draining.
func (r *Runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return ErrDraining
	}
	r.opening.Add(1)
	return nil
}

// admitted is a request that access has let through.
type admitted struct {
	Snapshot
	payer   access.UserID
	plan    access.Plan
	limits  Limits
	vouched time.Time // when the host was asked, on the local clock
}

// admit is step 1: may this actor run code there? Nothing has been woken, charged or counted.
func (r *Runner) admit(ctx context.Context, a access.Actor, q WorkRequest) (admitted, error) {
	var none admitted
	if err := host.CheckActor(a); err != nil {
		return none, err
	}
	at, notFound := Address{Session: q.Session}, noSession(q.Session)
	switch {
	case (q.Session == "") == (q.Conversation == ""):
		return none, &access.FieldError{Field: "Conversation", Rule: "must be set, or Session, and not both"}
	case q.Turn < 0:
		return none, &access.FieldError{Field: "Turn", Rule: "must not be negative"}
	case q.Turn > 0 && q.Conversation == "":
		return none, &access.FieldError{Field: "Conversation", Rule: "must be set where Turn is"}
	case q.Conversation != "":
		at, notFound = Address{Conversation: q.Conversation}, noConversation(q.Conversation)
		if err := access.CheckID("Conversation", q.Conversation); err != nil {
			return none, err
		}
	default:
		if err := access.CheckID("Session", q.Session); err != nil {
			return none, err
		}
	}
	s, err := r.rows.store.Load(ctx, at)
	if err != nil {
		return none, subject(err, notFound)
	}
	v := s.Conversation
	project, owner := s.Session.Project, s.Session.Owner
	if s.Session.ID == "" {
		project, owner = v.Project, v.Owner
	}
	asked := time.Now()
	f := r.rows.host.Ask(ctx, access.Question{Actor: a, Project: project, Owner: owner, Agent: v.Agent,
		Want: access.WantRole | access.WantCode | access.WantAgent | access.WantBilling})
	rule := func(d access.Decision, verb string) error {
		return r.rows.host.Rule(ctx, a, f, d, verb, string(q.Conversation)+string(q.Session), notFound)
	}
	if v.ID != "" {
		if err := rule(access.SeeConversation(a, v.facts(), s.Session.Owner, f.Facts), "work in conversation"); err != nil {
			return none, err
		}
		if s.Session.ID == "" {
			return none, fmt.Errorf("%w: conversation %s", ErrNoSession, v.ID)
		}
	}
	if err := rule(access.RunCode(a, s.Session.facts(), v.Agent, f.Facts), "run code"); err != nil {
		return none, err
	}
	in := admitted{Snapshot: s, plan: f.Plan, vouched: asked}
	if in.limits, err = r.rows.ceilings(f); err != nil {
		return none, err
	}
	d := billing.RuntimePayer(s.Session.paying(f))
	if d.Reason == billing.PayerFallback {
		r.log.WarnContext(ctx, "payer of project unresolved, the session's owner pays", "session", s.Session.ID, "project", s.Session.Project)
	}
	in.payer = d.Payer
	switch {
	case s.Session.Ended() && !q.Reopen:
		return none, ended(s.Session.ID)
	case s.Environment.Deleted():
		return none, environmentGone(s.Environment.ID)
	}
	return in, nil
}

// reopen takes back that the session has ended, once the work is paid for and has its slot.
func (r *Runner) reopen(ctx context.Context, in admitted) (Snapshot, error) {
	out, err := r.rows.change(ctx, Address{Session: in.Session.ID}, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandReopen{MaxSessions: in.limits.Sessions})
	})
	out.Snapshot.Conversation = in.Conversation
	return out.Snapshot, err
}

// Run opens work, calls do with it, and closes it whatever do does, also where
// it panics. ctx is the work's own: it ends with a cause when the work must
// stop. The error is do's, or the opening's, or else the closing's.
func (r *Runner) Run(ctx context.Context, a access.Actor, q WorkRequest, do func(ctx context.Context, w *Work) error) (rep Report, err error) {
	w, err := r.Open(ctx, a, q)
	if err != nil {
		return Report{}, err
	}
	defer func() {
		closing, cancel := detached(ctx)
		defer cancel()
		var closed error
		if rep, closed = w.Close(closing); err == nil {
			err = closed
		}
	}()
	return rep, do(w.Context(), w)
}

// cleanup is how long undoing and closing may take, whatever became of the request.
const cleanup = 30 * time.Second

// detached is a context for cleaning up after ctx.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanup)
}

// EndReport says what an end has come to. Nothing in it is a guess.
type EndReport struct {
	// Ended: this call ended the session, or deleted the environment. False where that had happened before.
	Ended bool
	// Destroyed: this call proved that its machine is gone. A session that
	// borrows its sandbox has no machine to destroy.
	Destroyed bool
	// Pending: a machine is being destroyed, and its absence not yet proven;
	// the Keeper sees to it.
	Pending bool
}

// End ends a session: its works end with ErrEnded, its machine is destroyed;
// its conversations stay. The session's owner may always end it. Ending what
// has ended kills nothing again. Once the end is committed its machine is
// going to be destroyed, whatever becomes of this call: there is no error any more then, only what is Pending.
func (r *Runner) End(ctx context.Context, a access.Actor, id ID) (EndReport, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("session", id)); err != nil {
		return EndReport{}, host.First(err)
	}
	first := true
	out, err := r.rows.change(ctx, Address{Session: id}, func(s Snapshot) (Decision, error) {
		if first {
			var f host.Answer
			if a.User != s.Session.Owner { // the owner's end depends on nobody
				f = r.rows.host.Ask(ctx, access.Question{Actor: a, Project: s.Session.Project, Owner: s.Session.Owner,
					Want: access.WantRole | access.WantCode | access.WantAgent})
			}
			d := access.EndSession(a, s.Session.facts(), f.Facts)
			if err := r.rows.host.Rule(ctx, a, f, d, "end session", string(id), noSession(id)); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return Decide(s, CommandEnd{Terms: r.machines.terms(s.Sandbox.Provider)})
	})
	if err != nil {
		return EndReport{}, subject(err, noSession(id))
	}
	r.cancel(func(w *Work) bool { return w.session == id }, ErrEnded)
	if out.Session.Environment != "" { // the machine is not the session's
		return EndReport{Ended: out.committed}, nil
	}
	return r.tornDown(ctx, out, cleanup), nil
}

// cancel ends those works of this process that which picks.
func (r *Runner) cancel(which func(*Work) bool, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.works {
		if which(w) {
			w.stop(cause)
		}
	}
}

func (r *Runner) has(work string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.works[work] != nil || r.unsettled[work] != nil
}

// Drain ends a process in good order: new work is refused with ErrDraining,
// and what is open may go on until ctx ends. Then it is stopped with
// ErrDraining as the cause and closed. Drain returns when no work is open and no machine
// is being made any more; the error is ctx's where something had to be stopped. What was closed
// and could not be accounted for is tried once more, and is left to the Keepers of other processes then.
func (r *Runner) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.draining = true
	r.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		defer close(idle)
		r.opening.Wait()
		for _, w := range r.open() {
			<-w.closed
		}
		r.machines.creating.Wait()
		r.machines.measuring.Wait()
	}()
	select {
	case <-idle:
		last, cancel := detached(ctx)
		defer cancel()
		return r.leaveLate(last)
	case <-ctx.Done():
	}
	err := context.Cause(ctx)
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.cancel(func(*Work) bool { return true }, ErrDraining)
	closing, cancel := detached(ctx)
	defer cancel()
	// All at once: whatever answers one of them slowly may answer none of them faster.
	var stopping sync.WaitGroup
	var mu sync.Mutex
	for _, w := range r.open() {
		stopping.Go(func() {
			if _, closed := w.Close(closing); closed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, closed)
			}
		})
	}
	stopping.Wait()
	select {
	case <-idle:
	case <-closing.Done(): // a provider that does not answer: its row says what was intended
		err = errors.Join(err, closing.Err())
	}
	return errors.Join(err, r.leaveLate(closing))
}

// register makes w one of the works of this process, unless that is shutting down.
func (r *Runner) register(w *Work) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return ErrDraining
	}
	r.works[w.id] = w
	return nil
}

// begin lets work begin, unless it has been stopped already.
func (r *Runner) begin(w *Work) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cause := context.Cause(w.ctx); cause != nil {
		return fmt.Errorf("session %s: %w", w.session, cause)
	}
	w.begun, w.since = true, time.Now()
	return nil
}

// forget strikes w off the works of this process; what is not settled the Keeper settles.
func (r *Runner) forget(w *Work, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.works, w.id)
	if !settled {
		r.unsettled[w.id] = w
	}
}

// open are the works that have begun and are not closed.
func (r *Runner) open() []*Work {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Work, 0, len(r.works))
	for _, w := range r.works {
		if w.begun {
			all = append(all, w)
		}
	}
	return all
}
