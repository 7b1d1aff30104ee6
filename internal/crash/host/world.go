package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// ann opens every session of the project, and pays for it.
const (
	project = access.ProjectID("p")
	agent   = access.AgentID("builder")
)

var ann = access.Actor{User: "ann"}

// database is what both drivers have.
type database interface {
	Sessions() session.Store
	Leases() session.Leases
	Migrate(context.Context) error
	Close() error
}

// world is the process: a Service over a database and a provider, whose calls it counts.
type world struct {
	*session.Service
	db      database
	machine *local.Provider
	places  *places
	ahead   atomic.Int64 // how far the database's clock is put forward, where that can be done
	fixed   bool         // it can't be: it is the server's own
	mu      sync.Mutex
	seen    map[string]bool // the chores that have come to their end
}

func newWorld(ctx context.Context, o options, replica string) (_ *world, err error) {
	w := &world{places: &places{}, seen: map[string]bool{}}
	c := session.Config{
		Directory: directory(), KeySecret: []byte("0123456789abcdef0123456789abcdef"), Replica: replica,
		Deployment: deployment, CallTimeout: callTimeout,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if o.sqlite != "" {
		var db *sqlite.DB
		db, err = sqlite.Open(ctx, o.sqlite, &sqlite.Options{Now: w.now})
		w.db = db
	} else {
		var db *postgres.DB
		db, err = postgres.Open(ctx, o.postgres, &postgres.Options{Connections: 4})
		w.db, w.fixed = db, true
		c.Lease = 5 * time.Second // it is waited for
	}
	if err != nil {
		return nil, err
	}
	if err := w.db.Migrate(ctx); err != nil {
		return nil, err
	}
	if w.machine, err = local.New(local.Config{Root: o.root, Log: c.Log}); err != nil {
		return nil, err
	}
	c.Store = store{w.db.Sessions(), w.places}
	c.Leases = leases{w.db.Leases(), w.places, w.released}
	c.Sandboxes = []sandbox.Provider{provider{w.machine, w.places}}
	w.Service, err = session.New(c)
	return w, err
}

const (
	deployment  = "crash"
	callTimeout = 3 * time.Second
)

func directory() *memory.Directory {
	d := memory.NewDirectory()
	d.AddProject(project, ann.User, "pro")
	d.SetCode(ann.User, project, true)
	d.AddAgent(project, agent, true)
	return d
}

func (w *world) close() {
	if err := errors.Join(w.machine.Close(), w.db.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// later lets so much time pass that every lease and every attempt of now has
// run out. Where the clock is the server's own it waits for that.
func (w *world) later(ctx context.Context, sc *scene) error {
	if !w.fixed {
		w.ahead.Add(int64(time.Hour))
		return nil
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		over, err := w.over(ctx, sc)
		if over || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// aged lets so much time pass that no machine of now is young any more: each
// is older than a create may take.
func (w *world) aged(ctx context.Context) error {
	if !w.fixed {
		w.ahead.Add(int64(time.Hour))
		return nil
	}
	select {
	case <-time.After(callTimeout + 2*time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over reports whether no work of the scene is leased and no attempt in time any more.
func (w *world) over(ctx context.Context, sc *scene) (bool, error) {
	for _, id := range sc.Sessions {
		s, err := w.db.Sessions().Load(ctx, session.Address{Session: id})
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if s.Sandbox.State == sandbox.Creating && !s.Now.After(s.Sandbox.Deadline) {
			return false, nil
		}
		if _, err := w.db.Leases().Held(ctx, session.LeaseWork, string(id)); !errors.Is(err, session.ErrNotFound) {
			return false, err
		}
	}
	return true, nil
}

// released notes that a chore has come to its end.
func (w *world) released(l session.Lease) {
	if l.Kind != session.LeaseSweep {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	chore, _, _ := strings.Cut(l.Name, " ")
	w.seen[chore] = true
}

// chores runs the Keeper's own chores once each, or those among them that nobody else runs.
func (w *world) chores(ctx context.Context) error {
	w.mu.Lock()
	clear(w.seen)
	w.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			w.mu.Lock()
			done := w.seen["slots"] && w.seen["reclaim"]
			w.mu.Unlock()
			if done {
				stop()
				return <-ended
			}
		}
	}
}
