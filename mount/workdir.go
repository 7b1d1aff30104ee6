package mount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// DefaultLockTimeout bounds the taking of an Exclusive folder's lock, where
// Config names no other bound. To take over from a holder that has died takes
// as long as a request to the storage may be under way, half a minute as a rule.
const DefaultLockTimeout = 2 * time.Minute

// Workdir is a session's own folder as the working directory of one sandbox.
type Workdir struct {
	// Outcome has the folder's row, the epoch under which it is held, and
	// whether late writes are kept out. Its State is Mounted; in a zero Workdir nothing was attempted.
	Outcome Outcome
	// Guidance tells the agent, in a sentence, that its working directory lasts as long as its session.
	Guidance string

	carriage *carriage
	hold     Hold
}

// Lost is closed when the lock of the folder is lost, or given up. nil where nothing is held.
func (d Workdir) Lost() <-chan struct{} {
	if d.hold == nil {
		return nil
	}
	return d.hold.Done()
}

// Err says why the lock was lost: it matches ErrTakenOver. It is nil before
// Lost is closed, and where the lock was given up in good order.
func (d Workdir) Err() error {
	if d.hold == nil || !over(d.hold) || d.hold.Err() == nil {
		return nil
	}
	err := fmt.Errorf("mount %s: %w", d.Outcome.Row.ID, d.hold.Err())
	if !errors.Is(err, ErrTakenOver) {
		err = fmt.Errorf("%w: %w", ErrTakenOver, err)
	}
	return err
}

// Health says how the folder is now on the host, as [Carried.Health] does.
func (d Workdir) Health(ctx context.Context) (h Health, ok bool) {
	if d.carriage == nil {
		return Health{}, false
	}
	r, ok := d.carriage.served.(Reporter)
	if !ok {
		return Health{}, false
	}
	return r.Health(ctx), true
}

// Freshen has what serves the folder forget what it has cached of it, as
// [Carried.Freshen] does.
func (d Workdir) Freshen(ctx context.Context) {
	if d.carriage != nil {
		d.carriage.refresh(ctx)
	}
}

// Release undoes it, whether or not ctx has ended: unbinds the folder, gives its
// directory up, and only then the lock. It is called once nothing that was started in the
// sandbox runs any more, which is after the sandbox's handle was closed: what
// still runs would write to a folder that is another's by then. Where it fails, what could not be undone stays held, the lock
// too, and it is tried again behind the caller's back: what serves the folder may need long to write out. Releasing twice succeeds.
func (d Workdir) Release(ctx context.Context) error {
	if d.carriage == nil {
		return nil
	}
	return d.carriage.release(ctx)
}

// Workdirs reports whether sessions can have folders of their own as working
// directories, as far as it is up to the manager: it has a Locker, and a Mounter.
func (m *Manager) Workdirs() bool { return m.locker != nil && m.mounter != nil }

// CarryWorkdir makes the folder of r.Session the working directory of sb: it
// gets or makes the row, takes the folder's lock, has the directory made
// available on this host, and binds it at the working directory. What the
// machine has there is hidden as long. Comes before everything else that is carried, started or
// written: what is written before is hidden, and what is started before works elsewhere.
//
// The folder is Exclusive. All that carry it in this process share one lock,
// one directory and what serves that: the last one to release them gives them up. While another process
// holds it the error is an [*InUseError] that says who.
//
// It takes at most Config.LockTimeout to have the lock, and then Config.Timeout to have the folder.
// Whatever the Policy, a folder that is not there for another reason is a [*MountError]: nobody may
// work unawares in an empty directory in its place. A [*access.FieldError]
// names a bad field of r. After an error there is nothing to release.
func (m *Manager) CarryWorkdir(ctx context.Context, sb sandbox.Sandbox, r Request) (Workdir, error) {
	if err := access.CheckID("session", r.Session); err != nil {
		return Workdir{}, err
	}
	folder := Folder{Project: r.Project, Owner: r.Owner, Session: r.Session}
	if _, err := folder.row(); err != nil {
		return Workdir{}, err
	}
	c := &carriage{Manager: m, sb: sb, request: r, held: newUndo(), outcome: Outcome{Path: sb.Workdir(), Mode: Exclusive}}
	defer c.abandon(ctx)
	hold, err := c.bringWorkdir(ctx, folder)
	if err == nil {
		c.refresh(ctx)
		c.kept = true
		c.outcome.State = Mounted
		return Workdir{Outcome: c.outcome, Guidance: lasting(c.outcome.Path), carriage: c, hold: hold}, nil
	}
	c.outcome.State, c.outcome.Cause = Failed, err
	if errors.Is(err, sandbox.ErrUnsupported) {
		c.outcome.State = Skipped
	}
	c.log.WarnContext(ctx, "mount degraded", "kind", "session_cwd", "session", r.Session, "mount", c.outcome.Row.ID,
		"path", c.outcome.Path, "state", c.outcome.State.String(), "cause", err)
	if used, ok := errors.AsType[*InUseError](err); ok && used.Mount == c.outcome.Row.ID {
		return Workdir{}, fmt.Errorf("mount: working directory of session %s: %w", r.Session, err)
	}
	return Workdir{}, &MountError{Outcome: c.outcome}
}

// bringWorkdir does what must succeed for the folder to be the working directory.
func (c *carriage) bringWorkdir(ctx context.Context, f Folder) (Hold, error) {
	binder := c.binder()
	switch {
	case c.locker == nil:
		return nil, fmt.Errorf("%w: there is no Locker", sandbox.ErrUnsupported)
	case binder == nil:
		return nil, fmt.Errorf("%w: nothing can be bound into this sandbox", sandbox.ErrUnsupported)
	}
	row, err := c.row(ctx, f)
	if err != nil {
		return nil, err
	}
	c.outcome.Row = row
	locking, cancel := within(ctx, c.lockTimeout, "lock not had")
	defer cancel()
	hold, err := c.occupy(locking)
	if err != nil {
		return nil, err
	}
	c.outcome.Epoch = hold.Epoch()
	bounded, cancel := within(ctx, c.timeout(), "not there")
	defer cancel()
	err = c.bind(bounded, binder, Spec{Row: row, Run: c.request.Run, Hold: hold})
	if errors.Is(err, sandbox.ErrInvalid) { // the path is as it should be
		err = fmt.Errorf("%w: nothing can be bound at the working directory of this sandbox: %w", sandbox.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	c.outcome.Fenced = fenced(c.served)
	if over(hold) { // while it was being mounted
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, hold.Err())
	}
	return hold, nil
}

// within bounds a step, and says what was not done in time.
func within(ctx context.Context, limit time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: %s after %v: %w", ErrUnavailable, what, limit, context.DeadlineExceeded))
}
