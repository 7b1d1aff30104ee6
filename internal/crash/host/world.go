package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
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
	Ledger() billing.Ledger
	Transcripts() transcript.Store
	Inbox() transcript.Inbox
	Migrate(context.Context) error
	Close() error
}

// world is the process: a Service over a database and a provider, whose calls it counts.
type world struct {
	*session.Service
	storing   *session.Service // charges for storage; nil = the story is about something else
	story     story
	pool      *sql.DB
	db        database
	directory *memory.Directory
	machine   *local.Provider
	places    *places
	ledger    *ledger
	leases    leases
	exporter  exporter
	ahead     atomic.Int64 // how far the database's clock is put forward, where that can be done
	fixed     bool         // it can't be: it is the server's own
	mu        sync.Mutex
	seen      map[string]bool // the chores that have come to their end
}

func newWorld(ctx context.Context, o options, replica string, s story) (_ *world, err error) {
	w := &world{story: s, places: &places{}, directory: directory(), seen: map[string]bool{}}
	w.places.clock, w.exporter = w.now, exporter{o.events, w.places}
	c := session.Config{
		Directory: w.directory, KeySecret: []byte("0123456789abcdef0123456789abcdef"), Replica: replica,
		Deployment: deployment, CallTimeout: callTimeout,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if err := w.connect(ctx, o); err != nil {
		return nil, err
	}
	if w.fixed { // leases are waited for
		c.Lease = 5 * time.Second
	}
	if s.lease > 0 {
		c.Lease = s.lease
	}
	c.Hold = c.Lease
	if err := w.db.Migrate(ctx); err != nil {
		return nil, err
	}
	if w.machine, err = local.New(local.Config{Root: o.root, Unconfined: s.turn, Log: c.Log}); err != nil {
		return nil, err
	}
	w.ledger = newLedger(w.db.Ledger(), w.places)
	w.leases = leases{w.db.Leases(), w.places, w.chore}
	till, err := w.till()
	if err != nil {
		return nil, err
	}
	c.Store, c.Leases, c.Gate = store{w.db.Sessions(), w.places}, w.leases, gate{till}
	c.Sandboxes = []sandbox.Provider{provider{w.machine, w.places, s.full && o.play != ""}}
	if w.Service, err = session.New(c); err != nil || !s.stores {
		return w, err
	}
	c.Gate = till
	w.storing, err = session.New(c)
	return w, err
}

// connect opens the database.
func (w *world) connect(ctx context.Context, o options) (err error) {
	if o.sqlite != "" {
		if w.pool, err = openSQLite(o.sqlite); err != nil {
			return err
		}
		db, err := sqlite.New(ctx, w.pool, &sqlite.Options{Now: w.now})
		w.db = db
		return err
	}
	if w.pool, err = openPostgres(o.postgres); err != nil {
		return err
	}
	db, err := postgres.New(ctx, w.pool, nil)
	w.db, w.fixed = db, true
	return err
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
	if err := errors.Join(w.machine.Close(), w.db.Close(), w.pool.Close()); err != nil {
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

// over reports whether no work of the scene is leased or has a hold, and no attempt is in time any more.
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
	// A hold that nobody renews any more runs out by itself.
	var open int
	err := w.pool.QueryRowContext(ctx, "SELECT count(*) FROM bunkroom_holds WHERE state = 'open' AND until_at > $1", w.now().UnixMicro()).Scan(&open)
	return open == 0, err
}

// chore notes that a chore has come to its end, or is somebody else's.
func (w *world) chore(l session.Lease) {
	if l.Kind != session.LeaseSweep {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	chore, _, _ := strings.Cut(l.Name, " ")
	w.seen[chore] = true
}

// chores runs the Keeper's own chores once each, and more, or those among them that nobody else runs.
func (w *world) chores(ctx context.Context, more ...session.Chore) error {
	w.mu.Lock()
	clear(w.seen)
	w.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Serve(ctx, more...) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			w.mu.Lock()
			done := w.seen["slots"] && w.seen["reclaim"]
			for _, c := range more {
				done = done && w.seen[c.Name]
			}
			w.mu.Unlock()
			if done {
				stop()
				return <-ended
			}
		}
	}
}
