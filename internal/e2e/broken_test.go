package e2e

import (
	"context"
	"errors"
	"net/rpc"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bunkroom/bunkroom/session"
)

// What can be wrong with a replica, to see that the check would find it.
const (
	countsFirst   = "counts first"   // it counts sessions, and then writes without a ceiling
	forgetsFences = "forgets fences" // it goes on with a lease that somebody else has had since
	ownClock      = "its own clock"  // it says until when it holds a lease by its own clock
	freesExpired  = "frees expired"  // it gives back the slots of works that ran out, whatever still runs
)

func breakIt(r *Replica, as role) {
	switch as.Broken {
	case countsFirst:
		r.store = countingFirst{r.store}
	case forgetsFences:
		r.leases = fenceless{r.leases}
	case ownClock:
		r.leases = dated{r.leases, as.Skew}
	case freesExpired:
		r.leases = freeing{r.leases}
	}
}

type countingFirst struct{ session.Store }

func (s countingFirst) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	for _, l := range c.Limits {
		if l.Kind != session.SessionsPerOwner {
			continue
		}
		page, err := s.List(ctx, session.ListQuery{Owner: c.Session.Owner, Limit: session.MaxListed})
		if err != nil {
			return time.Time{}, err
		}
		if len(page.Items) >= l.Max {
			return time.Time{}, &session.LimitError{Kind: l.Kind, Scope: l.Scope, Max: l.Max}
		}
	}
	c.Limits = nil
	return s.Store.Commit(ctx, c)
}

type fenceless struct{ session.Leases }

func (l fenceless) Renew(ctx context.Context, held session.Lease) (session.Lease, error) {
	now, err := l.Leases.Renew(ctx, held)
	if !errors.Is(err, session.ErrFenced) {
		return now, err
	}
	if now, err = l.Acquire(ctx, held); err != nil {
		return now, err
	}
	now.Fence = held.Fence
	return now, nil
}

type dated struct {
	session.Leases
	skew time.Duration
}

func (l dated) Acquire(ctx context.Context, want session.Lease) (session.Lease, error) {
	got, err := l.Leases.Acquire(ctx, want)
	got.Until = got.Until.Add(l.skew)
	return got, err
}

type freeing struct{ session.Leases }

func (l freeing) Acquire(ctx context.Context, want session.Lease) (session.Lease, error) {
	expired, err := l.Expired(ctx, 1000)
	for _, e := range expired {
		err = errors.Join(err, l.Release(ctx, e))
	}
	if err != nil {
		return session.Lease{}, err
	}
	return l.Leases.Acquire(ctx, want)
}

// wantSomeIllegal fails the test if every one of the histories is linearizable.
func wantSomeIllegal[K comparable](t testing.TB, m porcupine.Model, histories map[K][]porcupine.Operation) {
	t.Helper()
	for _, ops := range histories {
		if judge(t, m, ops) == porcupine.Illegal {
			return
		}
	}
	t.Error("the check does not find what is wrong")
}

// isLost reports whether a call ended because its process did: it may have been done.
func isLost(err error) bool {
	_, theirs := errors.AsType[rpc.ServerError](err)
	return !theirs
}
