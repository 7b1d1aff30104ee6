package session

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/sandbox"
)

// WorkdirError says that a session whose working directory is durable can't be
// worked in where its machine is, or would be: there its files could not be at
// the path where everybody looks for them. Nothing was woken.
type WorkdirError struct {
	Session ID
	// Provider is that of the machine, which can't bind at the working
	// directory. Empty: this process has no folders for working directories (Config.Mounts).
	Provider string
}

func (e *WorkdirError) Error() string {
	if e.Provider == "" {
		return fmt.Sprintf("session: %s: this process has no durable working directories", e.Session)
	}
	return fmt.Sprintf("session: %s: provider %q can't have a durable working directory", e.Session, e.Provider)
}

// Unwrap says that a retry changes nothing.
func (e *WorkdirError) Unwrap() error { return sandbox.ErrUnsupported }

// Problem is the same for every provider.
func (e *WorkdirError) Problem() (status int, code, sentence string) {
	return 501, "workdir_unsupported", "This kind of sandbox can't have a durable working directory."
}

// suits refuses a session with a durable working directory where its provider
// can't have one, before anybody pays or anything wakes.
func (o *opening) suits(context.Context) error {
	if !o.in.Session.DurableWorkdir {
		return nil
	}
	if o.runner.mounts == nil || !o.runner.mounts.Workdirs() {
		return &WorkdirError{Session: o.session}
	}
	name, err := o.runner.machines.whose(o.in.Snapshot, o.wanted())
	if err != nil {
		return err
	}
	if p, known := o.runner.machines.providers[name]; known && !p.Info().Caps.BindsWorkdir {
		return &WorkdirError{Session: o.session, Provider: name}
	}
	return nil
}

// whose is the provider of the machine that there is, or of the one that would
// be made now; empty where there is none, and none is to be made.
func (m *machines) whose(s Snapshot, w wanted) (string, error) {
	switch state := s.Sandbox.State; {
	case state == sandbox.Live, state == sandbox.Creating:
		return s.Sandbox.Provider, nil
	case !w.make:
		return "", nil
	}
	at, err := m.placed(s, w)
	return cmp.Or(at.Provider, m.first), err
}

// replaced reports whether the machine is another than the one that was there before, and was not given up.
func replaced(before, now sandbox.Row) bool {
	was := before.State == sandbox.Live || before.State == sandbox.Lost
	return was && now.Generation != before.Generation
}

// heed stops the work where the lock of its working directory is lost: soon
// another may write there. It is told early enough for what runs to be stopped before; and
// what serves the folder is, too, for nobody knows when the work is closed.
func (w *Work) heed() {
	select {
	case <-w.workdir.Lost():
	case <-w.ctx.Done():
		return
	}
	why := w.workdir.Err()
	if why == nil { // it was given up
		return
	}
	w.stop(why)
	ctx, cancel := detached(w.ctx)
	defer cancel()
	w.release(ctx, w.shut())
}

// release is vacate where nobody waits for it.
func (w *Work) release(ctx context.Context, closed error) {
	if err := w.vacate(ctx, closed); err != nil {
		w.runner.log.WarnContext(ctx, "working directory not given up", "work", w.id, "session", w.session, "error", err)
	}
}

// vacate gives the working directory up, once the handle on the machine was
// closed: before, something could still write to what is another's by then.
// Where that has failed it is given up, with its lock, once a Keeper knows for certain that nothing runs.
func (w *Work) vacate(ctx context.Context, closed error) error {
	if w.workdir.Outcome.State == 0 {
		return nil
	}
	if closed != nil && w.runner.doubts.after(w.id, func() {
		ctx, cancel := detached(ctx)
		defer cancel()
		w.release(ctx, nil)
	}) {
		return fmt.Errorf("session: work %s: working directory not given up, for something may run in it", w.id)
	}
	return w.workdir.Release(ctx)
}

// Freshen looks after the work's folders while it goes on for long, such as
// at the beginning of each turn: what others have written to them meanwhile shows from then on, and where the link
// to the agents' folders was replaced by something, it is made anew, and what stands there
// moves into the agent's folder. What fails is logged; the work goes on as it was.
func (w *Work) Freshen(ctx context.Context) {
	if w.ctx.Err() != nil {
		return
	}
	w.workdir.Freshen(ctx)
	w.carried.Freshen(ctx)
}
