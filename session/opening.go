package session

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/mount"
)

// opening is a work on its way from the hold to the moment it begins.
type opening struct {
	*Work
	in      admitted
	q       WorkRequest
	undone  undo
	asked   time.Time     // when the payer was, the last time
	class   billing.Class // and for a machine of which size
	holding bool          // there is a hold to release
}

// undo is what to do, last first, where a later step fails.
type undo []func(context.Context) error

func (u undo) run(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	var err error
	for i := len(u) - 1; i >= 0; i-- {
		err = errors.Join(err, u[i](ctx))
	}
	return err
}

// begin takes the steps from the hold to the moment work begins. A step that
// fails undoes those before it, in reverse; nothing is charged for any of
// them. So does one that panics, as the host's own code may: nothing may be
// held for a work that never was.
func (w *Work) begin(ctx context.Context, in admitted, q WorkRequest) error {
	o, r, begun := &opening{Work: w, in: in, q: q}, w.runner, false
	defer func() {
		if begun {
			return
		}
		if err := o.undone.run(ctx); err != nil {
			r.log.WarnContext(ctx, "opening work could not be undone whole", "work", w.id, "session", w.session, "error", err)
		}
	}()
	for _, step := range []func(context.Context) error{o.suits, o.hold, o.slot, o.live, o.machine, o.folders, o.start} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	begun = true
	select {
	case w.begins <- struct{}{}:
	case <-w.beating: // a Drain that waits no longer has closed it already
	}
	w.touch(ctx)
	return nil
}

// hold: whoever pays agrees before anything wakes.
func (o *opening) hold(ctx context.Context) error {
	if err := o.admit(ctx, o.id); err != nil {
		return err
	}
	o.undone = append(o.undone, func(ctx context.Context) error {
		if !o.holding {
			return nil
		}
		return o.runner.gate.Release(ctx, o.bill.ticket)
	})
	return nil
}

func (o *opening) admit(ctx context.Context, id string) (err error) {
	class, err := o.runner.machines.class(o.in.Snapshot, o.wanted())
	if err != nil {
		return err
	}
	o.asked, o.class = time.Now(), class
	intent := billing.Intent{
		ID: billing.HoldID(id), Work: o.id, Payer: o.in.payer, Plan: o.in.plan, Session: o.session, Project: o.in.Session.Project,
		Meter: billing.MeterRuntime, Class: class, TTL: 2 * o.runner.lease,
	}
	t, err := o.runner.gate.Admit(ctx, intent)
	if o.holding = err == nil; o.holding {
		o.bill.admitted(t, o.asked, intent.TTL)
		o.free, o.unheld, o.payer = t.Free, t.Unheld, o.in.payer
		return nil
	}
	if refused := (*billing.RefusedError)(nil); !errors.As(err, &refused) { // it may have been placed all the same
		ctx, cancel := detached(ctx)
		defer cancel()
		in := billing.Ticket{Intent: intent}
		if err := o.runner.gate.Release(ctx, in); err != nil {
			o.runner.log.WarnContext(ctx, "hold not given back; it expires", "work", o.Work.id, "session", o.session, "error", err)
		}
	}
	return err
}

// slot takes the work's lease, and with it the session's slot.
func (o *opening) slot(ctx context.Context) (err error) {
	asked := time.Now()
	o.lease, err = o.runner.leases.Acquire(ctx, Lease{
		Kind: LeaseWork, Name: string(o.session), Holder: o.id, Replica: o.runner.process,
		Payer: o.in.payer, Slots: o.in.limits.Slots, Sandbox: o.in.Sandbox.ID, Conversation: o.conversation, Turn: o.turn, For: o.runner.lease,
	})
	if err != nil {
		return err
	}
	o.Work.held(asked)
	o.undone = append(o.undone, func(ctx context.Context) error {
		if o.alive.Load() != nil {
			o.runner.doubts.add(o.Work.id, o.until)
			return nil
		}
		return o.runner.leases.Release(ctx, o.lease)
	})
	return nil
}

// live lets the lease live as long as the steps take, and lets whoever ends
// the session, or this process, stop them.
func (o *opening) live(ctx context.Context) error {
	o.begins, o.beating = make(chan struct{}), make(chan struct{})
	o.quit, o.closed = make(chan struct{}), make(chan struct{})
	o.ctx, o.stop = context.WithCancelCause(ctx)
	o.stamped = make(chan struct{})
	context.AfterFunc(o.ctx, func() {
		o.stopped = time.Now()
		close(o.stamped)
	})
	go o.beat()
	o.undone = append(o.undone, func(context.Context) error { o.halt(ErrClosed); return nil })
	if err := o.runner.register(o.Work); err != nil {
		return err
	}
	o.undone = append(o.undone, func(context.Context) error { o.runner.forget(o.Work, true); return nil })
	return nil
}

// machine gets a handle on the session's machine, reopening the session first where that was asked for.
func (o *opening) machine(context.Context) (err error) {
	if o.in.Session.Ended() {
		if o.in.Snapshot, err = o.runner.reopen(o.ctx, o.in); err != nil {
			return o.because(err)
		}
	}
	before := o.in.Sandbox
	sb, as, err := o.runner.machines.open(o.ctx, o.in.Snapshot, o.wanted())
	if err != nil {
		return o.because(err)
	}
	o.sb, o.in.Sandbox = sb, as.Sandbox
	o.knows(as.Sandbox)
	o.undone = append(o.undone, func(ctx context.Context) error {
		closed := o.shut()
		return errors.Join(closed, o.vacate(ctx, closed))
	})
	if o.in.Session.DurableWorkdir && replaced(before, as.Sandbox) {
		o.replaced = before.Generation
	}
	return nil
}

func (o *opening) wanted() wanted {
	return wanted{make: o.q.Ensure, acceptLoss: o.q.AcceptLoss, payer: o.in.payer, plan: o.in.plan, limits: o.in.limits}
}

// folders carries the session's own folder, if it has one, and the agent's into the sandbox.
func (o *opening) folders(context.Context) (err error) {
	if o.runner.mounts == nil {
		return nil
	}
	q := mount.Request{
		Session: o.session, Run: o.id, Holder: o.runner.replica, Project: o.in.Session.Project, Owner: o.in.Session.Owner,
		Agent: o.in.Conversation.Agent, AgentName: o.q.AgentName,
	}
	if o.in.Session.DurableWorkdir { // first: what is put where it belongs before would be hidden by it
		if o.workdir, err = o.runner.mounts.CarryWorkdir(o.ctx, o.sb, q); err != nil {
			return o.because(err)
		}
		go o.heed()
	}
	if o.carried, err = o.runner.mounts.Carry(o.ctx, o.sb, q); err != nil {
		return o.because(err)
	}
	o.undone = append(o.undone, o.carried.Release)
	return nil
}

// start lets work begin: from here on time is accounted for, whatever the
// outcome. Where the steps took longer than the hold lasts, or the machine is
// not of the size that was asked for, who pays is asked again first.
func (o *opening) start(ctx context.Context) error {
	r := o.runner
	o.hooked = make(chan struct{})
	o.unhook = context.AfterFunc(o.ctx, func() { // what runs is stopped with the work
		defer close(o.hooked)
		_ = o.shut() // which Close tells of
	})
	o.undone = append(o.undone, func(context.Context) error { o.unhooked(); return nil })
	late := !o.bill.until.IsZero() && time.Since(o.asked) >= r.lease
	if other := billing.Class(o.in.Sandbox.Spec.Class) != o.class; !o.free && (late || other) {
		if err := r.gate.Release(ctx, o.bill.ticket); err != nil {
			r.log.WarnContext(ctx, "hold not given back; it expires", "work", o.Work.id, "session", o.session, "error", err)
		}
		if err := o.admit(o.ctx, r.newID()); err != nil { // who ends the session, or drains, is not held up by a gate
			return o.because(err)
		}
	}
	if err := o.current(o.ctx); err != nil {
		return o.because(err)
	}
	o.began = r.now()
	return r.begin(o.Work)
}
