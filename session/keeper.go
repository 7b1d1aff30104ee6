package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Keeper finishes what was left unfinished: machines that a dead process was
// having made, machines that are to be destroyed, leases nobody gave back.
// Nothing it does needs it to be the only one: several may run, on several hosts.
type Keeper struct {
	machines *machines
	leases   Leases
	mine     func(work string) bool // whether a work is open in this process
	replica  string
	log      *slog.Logger
}

// Chore is something to do every so often.
type Chore struct {
	Name  string        // of its lease; unique
	Every time.Duration // from the end of one run to the next
	Run   func(ctx context.Context) error
}

// The intervals of the Keeper's own chores.
const (
	reclaimEvery = 30 * time.Second
	slotsEvery   = 30 * time.Second
)

// Serve does the Keeper's own chores, and more of the host's, until ctx ends,
// and then returns nil once none is running any more. Each chore runs under a
// lease, so that of several replicas one does it at a time. What a chore
// returns is logged; it runs again all the same. A [*access.FieldError] names
// what is wrong with a chore; then nothing runs.
func (k *Keeper) Serve(ctx context.Context, more ...Chore) error {
	own := []Chore{
		// A machine that is bound to a host can be seen to from there only, so
		// that each host has its own lease.
		{Name: "reclaim " + strings.Join(k.hosts(), " "), Every: reclaimEvery, Run: func(ctx context.Context) error {
			rep, err := k.Reclaim(ctx, ReclaimOptions{})
			if len(rep.Items) > 0 {
				k.log.InfoContext(ctx, "reclaimed", "items", len(rep.Items), "proven", rep.Proven, "failed", rep.Failed, "capped", rep.Capped)
			}
			return err
		}},
		{Name: "slots " + k.replica, Every: slotsEvery, Run: k.freeSlots},
	}
	if err := checkChores(own, more); err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, c := range append(own, more...) {
		running.Go(func() {
			for {
				k.do(ctx, c)
				if !sleep(ctx, c.Every) {
					return
				}
			}
		})
	}
	running.Wait()
	return nil
}

func checkChores(own, more []Chore) error {
	taken := map[string]bool{}
	for _, c := range own {
		taken[c.Name] = true
	}
	for _, c := range more {
		if err := access.CheckID("Chore.Name", c.Name); err != nil {
			return err
		}
		switch {
		case taken[c.Name]:
			return &access.FieldError{Field: "Chore.Name", Rule: "must be unique, and none of the Keeper's own"}
		case c.Every <= 0:
			return &access.FieldError{Field: "Chore.Every", Rule: "must be over 0"}
		case c.Run == nil:
			return &access.FieldError{Field: "Chore.Run", Rule: "must be set"}
		}
		taken[c.Name] = true
	}
	return nil
}

// do runs a chore once if its lease can be had.
func (k *Keeper) do(ctx context.Context, c Chore) {
	l, err := k.leases.Acquire(ctx, Lease{Kind: LeaseSweep, Name: c.Name, Holder: k.replica, Replica: k.replica, For: c.Every + time.Minute})
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return
	case err != nil:
		k.complain(ctx, c.Name, err)
		return
	}
	k.complain(ctx, c.Name, c.Run(ctx))
	closing, cancel := detached(ctx)
	defer cancel()
	k.complain(ctx, c.Name, k.leases.Release(closing, l))
}

func (k *Keeper) complain(ctx context.Context, chore string, err error) {
	if err != nil && ctx.Err() == nil {
		k.log.ErrorContext(ctx, "chore failed", "chore", chore, "error", err)
	}
}

// hosts are those this process can act for, sorted.
func (k *Keeper) hosts() []string {
	var hosts []string
	for _, p := range k.machines.providers {
		if h := p.Info().Host; h != "" {
			hosts = append(hosts, h)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// freeSlots releases work leases that ran out without being given back, where
// it is sure that nothing of that work runs any more: its machine is gone, was
// lost and is still not to be seen, or sleeps, or it was a work of this process that is closed by now.
// Any other goes on counting.
func (k *Keeper) freeSlots(ctx context.Context) error {
	expired, err := k.leases.Expired(ctx, reclaimCap)
	for _, l := range expired {
		quiet, fault := k.quiet(ctx, l)
		if fault == nil && quiet {
			fault = k.leases.Release(ctx, l)
		}
		err = errors.Join(err, fault)
	}
	return err
}

func (k *Keeper) quiet(ctx context.Context, l Lease) (bool, error) {
	if l.Replica == k.replica {
		return !k.mine(l.Holder), nil
	}
	s, err := k.machines.rows.store.Load(ctx, Address{Session: ID(l.Name)})
	switch {
	case errors.Is(err, ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case s.Sandbox.State == sandbox.None:
		return true, nil
	case s.Sandbox.State != sandbox.Live && s.Sandbox.State != sandbox.Lost:
		return false, nil
	}
	p, err := k.machines.provider(s.Sandbox)
	if err != nil {
		return false, err
	}
	call, cancel := context.WithTimeout(ctx, k.machines.timeout)
	defer cancel()
	found, err := p.Inspect(call, s.Sandbox.Ref())
	if errors.Is(err, sandbox.ErrWrongHost) {
		return false, nil
	}
	if s.Sandbox.State == sandbox.Lost { // not seen before, twice: it may have turned up again
		return err == nil && len(found) == 0, err
	}
	asleep := len(found) > 0 && !slices.ContainsFunc(found, func(m sandbox.Found) bool { return m.Status != sandbox.StatusStopped })
	return asleep, err
}
