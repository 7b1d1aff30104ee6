package session

import (
	"context"
	"errors"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/host"
	"github.com/bunkroom/bunkroom/sandbox"
)

// deleteWait bounds how long the deletion of an environment waits for a
// provider: one that hangs must not hang the request. (T-37)
const deleteWait = 5 * time.Second

// DeleteEnvironment deletes an environment: works in it end with
// ErrEnvironmentGone, its machine is destroyed, and the sessions that borrow
// it stay, with nothing to work in. It takes an owner or admin of the project
// who may run code there. Deleting what is deleted kills nothing again.
//
// As with [Runner.End] there is no error any more once the deletion is
// committed; a provider is waited for 5 seconds at most, and what is Pending then the Keeper sees to.
func (r *Runner) DeleteEnvironment(ctx context.Context, a access.Actor, id EnvironmentID) (EndReport, error) {
	if err := errors.Join(host.CheckActor(a), access.CheckID("environment", id)); err != nil {
		return EndReport{}, host.First(err)
	}
	first := true
	out, err := r.rows.change(ctx, Address{Environment: id}, func(s Snapshot) (Decision, error) {
		if first {
			f := r.rows.host.Ask(ctx, access.Question{Actor: a, Project: s.Environment.Project,
				Want: access.WantRole | access.WantCode | access.WantAgent})
			d := access.DeleteEnvironment(a, s.Environment.Project, f.Facts)
			if err := r.rows.host.Rule(ctx, a, f, d, "delete environment", string(id), noEnvironment(id)); err != nil {
				return Decision{}, err
			}
			first = false
		}
		return Decide(s, CommandDeleteEnvironment{Terms: r.machines.terms(s.Sandbox.Provider)})
	})
	if err != nil {
		return EndReport{}, subject(err, noEnvironment(id))
	}
	r.cancel(func(w *Work) bool { return w.environment == id }, ErrEnvironmentGone)
	return r.tornDown(ctx, out, deleteWait), nil
}

// tornDown carries a teardown on that out has committed, for no longer than wait.
func (r *Runner) tornDown(ctx context.Context, out decided, wait time.Duration) EndReport {
	rep := EndReport{Ended: out.committed, Pending: out.Sandbox.State == sandbox.Destroying}
	if !rep.Pending || out.Then == sandbox.EffectNone {
		return rep
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	var err error
	rep.Destroyed, rep.Pending, err = r.machines.prove(closing, out.Snapshot, out.Then, out.Kill)
	if err != nil { // the intent is committed: the Keeper finishes what could not be finished here
		r.log.WarnContext(ctx, "teardown not finished; the Keeper finishes it", "of", out.subject(), "error", err)
	}
	return rep
}
