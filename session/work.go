package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Work is one admitted use of a session's sandbox. It is held from
// [Runner.Open] until Close and renews itself in between. All methods may be
// called concurrently.
type Work struct {
	runner       *Runner
	id           string
	session      ID
	environment  EnvironmentID // that the session borrows from; empty = none
	conversation ConversationID
	turn         int64 // of conversation, that it is for; 0 = none
	payer        access.UserID
	replaced     int64
	free, unheld bool
	begun        bool      // work has begun; guarded by runner.mu
	since        time.Time // and when that was, on the local clock; as begun

	ctx     context.Context
	stop    context.CancelCauseFunc
	sb      sandbox.Sandbox // the driver's handle
	carried mount.Carried
	workdir mount.Workdir // zero = that of the machine
	clock   storeClock
	began   time.Time // on the clock of reports

	begins  chan struct{}         // tells the heartbeat that work begins
	beating chan struct{}         // closed when the heartbeat has ended
	quit    chan struct{}         // closed to end it
	stamped chan struct{}         // closed once it is noted when ctx has ended
	stopped time.Time             // and when that was, on the local clock; read once stamped is closed
	unhook  func() bool           // keeps the end of ctx from closing sb
	hooked  chan struct{}         // closed once the end of ctx has closed sb
	alive   atomic.Pointer[error] // why sb could not be closed, the first time; nil = it could, or was not yet
	saying  chan struct{}         // holds a token while the gate is told something

	safe atomic.Pointer[time.Time] // until when, on the local monotonic clock, something new may be started

	// Of the opening until work begins, of the heartbeat until it has ended, of
	// Close from then on, and of the Keeper where that could not settle.
	lease    Lease
	until    time.Time // of lease, on the local clock
	bill     bill
	measured time.Time // when the machine's disk was, or was to be, on the store's clock
	entry    entry
	vouched  time.Time // when it was last heard that it may go on, on the local clock
	tried    time.Time // when the Keeper last tried to settle; guarded by runner.late

	closing sync.Once
	closed  chan struct{}
	report  Report
	err     error
}

// Report says what a work came to.
type Report struct {
	Work         string
	Session      ID
	Conversation ConversationID
	Began, Ended time.Time
	// Used is the time accounted for.
	Used time.Duration
	// Free: nothing was charged for it.
	Free bool
	// Unheld: the payer's account could not be asked when it was opened, and the host's gate lets work start then.
	Unheld bool
	// Replaced is the generation of the lost machine that this work did without; 0 = none.
	Replaced int64
	// Mounts is what became of the durable folders: the agent's, and the session's own.
	Mounts []mount.Outcome
	// Cause is why the work had to stop before it was closed; nil if it had not.
	Cause error
}

// storeClock tells the store's time from the local monotonic clock, from a
// time the two were seen together.
type storeClock struct {
	store, local time.Time
}

func (c storeClock) now() time.Time { return c.at(time.Now()) }

// at is the store's time at a local one.
func (c storeClock) at(local time.Time) time.Time { return c.store.Add(local.Sub(c.local)) }

// because says why the work had to stop, where that is what an error came of.
func (w *Work) because(err error) error {
	cause := context.Cause(w.ctx)
	_, ours := errors.AsType[*access.Sentinel](cause)
	switch {
	case ours: // what came of it is for the log: the caller's answer is the cause
		return fmt.Errorf("%w: session %s: %v", cause, w.session, err)
	case cause == nil || errors.Is(err, cause):
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// held notes a lease that was asked for at that local time.
func (w *Work) held(asked time.Time) {
	w.until = asked.Add(w.runner.lease)
	safe := w.until.Add(-2 * w.runner.grace())
	w.safe.Store(&safe)
	// Time is read off the answer as of when it came: what has not passed for
	// certain is not charged. Of two readings the later one knows better.
	c := storeClock{store: w.lease.Until.Add(-w.runner.lease), local: time.Now()}
	if w.clock.local.IsZero() || c.now().After(w.clock.now()) {
		w.clock = c
	}
}

// starts notes that work has begun: time is accounted for from then on,
// however much later the heartbeat comes to it.
func (w *Work) starts() { w.bill.begins(w.since, w.clock.at(w.since)) }

// ID is the work's own id, as it shows in leases and holds.
func (w *Work) ID() string { return w.id }

// Session is the session worked in.
func (w *Work) Session() ID { return w.session }

// Conversation is the conversation worked for; empty where there is none.
func (w *Work) Conversation() ConversationID { return w.conversation }

// Context ends when the work must stop: with the context it was opened with,
// or with one of the causes ErrEnded, ErrEnvironmentGone, ErrOutOfCredit, ErrRevoked, ErrFenced, ErrDraining,
// mount.ErrTakenOver, sandbox.ErrGone and ErrClosed (see [context.Cause]). Whatever runs in the sandbox through
// this work is stopped then, and no time is charged from then on.
func (w *Work) Context() context.Context { return w.ctx }

// Sandbox is the session's sandbox, for as long as the work lasts: afterwards
// everything had through it returns sandbox.ErrClosed. What was started through it can still be asked how it ended, and what
// ends with the work what it wrote until then. Processes started
// through it see the variables of this work, such as where the agent's folder is.
// What is listed are the processes of all that works in the session, of whichever conversation or shell: a
// terminal that is Detached can be left, and taken up again through another work.
// Where the working directory is durable none can be Detached (sandbox.ErrUnsupported): it would write
// there still when that is another's.
func (w *Work) Sandbox() sandbox.Sandbox { return workSandbox{Sandbox: w.sb, work: w} }

// Mounts is what became of each durable folder: the agent's, if it has one,
// and then the session's own, where its working directory is one.
func (w *Work) Mounts() []mount.Outcome {
	all := slices.Clone(w.carried.Outcomes)
	if w.workdir.Outcome.State != 0 {
		all = append(all, w.workdir.Outcome)
	}
	return all
}

// Guidance is a paragraph for the agent's instructions: where its folder is,
// or that it can't be reached now, and whether the working directory lasts. Empty where there is nothing to say.
func (w *Work) Guidance() string {
	return strings.TrimSpace(w.carried.Guidance + " " + w.workdir.Guidance)
}

// halt stops the work and its heartbeat, and waits for the latter.
func (w *Work) halt(cause error) {
	close(w.quit) // first, so that it is not the heartbeat that settles
	w.stop(cause)
	<-w.beating
}

// Close ends the work: what it started in the sandbox is stopped, its folders
// unbound, the time it took accounted for, its slot freed. It does so whether
// or not ctx has ended, in at most half a minute. Called again, it returns the same.
//
// An error means that something of this failed; everything else was done all
// the same. Where what it started could not be stopped, it is charged no more and keeps its slot, and a durable working directory with its lock: a [Keeper], of whichever
// process, gives that back once its lease has run out and nothing runs of it for certain. Where it is the accounting, the work keeps its slot, and the [Keeper] of this
// process goes on trying: up to the moment at which the work stopped it is charged, and then its slot is freed.
// Should the process die before that, or have no Keeper that serves, the Keeper of another
// closes the account as of any work whose process has died: up to its last heartbeat, and for one interval.
func (w *Work) Close(ctx context.Context) (Report, error) {
	w.closing.Do(func() {
		ctx, cancel := detached(ctx)
		defer cancel()
		r, cause := w.runner, context.Cause(w.ctx)
		w.unhooked()
		w.halt(ErrClosed)
		if !w.bill.begun() { // closed before the heartbeat heard that work begins
			w.starts()
		}
		err := w.carried.Release(ctx)
		closed := w.shut()
		if err != nil { // with the handle closed nothing is bound any more: what is left is the host's side
			err = w.carried.Release(ctx)
		}
		err = errors.Join(err, closed)

		settled := w.finishTwice(ctx)
		if settled != nil {
			err = errors.Join(err, fmt.Errorf("session: work %s: settling: %w", w.id, settled))
		}
		err = errors.Join(err, w.vacate(ctx, closed)) // after the money, which no storage that hangs may hold up
		w.report = Report{
			Work: w.id, Session: w.session, Conversation: w.conversation,
			Began: w.began, Ended: r.now(), Used: w.bill.took(), Free: w.free, Unheld: w.unheld,
			Replaced: w.replaced, Mounts: w.Mounts(), Cause: cause,
		}
		switch alive := w.alive.Load() != nil; {
		case alive: // the Keeper gives it back once nothing runs for certain
			r.doubts.add(w.id, w.until) // which may have been renewed since
		case settled == nil: // else the Keeper settles, and gives it back
			err = errors.Join(err, r.giveBack(ctx, w.lease))
		}
		w.err = err
		w.measure(ctx)
		r.forget(w, settled == nil)
		if settled != nil {
			r.showLife(ctx)
		}
		close(w.closed)
	})
	<-w.closed
	return w.report, w.err
}

// unhooked keeps the end of ctx from closing sb, or waits until it has.
func (w *Work) unhooked() {
	if !w.unhook() {
		<-w.hooked
	}
}

// shut closes the handle on the machine, which stops what runs through it. Where
// that fails once, nothing that comes of another try proves that it has stopped:
// what is closed already is closed successfully.
func (w *Work) shut() error {
	err := w.sb.Close()
	if err != nil && w.alive.CompareAndSwap(nil, &err) {
		w.runner.doubts.add(w.id, time.Now())
	}
	if first := w.alive.Load(); first != nil {
		return *first
	}
	return nil
}

// knows notes what the store knows of when the machine's disk was measured.
func (w *Work) knows(row sandbox.Row) {
	if row.MeasuredIncarnation == w.sb.Ref().Incarnation && row.MeasuredAt.After(w.measured) {
		w.measured = row.MeasuredAt
	}
}

// measure has the disk looked at that is worked on, where storage is charged
// for and that was not done, or tried, lately. Nobody waits for it but [Runner.Drain].
func (w *Work) measure(ctx context.Context) {
	if _, metered := w.runner.gate.(billing.StorageMeter); !metered || w.clock.now().Sub(w.measured) < measureEvery {
		return
	}
	w.measured = w.clock.now()
	m, session, of := w.runner.machines, w.session, w.sb.Ref()
	m.measuring.Go(func() {
		ctx, cancel := detached(ctx)
		defer cancel()
		if err := m.measure(ctx, session, of); err != nil {
			m.log.WarnContext(ctx, "disk not measured", "session", session, "error", err)
		}
	})
}

// Payer is the account that the work's time is accounted to.
func (w *Work) Payer() access.UserID { return w.payer }
