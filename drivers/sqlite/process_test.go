package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const (
	counter = session.ID("01990000-0000-7000-8000-000000000001") // the session that both processes rename
	spawns  = 40                                                 // of each process
	ceiling = 30                                                 // for both together
	workers = 4                                                  // of each process that rename
	renames = 40                                                 // of each process
)

// child is what a second process does with the database at args[0].
func child(role string, args []string) error {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, args[0], nil)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := ready(); err != nil {
		return err
	}
	switch role {
	case "migrate":
		return errors.Join(db.Migrate(ctx), db.CheckSchema(ctx))
	case "spawn":
		opened, err := spawnMany(ctx, db)
		fmt.Println(opened)
		return err
	case "talk":
		by, err := strconv.Atoi(args[1])
		return errors.Join(err, talkMuch(ctx, db, by))
	case "lock":
		tx, err := db.SQL().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return ready()
	}
	return fmt.Errorf("no such role: %s", role)
}

// spawn is the change that opens a session of alice.
func spawn() session.Change {
	s := &session.Session{ID: session.ID(id.New()), Owner: "alice"}
	return session.Change{
		Session:      s,
		Sandbox:      &sandbox.Row{ID: sandbox.ID(id.New()), Session: s.ID},
		Conversation: &session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Owner: s.Owner},
	}
}

// spawnMany opens sessions up to the ceiling and, at the same time, renames
// the one that everybody renames. It returns how many it opened.
func spawnMany(ctx context.Context, db *sqlite.DB) (opened int, err error) {
	var all sync.WaitGroup
	errs := make(chan error, spawns+renames)
	limits := make(chan bool, spawns)
	for range spawns {
		all.Go(func() {
			c := spawn()
			c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: ceiling}}
			c.Expect = []session.Guard{{Session: "absent"}} // so that it reads before it writes
			_, err := db.Sessions().Commit(ctx, c)
			limited := errors.As(err, new(*session.LimitError))
			if limited {
				err = nil
			}
			errs <- err
			limits <- limited
		})
	}
	for range workers {
		all.Go(func() {
			for range renames / workers {
				errs <- count(ctx, db)
			}
		})
	}
	all.Wait()
	close(errs)
	close(limits)
	for e := range errs {
		err = errors.Join(err, e)
	}
	for limited := range limits {
		if !limited {
			opened++
		}
	}
	return opened, err
}

// count raises the number that is the counter's name, however often somebody else does so first.
func count(ctx context.Context, db *sqlite.DB) error {
	for {
		snap, err := db.Sessions().Load(ctx, session.Address{Session: counter})
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(snap.Session.Name)
		if err != nil {
			return err
		}
		snap.Session.Name = strconv.Itoa(n + 1)
		if _, err = db.Sessions().Commit(ctx, session.Change{Session: &snap.Session}); !errors.Is(err, session.ErrStale) {
			return err
		}
	}
}

// Two processes write to one file at the same time: no error, no lost update,
// and the ceiling holds for both together. (T-26)
func TestTwoProcesses(t *testing.T) {
	path, db := shared(t, nil)
	if _, err := db.Sessions().Commit(t.Context(), session.Change{Session: &session.Session{ID: counter, Owner: "bob", Name: "0"}}); err != nil {
		t.Fatal(err)
	}
	other := start(t, "spawn", path)
	other.goOn()
	opened, err := spawnMany(t.Context(), db)
	if err != nil {
		t.Error(err)
	}
	said := other.wait()
	theirs, err := strconv.Atoi(said[0])
	if err != nil || opened+theirs != ceiling {
		t.Errorf("this process opened %d sessions and the other %q, want %d together", opened, said, ceiling)
	}
	snap, err := db.Sessions().Load(t.Context(), session.Address{Session: counter})
	if err != nil || snap.Session.Name != strconv.Itoa(2*renames) || snap.Session.Version != 2*renames+1 {
		t.Errorf("counted to %q in version %d, %v; want %d", snap.Session.Name, snap.Session.Version, err, 2*renames)
	}
}

// Two processes migrate one new file at the same time.
func TestTwoProcessesMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.db")
	one, two := start(t, "migrate", path), start(t, "migrate", path)
	one.goOn()
	two.goOn()
	one.wait()
	two.wait()
	db, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

// While another process holds the lock for longer than the busy timeout, a
// write is refused with a BusyError and reads go on; afterwards all is well.
func TestBusy(t *testing.T) {
	path, db := shared(t, &sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	first := spawn()
	if _, err := db.Sessions().Commit(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	other := start(t, "lock", path)
	other.goOn()
	if line := other.line(); line != "ready" { // it has the lock
		t.Fatalf("the child said %q", line)
	}
	c := spawn()
	_, err := db.Sessions().Commit(t.Context(), c)
	e, ok := errors.AsType[*sqlite.BusyError](err)
	if !ok {
		t.Fatalf("got %v, want a BusyError", err)
	}
	if status, code, _ := e.Problem(); status != 503 || code != "busy" || errors.Unwrap(e) == nil {
		t.Errorf("got problem %d %s, cause %v", status, code, errors.Unwrap(e))
	}
	if _, err := db.Leases().Acquire(t.Context(), session.Lease{Kind: session.LeaseSweep, Name: "n", Holder: "h", For: time.Minute}); !errors.As(err, &e) {
		t.Errorf("Acquire: got %v, want a BusyError", err)
	}
	if _, err := db.Sessions().Load(t.Context(), session.Address{Session: first.Session.ID}); err != nil {
		t.Errorf("Load: %v", err)
	}
	// Who would wait longer than its context lasts waits no longer than that.
	patient, err := sqlite.New(t.Context(), pool(t, "file:"+path+"?"+wal+"&"+keys+"&_txlock=immediate&_pragma=busy_timeout(600000)"), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := patient.Sessions().Commit(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a context that ends: got %v", err)
	}
	other.goOn()
	other.wait()
	if _, err := db.Sessions().Commit(t.Context(), c); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// 50 spawns at once at one below the ceiling: exactly one is admitted. (T-26)
func TestFiftySpawnsForOnePlace(t *testing.T) {
	db := fresh(t, nil)
	for range ceiling - 1 {
		if _, err := db.Sessions().Commit(t.Context(), spawn()); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	answers := make(chan error, 50)
	for range cap(answers) {
		all.Go(func() {
			c := spawn()
			c.Limits = []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: ceiling}}
			_, err := db.Sessions().Commit(t.Context(), c)
			answers <- err
		})
	}
	all.Wait()
	close(answers)
	admitted := 0
	for err := range answers {
		switch limit, ok := errors.AsType[*session.LimitError](err); {
		case err == nil:
			admitted++
		case !ok || limit.Kind != session.SessionsPerOwner || limit.Scope != "alice" || limit.Max != ceiling:
			t.Errorf("got %v", err)
		}
	}
	if admitted != 1 {
		t.Errorf("%d were admitted, want 1", admitted)
	}
}
