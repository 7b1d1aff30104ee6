package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	// presence is how long it shows that a process serves a host unless that is said again.
	presence      = time.Minute
	presenceEvery = presence / 3
	// presenceLook is how often a process looks whether it is draining, and should be found no more.
	presenceLook = presenceEvery / 10
)

// present lets other processes find this one as the one that serves host, for
// as long as ctx lasts and the process is not draining. Where another process
// of the same host is found, that is just as good.
func (k *Keeper) present(ctx context.Context, host string) {
	want := Lease{Kind: LeaseHost, Name: host, Holder: k.replica, Replica: k.replica, For: presence}
	var held Lease
	leave := func() {
		if held.Fence == 0 {
			return
		}
		closing, cancel := detached(ctx)
		defer cancel()
		if err := k.leases.Release(closing, held); err != nil {
			k.log.WarnContext(ctx, "presence on a host not given up; it runs out", "host", host, "error", err)
		}
		held = Lease{}
	}
	defer leave()
	var next time.Time
	for {
		if k.draining() {
			leave()
		} else if now := time.Now(); !now.Before(next) {
			next = now.Add(presenceEvery)
			l, err := k.leases.Acquire(ctx, want)
			switch {
			case err == nil:
				held = l
			case errors.As(err, new(*HeldError)):
				held = Lease{}
			case ctx.Err() == nil:
				k.log.WarnContext(ctx, "presence on a host not told", "host", host, "error", err)
			}
		}
		if !sleep(ctx, presenceLook) {
			return
		}
	}
}

// isDraining reports whether no work may begin in this process any more.
func (r *Runner) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// HostGoneReport says what became of what was bound to a host.
type HostGoneReport struct {
	Lost      int // live machines, lost with their files; whoever works next is told
	GivenUp   int // attempts to have a machine, given up
	Destroyed int // machines that were to be destroyed, and are
	Proven    int // entries of the outbox, removed
	Failed    int // what could not be written; another call tries again
}

func (r HostGoneReport) total() int { return r.Lost + r.GivenUp + r.Destroyed + r.Proven }

// hostGoneCap is how many items of each kind are read at a time.
const hostGoneCap = 200

// HostGone takes an operator's word that host will never come back, and that
// no machine on it runs any more: the only proof there can be of what is bound
// to a host. Live machines there are lost with their files, so that whoever
// works next is told with a *sandbox.LostError and may have a new one made elsewhere;
// what was being made is given up, and what was to be destroyed is.
//
// Nothing is asked of any provider. It works in small commits; where it fails
// or the process dies in the midst, calling it again finishes. Should the host come back
// all the same, a sweep there finds what runs.
//
// *HeldError: a process serves the host right now. *access.FieldError: host is
// empty, or one of this process's own. Any other error tells what made it
// incomplete.
func (k *Keeper) HostGone(ctx context.Context, host string) (HostGoneReport, error) {
	var rep HostGoneReport
	if err := access.CheckID("host", host); err != nil {
		return rep, err
	}
	if slices.Contains(k.hosts(), host) {
		return rep, &access.FieldError{Field: "host", Rule: "must not be a host of this process"}
	}
	for _, kind := range []DueKind{DueCreating, DueDestroying, DueLive, DueTombstones} {
		for {
			n, err := k.hostGone(ctx, host, kind, &rep)
			if err != nil {
				return rep, err
			}
			if n < hostGoneCap {
				break
			}
		}
	}
	if rep.total() > 0 {
		k.log.WarnContext(ctx, "host given up", "host", host,
			"lost", rep.Lost, "given up", rep.GivenUp, "destroyed", rep.Destroyed, "proven", rep.Proven)
	}
	return rep, nil
}

// hostGone sees to a batch of one kind, and returns how many items that had.
// The error says that one of them is left: there is no use in reading it again and again.
func (k *Keeper) hostGone(ctx context.Context, host string, kind DueKind, rep *HostGoneReport) (n int, fault error) {
	l, err := k.leases.Held(ctx, LeaseHost, host)
	switch {
	case err == nil:
		return 0, &HeldError{Kind: l.Kind, Name: l.Name, Holder: l.Holder, Until: l.Until}
	case !errors.Is(err, ErrNotFound):
		return 0, err
	}
	for due, err := range k.machines.rows.store.Due(ctx, DueQuery{Kinds: kind, Hosts: []string{host}, OnlyHosts: true, Limit: hostGoneCap}) {
		if err != nil {
			return n, errors.Join(fault, err)
		}
		n++
		if err := k.oneGone(ctx, host, due, rep); err != nil {
			rep.Failed++
			fault = errors.Join(fault, fmt.Errorf("session: host %s: %w", host, err))
		}
		if ctx.Err() != nil {
			return n, errors.Join(fault, context.Cause(ctx))
		}
	}
	return n, fault
}

// oneGone writes that one item is gone with its host.
func (k *Keeper) oneGone(ctx context.Context, host string, due Due, rep *HostGoneReport) error {
	if due.Kind == DueTombstones {
		_, err := k.machines.rows.store.Commit(ctx, Change{Prove: []sandbox.Tombstone{due.Tombstone}})
		switch {
		case err == nil:
			rep.Proven++
		case errors.Is(err, ErrStale): // somebody else has seen to it
			return nil
		}
		return err
	}
	out, err := k.machines.happened(ctx, due.Snapshot, sandbox.HostGone{Host: host})
	switch {
	case errors.Is(err, sandbox.ErrNotAllowed): // it is not there any more
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", due.Snapshot.subject(), err)
	case due.Kind == DueCreating:
		rep.GivenUp++
	case due.Kind == DueDestroying:
		rep.Destroyed++
	case out.Sandbox.State == sandbox.Lost:
		rep.Lost++
	}
	return nil
}
