package sim

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// toldStore is a store of a server that is told the time before each call.
type toldStore struct {
	inner session.Store
	tell  func(context.Context)
}

var _ session.Store = toldStore{}

func (s toldStore) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	s.tell(ctx)
	return s.inner.Load(ctx, a)
}

func (s toldStore) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	s.tell(ctx)
	return s.inner.Commit(ctx, c)
}

func (s toldStore) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	s.tell(ctx)
	return s.inner.List(ctx, q)
}

func (s toldStore) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	s.tell(ctx)
	return s.inner.Due(ctx, q)
}

func (s toldStore) Touch(ctx context.Context, a session.Address) error {
	s.tell(ctx)
	return s.inner.Touch(ctx, a)
}

func (s toldStore) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	s.tell(ctx)
	return s.inner.Known(ctx, keys)
}

func (s toldStore) Names(ctx context.Context, after string) (session.NamesPage, error) {
	s.tell(ctx)
	return s.inner.Names(ctx, after)
}

func (s toldStore) Missing(ctx context.Context, q session.MissingQuery) (int, error) {
	s.tell(ctx)
	return s.inner.Missing(ctx, q)
}

func (s toldStore) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	s.tell(ctx)
	return s.inner.Stored(ctx, after, limit)
}

func (s toldStore) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	s.tell(ctx)
	return s.inner.Owned(ctx, t, limit)
}

func (s toldStore) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	s.tell(ctx)
	return s.inner.Environments(ctx, q)
}

// toldLeases are the leases of such a server.
type toldLeases struct {
	inner session.Leases
	tell  func(context.Context)
}

var _ session.Leases = toldLeases{}

func (s toldLeases) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	s.tell(ctx)
	return s.inner.Acquire(ctx, l)
}

func (s toldLeases) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	s.tell(ctx)
	return s.inner.Renew(ctx, l)
}

func (s toldLeases) Release(ctx context.Context, l session.Lease) error {
	s.tell(ctx)
	return s.inner.Release(ctx, l)
}

func (s toldLeases) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	s.tell(ctx)
	return s.inner.Expired(ctx, limit)
}

func (s toldLeases) Works(ctx context.Context, v session.ConversationID, through int64, after session.Lease, limit int) ([]session.Lease, error) {
	s.tell(ctx)
	return s.inner.Works(ctx, v, through, after, limit)
}

func (s toldLeases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	s.tell(ctx)
	return s.inner.Held(ctx, kind, name)
}

func (s toldLeases) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	s.tell(ctx)
	return s.inner.Forget(ctx, unused, limit)
}

// The same rules hold over the databases.
func TestSchedulesOverSQLite(t *testing.T) {
	need.Long(t, "every call is one of a database")
	wantRides(t, playAll(t, 1000, 50, "sqlite", inSQLite))
}

func TestSchedulesOverPostgres(t *testing.T) {
	need.Long(t, "every call is one of a database")
	open := inPostgres(t)
	all := new(totals)
	for n := range 50 { // one at a time: they share one schema
		w, seed := worlds[n%len(worlds)], uint64(1000+n/len(worlds))
		out := play(t, w, seed, open)
		out.report(t, w, seed, "postgres", 60)
		all.add(out)
		if t.Failed() {
			break
		}
	}
	wantRides(t, all)
}

// wantRides: some of the transactions of a host were kept, and some rolled back.
func wantRides(t *testing.T, all *totals) {
	t.Helper()
	t.Log(all)
	if !t.Failed() {
		all.want(t, "the host committed")
		all.want(t, "the host rolled back")
	}
}

func (s toldStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	s.tell(ctx)
	return s.inner.StorageCharged(ctx, charged)
}
