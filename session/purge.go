package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// Purger deletes what another room keeps of what is purged, such as files,
// transcripts or layouts. See [Keeper.Purge] for when it is asked.
type Purger interface {
	// Purge deletes at most limit things that belong to t and returns how many
	// it has deleted; it is called again until that is 0: then nothing is left.
	// Without t.History it leaves alone what belongs to conversations. It may be
	// called for what is purged already, and from several processes at once.
	Purge(ctx context.Context, t PurgeTarget, limit int) (n int, err error)
}

// PurgeOptions are the options of a purge.
type PurgeOptions struct {
	// Progress is told how far the purge has come, after every batch, by the
	// goroutine that purges. nil: nobody is.
	Progress func(PurgeReport)
}

// PurgeReport says what a purge has come to. Two purges of the same at once may both count what one of them deleted.
type PurgeReport struct {
	Sessions      int // rows deleted
	Environments  int
	Conversations int
	// UnchargedStorage is of how many sandboxes nobody was found who pays for
	// what they held: it is charged to nobody.
	UnchargedStorage int
	// Purgers is what became of each of Config.Purgers, in that order.
	Purgers []PurgerReport
	// Done: nothing was left of the target when it was last looked for, and no purger failed.
	Done bool
}

// PurgerReport says what became of one purger.
type PurgerReport struct {
	Deleted int
	// Err is why it could not go on; nil = it has not failed.
	Err error
}

// purgeBatch is how much is deleted at once.
const purgeBatch = 100

// purging is what a purge needs beside the rows: the other rooms, and a way to end works of this process.
type purging struct {
	purgers []Purger
	stop    func(which func(*Work) bool, cause error)
}

// Purge deletes the rows of a session, a project or a user, a batch at a time,
// for good. Nobody is asked whether it may: that is the host's to decide.
//
// A machine that there may be is in the outbox once its row is deleted, and
// [Keeper.Reclaim] sees it to its end. Works in what is purged end with
// ErrEnded: those of this process at once, others with their next heartbeat.
// Conversations stay, bound to no session, unless t.History asks for them.
//
// The order: sessions, environments (which can't be deleted while a session
// borrows them), the purgers of other rooms, conversations. So nothing is
// added any more to what a purger deletes, and it can still look up which
// conversations are concerned. Only the row of a session tells which conversations are its
// own, so that of one session with t.History the purgers come first; it is ended before that,
// and where somebody has reopened it since, all of that is done again before it is deleted.
// A purger that fails stops no other; what comes after the purgers is then left for the next purge.
//
// Purge may be broken off at any step, by a crash too, and be called again: it goes
// on with what is left. What is spawned meanwhile is found by a later batch, and
// what is spawned after the last one is not: the host first has its
// directory say that the project or user is gone, and then purges.
//
// *access.FieldError: t is none. ErrStale: others were faster, again and
// again. Otherwise the error is the store's, the purgers' or ctx's own.
func (k *Keeper) Purge(ctx context.Context, t PurgeTarget, o PurgeOptions) (PurgeReport, error) {
	if err := t.check(); err != nil {
		return PurgeReport{}, err
	}
	p := &purge{Keeper: k, target: t, options: o}
	p.rep.Purgers = make([]PurgerReport, len(k.purging.purgers))

	first := t
	first.History = false
	steps := []func(context.Context) error{
		func(ctx context.Context) error { return p.rows(ctx, first) },
		p.others,
		func(ctx context.Context) error { return p.rows(ctx, t) },
	}
	if t.Session != "" && t.History {
		steps = []func(context.Context) error{p.whole}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return p.report(), err
		}
	}
	p.rep.Done = true
	return p.report(), nil
}

// check refuses a target that is none, or more than one.
func (t PurgeTarget) check() error {
	set := 0
	for _, id := range []struct{ field, value string }{
		{"Session", string(t.Session)}, {"Project", string(t.Project)}, {"User", string(t.User)},
	} {
		if id.value == "" {
			continue
		}
		if err := access.CheckID(id.field, id.value); err != nil {
			return err
		}
		set++
	}
	if set == 1 {
		return nil
	}
	return &access.FieldError{Field: "Session", Rule: "must be set, or Project, or User, and only one of them"}
}

// purge is one purge under way.
type purge struct {
	*Keeper
	target  PurgeTarget
	options PurgeOptions
	rep     PurgeReport
}

// report is a copy for the caller to keep.
func (p *purge) report() PurgeReport {
	rep := p.rep
	rep.Purgers = append([]PurgerReport(nil), rep.Purgers...)
	return rep
}

func (p *purge) progress() {
	if p.options.Progress != nil {
		p.options.Progress(p.report())
	}
}

// whole purges one session with its history: only as it was when it was ended,
// for as long as it is that nothing is added to what the purgers delete.
func (p *purge) whole(ctx context.Context) error {
	for try := 1; ; try++ {
		ended, err := p.end(ctx)
		if err == nil {
			err = p.others(ctx)
		}
		if err != nil {
			return err
		}
		if err = p.rows(ctx, p.target, ended...); !errors.Is(err, ErrStale) || try == maxTries {
			return err
		}
	}
}

// end ends the session, so that no work can begin that adds to what the purgers
// delete. It returns what the session is as then; of one that is not there nothing.
func (p *purge) end(ctx context.Context) ([]Guard, error) {
	out, err := p.machines.rows.change(ctx, Address{Session: p.target.Session}, func(s Snapshot) (Decision, error) {
		return Decide(s, CommandEnd{Terms: p.machines.terms(s.Sandbox.Provider)})
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("session: purge: ending session %s: %w", p.target.Session, err)
	}
	p.purging.stop(func(w *Work) bool { return w.session == p.target.Session }, ErrEnded)
	if err != nil {
		return nil, nil
	}
	return []Guard{{Session: p.target.Session, Version: out.Session.Version}}, nil
}

// rows deletes all rows of t, until none is found. That somebody else was
// faster, such as by borrowing an environment, is looked at anew, a bounded number of times in a row.
// With something to expect it is ErrStale as soon as that is not so any more.
func (p *purge) rows(ctx context.Context, t PurgeTarget, expect ...Guard) error {
	store, stale := p.machines.rows.store, 0
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		batch, err := store.Owned(ctx, t, purgeBatch)
		if err != nil {
			return fmt.Errorf("session: purge: %w", err)
		}
		if len(batch) == 0 {
			return nil
		}
		lost, err := p.chargeLast(ctx, batch)
		if err != nil {
			return fmt.Errorf("session: purge: %w", err)
		}
		switch _, err := store.Commit(ctx, Change{Delete: batch, Expect: expect}); {
		case err == nil:
			stale = 0
			p.rep.UnchargedStorage += lost
			p.deleted(batch)
			p.progress()
		case errors.Is(err, ErrStale) && len(expect) > 0:
			return fmt.Errorf("session: purge: %w", err)
		case retry(err) && stale+1 < maxTries:
			stale++
			p.ended(batch) // those of a commit whose reply was lost; the others' sessions are about to go
		default:
			return fmt.Errorf("session: purge: after %d attempts: %w", stale+1, err)
		}
	}
}

func (p *purge) deleted(batch []Address) {
	for _, a := range batch {
		switch {
		case a.Session != "":
			p.rep.Sessions++
		case a.Environment != "":
			p.rep.Environments++
		default:
			p.rep.Conversations++
		}
	}
	p.ended(batch)
}

// ended ends the works of this process in the sessions of a batch.
func (p *purge) ended(batch []Address) {
	gone := map[ID]bool{}
	for _, a := range batch {
		if a.Session != "" {
			gone[a.Session] = true
		}
	}
	p.purging.stop(func(w *Work) bool { return gone[w.session] }, ErrEnded)
}

// others lets the other rooms delete what is theirs, one after the other.
func (p *purge) others(ctx context.Context) error {
	var fault error
	for i, room := range p.purging.purgers {
		did := &p.rep.Purgers[i]
		for more := true; more && did.Err == nil; {
			if ctx.Err() != nil {
				return errors.Join(fault, context.Cause(ctx))
			}
			var n int
			n, did.Err = room.Purge(ctx, p.target, purgeBatch)
			did.Deleted += n
			if more = n > 0; more {
				p.progress()
			}
		}
		if did.Err != nil {
			fault = errors.Join(fault, fmt.Errorf("session: purge: purger %d (%T): %w", i, room, did.Err))
		}
	}
	return fault
}
