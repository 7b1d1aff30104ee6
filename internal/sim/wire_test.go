package sim

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wire is what a replica's calls go through.
type wire struct{ r *replica }

// through makes one call when its turn comes. What reaches the other side is done there,
// whatever becomes of the caller.
func through[A any](ctx context.Context, w wire, method, what string, do func(context.Context) (A, error)) (A, error) {
	var none A
	v, err := w.r.park(ctx, method, what)
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return none, err
	}
	answer, err := do(context.WithoutCancel(ctx))
	if lost := w.reply(ctx, v, method); lost != nil {
		return none, lost
	}
	return answer, err
}

// reply begins the method of a reply that waits for its turn.
const reply = "reply of "

// reply lets the reply of a call that was made arrive, or not.
func (w wire) reply(ctx context.Context, v verdict, method string) error {
	if v.hold {
		if _, err := w.r.park(ctx, reply+method, ""); err != nil {
			return err
		}
	}
	if v.lose {
		return errLost
	}
	return nil
}

type wiredStore struct{ wire }

var _ session.Store = wiredStore{}

func (w wiredStore) Load(ctx context.Context, a session.Address) (session.Snapshot, error) {
	return through(ctx, w.wire, "Load", where(a), func(ctx context.Context) (session.Snapshot, error) {
		return w.r.store.Load(ctx, a)
	})
}

func (w wiredStore) Commit(ctx context.Context, c session.Change) (time.Time, error) {
	w.r.checkDry(ctx, "writes "+told(c))
	v, err := w.r.park(ctx, "Commit", told(c))
	if err == nil {
		err = v.fail
	}
	if err != nil {
		return time.Time{}, err
	}
	at, err := w.r.commit(context.WithoutCancel(ctx), w.r, c)
	if lost := w.reply(ctx, v, "Commit"); lost != nil {
		return time.Time{}, fmt.Errorf("%w: %w", session.ErrUnknown, lost)
	}
	return at, err
}

func (w wiredStore) List(ctx context.Context, q session.ListQuery) (session.Page, error) {
	return through(ctx, w.wire, "List", "", func(ctx context.Context) (session.Page, error) { return w.r.store.List(ctx, q) })
}

func (w wiredStore) Due(ctx context.Context, q session.DueQuery) iter.Seq2[session.Due, error] {
	return func(yield func(session.Due, error) bool) {
		all, err := through(ctx, w.wire, "Due", fmt.Sprint(q.Kinds), func(ctx context.Context) (all []session.Due, err error) {
			for d, err := range w.r.store.Due(ctx, q) {
				if err != nil {
					return all, err
				}
				all = append(all, d)
			}
			return all, nil
		})
		for _, d := range all {
			if !yield(d, nil) {
				return
			}
		}
		if err != nil {
			yield(session.Due{}, err)
		}
	}
}

func (w wiredStore) Touch(ctx context.Context, a session.Address) error {
	_, err := through(ctx, w.wire, "Touch", string(a.Session), func(ctx context.Context) (struct{}, error) { return struct{}{}, w.r.store.Touch(ctx, a) })
	return err
}

func (w wiredStore) Known(ctx context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	return through(ctx, w.wire, "Known", fmt.Sprint(len(keys)), func(ctx context.Context) ([]session.Known, error) { return w.r.store.Known(ctx, keys) })
}

func (w wiredStore) Names(ctx context.Context, after string) (session.NamesPage, error) {
	return through(ctx, w.wire, "Names", "", func(ctx context.Context) (session.NamesPage, error) { return w.r.store.Names(ctx, after) })
}

func (w wiredStore) Missing(ctx context.Context, q session.MissingQuery) (int, error) {
	return through(ctx, w.wire, "Missing", q.Provider, func(ctx context.Context) (int, error) { return w.r.store.Missing(ctx, q) })
}

func (w wiredStore) StorageCharged(ctx context.Context, charged []session.StorageCharged) error {
	_, err := through(ctx, w.wire, "StorageCharged", fmt.Sprint(len(charged)), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, w.r.store.StorageCharged(ctx, charged)
	})
	return err
}

func (w wiredStore) Stored(ctx context.Context, after sandbox.ID, limit int) ([]session.Snapshot, error) {
	return through(ctx, w.wire, "Stored", "", func(ctx context.Context) ([]session.Snapshot, error) { return w.r.store.Stored(ctx, after, limit) })
}

func (w wiredStore) Owned(ctx context.Context, t session.PurgeTarget, limit int) ([]session.Address, error) {
	return through(ctx, w.wire, "Owned", string(t.Session)+string(t.Project)+string(t.User), func(ctx context.Context) ([]session.Address, error) {
		all, err := w.r.store.Owned(ctx, t, limit)
		slices.SortStableFunc(all, func(a, b session.Address) int { // what is of one kind comes in no order
			if kind(a) != kind(b) {
				return 0
			}
			return strings.Compare(where(a), where(b))
		})
		return all, err
	})
}

func kind(a session.Address) [2]bool { return [2]bool{a.Session != "", a.Environment != ""} }

func where(a session.Address) string {
	return string(a.Session) + string(a.Environment) + string(a.Conversation)
}

func (w wiredStore) Environments(ctx context.Context, q session.EnvironmentQuery) (session.EnvironmentPage, error) {
	return through(ctx, w.wire, "Environments", "", func(ctx context.Context) (session.EnvironmentPage, error) { return w.r.store.Environments(ctx, q) })
}

type wiredLeases struct{ wire }

var _ session.Leases = wiredLeases{}

func leased(l session.Lease) string {
	return fmt.Sprintf("%d %s by %s", l.Kind, named(l.Name), named(l.Holder))
}

// named is the name of a process without what tells it from every other process ever: no two runs have that in common.
func named(process string) string {
	name, _, _ := strings.Cut(process, "/")
	return name
}

func (w wiredLeases) Acquire(ctx context.Context, l session.Lease) (session.Lease, error) {
	asked := time.Now()
	got, err := through(ctx, w.wire, "Acquire", leased(l), func(ctx context.Context) (session.Lease, error) {
		if l.Kind == session.LeaseWork && time.Since(asked) >= l.For/3 {
			// It would be renewed at the very moment at which work goes on: which
			// of the two comes first is up to Go, and no seed would play it again.
			return session.Lease{}, errOutage
		}
		got, err := w.r.leases.Acquire(ctx, l)
		if err == nil {
			w.r.granted(w.r, opOf(ctx), got)
		}
		return got, err
	})
	return w.heard(ctx, got, err)
}

// heard notes that an answer about the lease of a work has arrived.
func (w wiredLeases) heard(ctx context.Context, got session.Lease, err error) (session.Lease, error) {
	if err == nil && got.Kind == session.LeaseWork {
		w.r.job(w.r, opOf(ctx), got.Holder).hears(w.r.sim, got)
	}
	return got, err
}

func (w wiredLeases) Renew(ctx context.Context, l session.Lease) (session.Lease, error) {
	got, err := through(ctx, w.wire, "Renew", leased(l), func(ctx context.Context) (session.Lease, error) {
		got, err := w.r.leases.Renew(ctx, l)
		if err == nil {
			w.r.granted(w.r, opOf(ctx), got)
		}
		return got, err
	})
	return w.heard(ctx, got, err)
}

func (w wiredLeases) Release(ctx context.Context, l session.Lease) error {
	_, err := through(ctx, w.wire, "Release", leased(l), func(ctx context.Context) (struct{}, error) {
		err := w.r.leases.Release(ctx, l)
		if err == nil {
			w.r.released(l)
		}
		return struct{}{}, err
	})
	return err
}

func (w wiredLeases) Expired(ctx context.Context, limit int) ([]session.Lease, error) {
	return through(ctx, w.wire, "Expired", "", func(ctx context.Context) ([]session.Lease, error) { return w.r.leases.Expired(ctx, limit) })
}

func (w wiredLeases) Works(ctx context.Context, v session.ConversationID, last int64, after session.Lease, limit int) ([]session.Lease, error) {
	return through(ctx, w.wire, "Works", named(string(v)), func(ctx context.Context) ([]session.Lease, error) {
		return w.r.leases.Works(ctx, v, last, after, limit)
	})
}

func (w wiredLeases) Held(ctx context.Context, kind session.LeaseKind, name string) (session.Lease, error) {
	return through(ctx, w.wire, "Held", named(name), func(ctx context.Context) (session.Lease, error) { return w.r.leases.Held(ctx, kind, name) })
}

func (w wiredLeases) Forget(ctx context.Context, unused time.Duration, limit int) (int, error) {
	return through(ctx, w.wire, "Forget", "", func(ctx context.Context) (int, error) { return w.r.leases.Forget(ctx, unused, limit) })
}

type wiredDirectory struct{ wire }

func (w wiredDirectory) Facts(ctx context.Context, q access.Question) (access.Facts, error) {
	return through(ctx, w.wire, "Facts", string(q.Project), func(ctx context.Context) (access.Facts, error) { return w.r.directory.Facts(ctx, q) })
}
