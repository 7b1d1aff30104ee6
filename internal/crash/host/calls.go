package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// store, leases, provider and box count the calls they pass on.
type store struct {
	session.Store
	*places
}

func (s store) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	return get(s.places, "load", func() (session.Snapshot, error) { return s.Store.Load(ctx, a) })
}

func (s store) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	return get(s.places, "commit", func() (time.Time, error) { return s.Store.Commit(ctx, c) })
}

func (s store) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	return get(s.places, "list", func() (session.Page, error) { return s.Store.List(ctx, q) })
}

func (s store) Touch(ctx context.Context, a session.Address) error {
	return s.do("touch", func() error { return s.Store.Touch(ctx, a) })
}

func (s store) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	return get(s.places, "known", func() ([]session.Known, error) { return s.Store.Known(ctx, keys) })
}

func (s store) Names(ctx context.Context, after string) (session.NamesPage, error) {
	return get(s.places, "names", func() (session.NamesPage, error) { return s.Store.Names(ctx, after) })
}

func (s store) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	return get(s.places, "owned", func() ([]session.Address, error) { return s.Store.Owned(ctx, t, limit) })
}

func (s store) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	return get(s.places, "environments", func() (session.EnvironmentPage, error) { return s.Store.Environments(ctx, q) })
}

func (s store) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	return get(s.places, "stored", func() ([]session.Snapshot, error) { return s.Store.Stored(ctx, after, limit) })
}

func (s store) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	return s.do("note", func() error { return s.Store.StorageCharged(ctx, charged) })
}

func (s store) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return counted(s.places, "due", s.Store.Due(ctx, q))
}

// counted is a sequence whose reading is a call: all of it is read before any of it is yielded.
func counted[T any](p *places, call string, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		type item struct {
			value T
			err   error
		}
		var all []item
		leave := p.enter(call)
		for v, err := range seq {
			all = append(all, item{v, err})
		}
		if err := leave(); err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, i := range all {
			if !yield(i.value, i.err) {
				return
			}
		}
	}
}

type leases struct {
	session.Leases
	*places
	seen func(session.Lease) // a chore's: it has been run, or is somebody else's
}

func (l leases) Acquire(ctx context.Context, want session.Lease) (session.Lease, error) {
	return get(l.places, "acquire", func() (session.Lease, error) {
		got, err := l.Leases.Acquire(ctx, want)
		heard(got, err)
		if errors.As(err, new(*session.HeldError)) {
			l.seen(want)
		}
		return got, err
	})
}

func (l leases) Renew(ctx context.Context, held session.Lease) (session.Lease, error) {
	return get(l.places, "renew", func() (session.Lease, error) {
		asks(held)
		got, err := l.Leases.Renew(ctx, held)
		heard(got, err)
		l.seen(held)
		return got, err
	})
}

func (l leases) Release(ctx context.Context, held session.Lease) error {
	defer l.seen(held)
	return l.do("release", func() error { return l.Leases.Release(ctx, held) })
}

func (l leases) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	return get(l.places, "expired", func() ([]session.Lease, error) { return l.Leases.Expired(ctx, limit) })
}

func (l leases) Works(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	return get(l.places, "works", func() ([]session.Lease, error) { return l.Leases.Works(ctx, v, through, after, limit) })
}

func (l leases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	return get(l.places, "held", func() (session.Lease, error) { return l.Leases.Held(ctx, kind, name) })
}

type provider struct {
	sandbox.Provider
	*places
	full bool // no machine can be had
}

func (p provider) Create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	return get(p.places, "create", func() (sandbox.Machine, error) {
		if p.full {
			return sandbox.Machine{}, fmt.Errorf("%w: the host is full", sandbox.ErrNotSent)
		}
		return p.Provider.Create(ctx, r)
	})
}

func (p provider) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	return get(p.places, "inspect", func() ([]sandbox.Found, error) { return p.Provider.Inspect(ctx, ref) })
}

func (p provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	return get(p.places, "attach", func() (sandbox.Sandbox, error) {
		sb, err := p.Provider.Attach(ctx, ref)
		if err != nil {
			return nil, err
		}
		return box{sb, p.places}, nil
	})
}

// Destroy can be made to fail without having been asked for, which is what an outage looks like.
func (p provider) Destroy(ctx context.Context, ref sandbox.Ref) error {
	if err := p.failing("destroy"); err != nil {
		return err
	}
	return p.do("destroy", func() error { return p.Provider.Destroy(ctx, ref) })
}

// As passes on the powers of the provider, counted.
func (p provider) As(target any) bool {
	switch t := target.(type) {
	case *sandbox.Lister:
		power, ok := sandbox.As[sandbox.Lister](p.Provider)
		*t = lister{power, p.places}
		return ok
	case *sandbox.Reaper:
		power, ok := sandbox.As[sandbox.Reaper](p.Provider)
		*t = reaper{power, p.places}
		return ok
	}
	return false
}

type lister struct {
	sandbox.Lister
	*places
}

func (l lister) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	return counted(l.places, "list machines", l.Lister.List(ctx, deployment))
}

type reaper struct {
	sandbox.Reaper
	*places
}

func (r reaper) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	return r.do("reap", func() error { return r.Reaper.Reap(ctx, ref, tag) })
}

type box struct {
	sandbox.Sandbox
	*places
}

func (b box) Start(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
	return get(b.places, "start", func() (sandbox.Process, error) { return b.Sandbox.Start(ctx, c) })
}

func (b box) Close() error { return b.do("close", b.Sandbox.Close) }

func (b box) As(target any) bool {
	if t, ok := target.(*sandbox.Symlinker); ok {
		return sandbox.PassOn(b.Sandbox, t)
	}
	return false
}
