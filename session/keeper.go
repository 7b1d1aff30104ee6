package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// Keeper finishes what was left unfinished: machines that a dead process was
// having made, machines that are to be destroyed or have vanished, leases nobody gave back.
// Nothing it does needs it to be the only one: several may run, on several hosts.
type Keeper struct {
	machines *machines
	leases   Leases
	accounts accounts
	mine     func(work string) bool // whether a work is open in this process, or to be accounted for
	doubts   *doubts                // those of this process of which something may run though they are closed
	// settleLate accounts for works of this process that were closed while that could not be done.
	settleLate func(context.Context) error
	// fence stops works of this process for turns of a conversation with fences up to one.
	fence     func(ctx context.Context, conversation ConversationID, through int64) error
	draining  func() bool // whether no work may begin in it any more
	replica   string
	process   string        // this one, as no other ever is
	idleAfter time.Duration // after which a machine is stopped; 0 = never
	log       *slog.Logger
	orphans   orphanage
	purging   purging
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
	moneyEvery   = 10 * time.Minute
	forgetEvery  = time.Hour
)

// Leases that nobody has had for forgetUnused are forgotten, forgetBatch at a time.
const (
	forgetUnused = 7 * 24 * time.Hour
	forgetBatch  = 200
)

// Serve does the Keeper's own chores, and more of the host's, until ctx ends,
// and then returns nil once none is running any more. Each chore runs under a
// lease, which the replica that made a run keeps until the next is due, so that
// of several replicas one does it at a time, as often as one alone would. What a chore
// returns, or panics with, is logged; it runs again all the same, on whichever replica is the first to.
// Where a replica dies and does not come back under its name, its chores are another's once their leases run out, a minute after they would have been due. A [*access.FieldError] names
// what is wrong with a chore; then nothing runs.
//
// While it runs, and until the process drains, other processes find this one
// as a process that serves its hosts; see [ElsewhereError].
func (k *Keeper) Serve(ctx context.Context, more ...Chore) error {
	own := k.chores()
	if err := checkChores(own, more); err != nil {
		return err
	}
	var running sync.WaitGroup
	for _, host := range k.hosts() {
		running.Go(func() { k.present(ctx, host) })
	}
	for _, c := range append(own, more...) {
		running.Go(func() {
			var turn Lease
			for {
				turn = k.do(ctx, c)
				if !sleep(ctx, c.Every) {
					k.giveUp(ctx, c, turn)
					return
				}
			}
		})
	}
	running.Wait()
	return nil
}

// chores are the Keeper's own.
func (k *Keeper) chores() []Chore {
	// A machine that is bound to a host can be seen to from there only, so
	// that each host has leases of its own.
	here := strings.Join(k.hosts(), " ")
	own := []Chore{
		{Name: "reclaim " + here, Every: reclaimEvery, Run: k.reclaimChore},
		{Name: "slots " + k.replica, Every: slotsEvery, Run: k.freeSlots},
		{Name: "sweep " + here, Every: sweepEvery, Run: k.sweepChore},
		{Name: "forget", Every: forgetEvery, Run: k.forgetLeases},
	}
	if _, ok := k.accounts.gate.(billing.StorageMeter); ok {
		own = append(own, Chore{Name: "storage", Every: storageEvery, Run: k.storageChore})
	}
	if s, ok := k.accounts.gate.(billing.Sweeper); ok {
		own = append(own, Chore{Name: "money", Every: moneyEvery, Run: s.Sweep})
	}
	if k.idleAfter > 0 {
		own = append(own, Chore{Name: "idle " + here, Every: idleEvery, Run: k.stopIdle})
	}
	return own
}

// reclaimChore is the Keeper's own pass.
func (k *Keeper) reclaimChore(ctx context.Context) error {
	rep, err := k.Reclaim(ctx, ReclaimOptions{})
	did := map[ReclaimAction]int{}
	for _, i := range rep.Items {
		did[i.Action]++
	}
	if quiet := did[ReclaimSeen]; len(rep.Items) > quiet {
		k.log.InfoContext(ctx, "reclaimed", "items", len(rep.Items)-quiet, "proven", rep.Proven, "lost", did[ReclaimLost],
			"failed", rep.Failed, "capped", rep.Capped != 0)
	}
	return err
}

// forgetLeases drops what is kept of leases that nobody will have again, such
// as those of processes that have died and of shells that were closed.
func (k *Keeper) forgetLeases(ctx context.Context) error {
	for {
		if n, err := k.leases.Forget(ctx, forgetUnused, forgetBatch); err != nil || n < forgetBatch {
			return err
		}
	}
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

// do runs a chore once if its lease can be had. The lease outlasts a run that
// went well until the next is due, so that no other replica makes it meanwhile; it is returned.
func (k *Keeper) do(ctx context.Context, c Chore) Lease {
	turn, err := k.leases.Acquire(ctx, Lease{Kind: LeaseSweep, Name: c.Name, Holder: k.replica, Replica: k.replica, For: c.Every + time.Minute})
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return Lease{}
	case err != nil:
		k.complain(ctx, c.Name, err)
		return Lease{}
	}
	if err := c.run(ctx); err != nil {
		k.complain(ctx, c.Name, err)
		k.giveUp(ctx, c, turn) // another may fare better
		return Lease{}
	}
	turn.For = c.Every
	switch rest, err := k.leases.Renew(ctx, turn); {
	case err == nil:
		return rest
	case !errors.Is(err, ErrFenced): // which it is where the run took longer than its lease
		k.complain(ctx, c.Name, err)
	}
	return turn
}

// run runs the chore. A panic is an error: it is the host's code, and may spoil no other chore.
func (c Chore) run(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("session: chore panicked: %v", p)
		}
	}()
	return c.Run(ctx)
}

// giveUp releases the lease of a chore, if there is one, so that another replica need not wait for its end.
func (k *Keeper) giveUp(ctx context.Context, c Chore, turn Lease) {
	if turn.Fence == 0 {
		return
	}
	closing, cancel := detached(ctx)
	defer cancel()
	k.complain(ctx, c.Name, k.leases.Release(closing, turn))
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
