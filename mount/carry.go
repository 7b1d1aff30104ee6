package mount

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Request says for whom folders are to be carried into a sandbox. Access has been decided before.
type Request struct {
	Session   access.SessionID // whose working directory it is; else for logs
	Run       string           // the work it is for; goes into the log of the storage
	Holder    string           // who holds a folder that one at a time may write to, for others to see; may be empty
	Project   access.ProjectID // of the session; empty = personal
	Owner     access.UserID    // of the session
	Agent     access.AgentID   // who works; empty = the assistant, who has no folder
	AgentName string           // makes the folder's path readable; may be empty
}

// Carried is what came of [Manager.Carry].
type Carried struct {
	// Outcomes has one entry for each mount that was attempted. Without an
	// agent there is none.
	Outcomes []Outcome
	// Env are variables, "NAME=value", for the processes of this work only:
	// another agent in the same sandbox has others.
	Env []string
	// Guidance tells the agent, in a paragraph, where its folder is or that it
	// can't be reached now. Empty where nothing was attempted.
	Guidance string

	undoing  *carriage // nil = nothing was attempted
	reporter Reporter  // nil = the mounter can't tell
	carriage *carriage // nil = there is no folder
}

// Health says how the folder is now on the host; ok is false where there is none,
// or its mounter can't tell. Work that is to outlast Expires loses the folder on the way.
func (c Carried) Health(ctx context.Context) (h Health, ok bool) {
	if c.reporter == nil {
		return Health{}, false
	}
	return c.reporter.Health(ctx), true
}

// Freshen does again what Carry has done for a folder that was there already:
// what serves it forgets what it has cached, so that what others have written shows,
// and the link to it is made anew where it is not as it should be; what stands in its
// place, because somebody wrote there meanwhile, moves into the folder. It is for
// work that goes on for long, at the beginning of each turn. What fails is logged. It takes no more than the
// 10 and 30 seconds after which each of the two is given up.
func (c Carried) Freshen(ctx context.Context) {
	if c.carriage == nil {
		return
	}
	c.carriage.refresh(ctx)
	ctx, cancel := context.WithTimeout(ctx, furnishTimeout)
	defer cancel()
	c.carriage.relink(ctx)
}

// Release undoes the carrying, whether or not ctx has ended, and waits 10 s for
// it. Nothing in a folder is deleted. What serves the folder may need longer to write out: then
// the error says so, and what could not be undone stays held and is tried again behind the caller's back
// until it is. Who wants to know calls it again, at the latest once the sandbox's handle is closed, which undoes
// binds by itself. Releasing twice succeeds.
func (c Carried) Release(ctx context.Context) error {
	if c.undoing == nil {
		return nil
	}
	return c.undoing.release(ctx)
}

// Carry brings the folder of r.Agent into sb: it gets or makes the row, has
// the directory made available on this host, binds it below sandbox.BindRoot
// (or where nothing can be bound, has it mounted there by Config.Inside),
// links agent-files to that root in the working directory, and leaves a README
// where there is none. What stands in the link's place, because somebody wrote
// there while there was no link, moves into the agent's folder. Where the
// folder is served from a cache, that forgets what others may have written over.
//
// It takes at most Config.Timeout to have the folder, and for what makes it
// fresh and easy to find no more than the 10 and 30 seconds after which that is given up. The caller releases
// what it got once the work is over, before sb is closed.
//
// Several agents may work in sb at once: each folder has a path of its own,
// which ends in digits of the mount's id.
//
// A [*access.FieldError] names a bad field of r. With Required a folder that
// is not there is a [*MountError]; with BestEffort it is an outcome and no
// error. After an error there is nothing to release.
func (m *Manager) Carry(ctx context.Context, sb sandbox.Sandbox, r Request) (Carried, error) {
	if r.Agent == "" {
		return Carried{}, nil
	}
	folder := Folder{Project: r.Project, Owner: r.Owner, Agent: r.Agent}
	if _, err := folder.row(); err != nil {
		return Carried{}, err
	}
	c := &carriage{Manager: m, sb: sb, request: r, held: newUndo()}
	defer c.abandon(ctx)

	bounded, cancel := within(ctx, c.timeout(), "not there")
	defer cancel()
	err := c.bring(bounded, folder)
	if err == nil {
		c.refresh(ctx)
		c.furnish(ctx)
	}
	return c.report(ctx, err)
}

// carriage is one mount on its way into one sandbox.
type carriage struct {
	*Manager
	sb      sandbox.Sandbox
	request Request
	outcome Outcome // Row and Path as soon as they are known
	place   place
	served  any // what it is served by, a Mount or an Inside, as soon as there is one
	held    *undo
	binding bool // Bind has been called
	kept    bool // the folder is there, and held is the caller's to undo
	lingers sync.Once
}

// bring does what must succeed for the folder to be there.
func (c *carriage) bring(ctx context.Context, f Folder) error {
	row, err := c.row(ctx, f)
	if err != nil {
		return err
	}
	c.outcome.Row = row
	digits, ok := hexDigits(row.ID)
	if !ok {
		return fmt.Errorf("mount: stored id %q is not a canonical UUID", row.ID)
	}
	stem := sandbox.BindRoot(c.sb) + "/" + label(c.request.AgentName, row.Agent)
	c.place = c.settle(c.sb.Ref(), stem, row.ID, digits)
	c.outcome.Path = c.place.target
	c.held.push("leave the path", c.depart)

	switch binder := c.binder(); {
	case binder != nil:
		return c.bind(ctx, binder, Spec{Row: row, Run: c.request.Run})
	case c.inside != nil:
		return c.mountInside(ctx, Spec{Row: row, Run: c.request.Run})
	}
	return fmt.Errorf("%w: nothing can be bound into this sandbox", sandbox.ErrUnsupported)
}

// binder is how a directory of this host comes into the sandbox; nil where it can't.
func (c *carriage) binder() sandbox.Binder {
	if b, ok := sandbox.As[sandbox.Binder](c.sb); ok && c.mounter != nil {
		return b
	}
	return nil
}

func (c *carriage) timeout() time.Duration {
	switch {
	case c.Manager.timeout > 0:
		return c.Manager.timeout
	case c.binder() == nil && c.inside != nil:
		return DefaultInsideTimeout
	}
	return DefaultTimeout
}

// mountInside has the folder mounted by something that runs in the sandbox,
// which has listed it there: what the sandbox's FS shows may be less.
func (c *carriage) mountInside(ctx context.Context, s Spec) error {
	mounted, err := await(ctx, c, func() (Inside, error) { return c.inside.MountInside(ctx, c.sb, s, c.outcome.Path) })
	if err != nil {
		return err
	}
	c.served = mounted
	c.held.push("unmount in the sandbox", func(ctx context.Context) error { return unbound(mounted.Release(ctx)) })
	return nil
}

// bind has the folder appear on this host, and then in the sandbox.
func (c *carriage) bind(ctx context.Context, binder sandbox.Binder, s Spec) error {
	mounted, err := await(ctx, c, func() (Mount, error) { return c.mounter.Mount(ctx, s) })
	if err != nil {
		return err
	}
	c.served = mounted
	c.held.push("release the directory", mounted.Release)
	c.binding = true
	unbind, err := binder.Bind(ctx, mounted.HostDir(), c.outcome.Path)
	if err != nil {
		return c.withHealth(ctx, err)
	}
	c.held.push("unbind", func(ctx context.Context) error { return unbound(unbind(ctx)) })
	return c.withHealth(ctx, c.alive(ctx))
}

func (c *carriage) row(ctx context.Context, f Folder) (Row, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	return c.folders.GetOrCreate(ctx, f, c.request.Owner)
}

// withHealth adds to an error what the folder's own host knows: what fails in
// the sandbox may have died outside.
func (c *carriage) withHealth(ctx context.Context, err error) error {
	r, ok := c.served.(Reporter)
	if err == nil || !ok || errors.Is(err, sandbox.ErrUnsupported) {
		return err
	}
	h := r.Health(ctx)
	if h.Liveness == Alive {
		return err
	}
	return fmt.Errorf("%w: the folder is %s on its host: %w", ErrUnavailable, h.Liveness, errors.Join(err, h.Err))
}

// releaser is what a mounter returns.
type releaser interface{ Release(context.Context) error }

// await calls a mounter and keeps to ctx even where the mounter does not, as
// one can that waits for a dead file system: what comes late is released.
func await[T releaser](ctx context.Context, c *carriage, mount func() (T, error)) (T, error) {
	type answer struct {
		mount    T
		err      error
		panicked any
	}
	answers := make(chan answer)
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			select {
			case answers <- a:
			case <-ctx.Done():
				if a.err != nil || any(a.mount) == nil {
					c.late(ctx, nil, a.panicked)
				} else {
					c.late(ctx, a.mount, a.panicked)
				}
			}
		}()
		a.mount, a.err = mount()
	}()
	select {
	case a := <-answers:
		if a.panicked != nil {
			panic(a.panicked)
		}
		if a.err == nil && any(a.mount) == nil {
			a.err = errors.New("mount: mounter returned neither a mount nor an error")
		}
		return a.mount, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// late disposes of an answer that nobody waits for any more.
func (c *carriage) late(ctx context.Context, mounted releaser, panicked any) {
	log := c.log.With("mount", c.outcome.Row.ID)
	if panicked != nil {
		log.ErrorContext(ctx, "mounter panicked", "panic", panicked)
	}
	if mounted == nil {
		return
	}
	release := func(ctx context.Context) error {
		ctx, cancel := detached(ctx)
		defer cancel()
		return mounted.Release(ctx)
	}
	if err := release(ctx); err != nil {
		log.ErrorContext(ctx, "mount that came too late not released", "cause", err)
		c.linger(context.WithoutCancel(ctx), release)
	}
}

// alive proves the folder by listing it: one that does not list is not there, whatever Bind said.
func (c *carriage) alive(ctx context.Context) error {
	for _, err := range c.sb.FS().ReadDir(ctx, c.outcome.Path) {
		return err
	}
	return nil
}

// unbound reads the error of an unbind: with the handle or the machine gone the bind is gone too.
func unbound(err error) error {
	for _, gone := range []error{sandbox.ErrClosed, sandbox.ErrGone, sandbox.ErrStale} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// report turns how the way ended into the answer of Carry.
func (c *carriage) report(ctx context.Context, err error) (Carried, error) {
	log := c.log.With("kind", "agent_mount", "session", c.request.Session, "agent", c.request.Agent,
		"mount", c.outcome.Row.ID, "path", c.outcome.Path)
	if err == nil {
		c.kept = true
		c.outcome.State = Mounted
		reporter, _ := c.served.(Reporter)
		return Carried{
			reporter: reporter,
			Outcomes: []Outcome{c.outcome},
			Env:      []string{EnvAgentDir + "=" + c.outcome.Path},
			Guidance: available(c.outcome.Path),
			undoing:  c,
			carriage: c,
		}, nil
	}
	c.outcome.State, c.outcome.Cause = Failed, err
	if errors.Is(err, sandbox.ErrUnsupported) {
		c.outcome.State = Skipped
	}
	log.WarnContext(ctx, "mount degraded", "state", c.outcome.State.String(), "cause", err)
	if c.policy == Required {
		return Carried{}, &MountError{Outcome: c.outcome}
	}
	return Carried{Outcomes: []Outcome{c.outcome}, Guidance: unavailable(c.outcome.Path), undoing: c}, nil
}

// abandon undoes what was done for a folder that is not there after all. It
// also runs where a driver panics.
func (c *carriage) abandon(ctx context.Context) {
	if c.kept {
		return
	}
	if err := c.release(ctx); err != nil {
		c.log.ErrorContext(ctx, "mount not undone", "mount", c.outcome.Row.ID, "path", c.outcome.Path, "cause", err)
	}
}

// depart leaves the path and, where the folder never was there, removes what
// the attempt may have left at it, unless the same mount is carried there for somebody else.
func (c *carriage) depart(ctx context.Context) error {
	if c.binding && !c.kept && c.alone(c.place) {
		if err := c.removeStub(ctx); err != nil {
			c.log.WarnContext(ctx, "stub of a failed mount not removed", "path", c.outcome.Path, "cause", err)
		}
	}
	c.leave(c.place)
	return nil
}
