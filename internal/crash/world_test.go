//go:build linux

package crash

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

const project = access.ProjectID("p") // of every session

// world is what outlives a process: a directory with machines and a database.
type world struct {
	t        testing.TB
	program  string
	dir      string
	root     string   // of the machines
	database []string // the arguments that name it
	sessions session.Store
	leases   session.Leases
	ledger   billing.Ledger
	sql      *sql.DB
	postgres bool
	events   string           // the file of meter events
	works    map[string]*work // by id, as the processes have told of them
	marks    map[string]bool  // by which its processes are known
}

// backend makes the database of a world.
type backend struct {
	name string
	open func(w *world)
}

// In SQLite everything is looked at as it is a day later, so that every
// attempt and every lease of now has run out.
var (
	onSQLite = backend{"SQLite", func(w *world) {
		path := filepath.Join(w.dir, "rows.db")
		db, err := sqlite.Open(w.t.Context(), path, &sqlite.Options{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { db.Close() })
		w.sessions, w.leases, w.database = db.Sessions(), db.Leases(), []string{"-sqlite", path}
		w.ledger, w.sql = db.Ledger(), db.SQL()
	}}
	onPostgres = backend{"Postgres", func(w *world) {
		dsn := server.DSN(w.t)
		admin, err := postgres.Open(w.t.Context(), dsn, &postgres.Options{Connections: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		defer admin.Close()
		schema := fmt.Sprintf("crash_%d", schemas.Add(1))
		if _, err := admin.SQL().ExecContext(w.t.Context(), "CREATE SCHEMA "+schema); err != nil {
			w.t.Fatal(err)
		}
		dsn += " search_path=" + schema
		db, err := postgres.Open(w.t.Context(), dsn, &postgres.Options{Connections: 1})
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { db.Close() })
		w.sessions, w.leases, w.database = db.Sessions(), db.Leases(), []string{"-postgres", dsn}
		w.ledger, w.sql, w.postgres = db.Ledger(), db.SQL(), true
	}}
)

func newWorld(t testing.TB, program string, b backend) *world {
	t.Helper()
	w := &world{t: t, program: program, dir: directory(t), marks: map[string]bool{}, works: map[string]*work{}}
	w.root, w.events = filepath.Join(w.dir, "root"), filepath.Join(w.dir, "events")
	w.marks[w.root] = true
	b.open(w)
	return w
}

// memory is where files cost nothing: a file system on a disk slows down where
// hundreds of small files are made just after hundreds were removed, as here.
const memory = "/dev/shm"

// directory is a directory for one world, with a name that no other has.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory, "bunkroom-crash-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// meet learns which machines there are, whole or half made, so as to know their processes.
func (w *world) meet() (machines map[sandbox.Incarnation]string) {
	w.t.Helper()
	machines = map[sandbox.Incarnation]string{}
	found, err := filepath.Glob(filepath.Join(w.root, "*", "*", "machine.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		var record struct{ Incarnation sandbox.Incarnation }
		if err := json.Unmarshal(text, &record); err != nil {
			w.t.Fatalf("%s: %v", path, err)
		}
		w.marks[string(record.Incarnation)] = true
		machines[record.Incarnation] = filepath.Dir(path)
	}
	return machines
}

// nothingLeft fails the test unless machines, rows, outbox, leases, books and
// processes agree, and nothing is left to do. The process except may run; the
// accounts are topped up once none does.
func (w *world) nothingLeft(story string, sc scene, except int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	live := map[sandbox.Incarnation]bool{}
	for _, s := range w.snapshots(ctx, sc) {
		row := s.Sandbox
		switch {
		case row.State == sandbox.Live && (s.Session.Ended() || s.Environment.Deleted()):
			w.t.Errorf("the machine of an ended session or a deleted environment lives: %+v", row)
		case row.State == sandbox.Live:
			live[row.Incarnation] = true
		case row.State != sandbox.None:
			w.t.Errorf("a row is still %v: %+v", row.State, row)
		}
	}
	q := session.DueQuery{Kinds: session.DueCreating | session.DueDestroying | session.DueTombstones, Hosts: []string{w.host()}, Limit: 100}
	for due, err := range w.sessions.Due(ctx, q) {
		w.t.Errorf("left to do: %+v, %v", due, err)
	}
	if left, err := w.leases.Expired(ctx, 100); err != nil || len(left) > 0 {
		w.t.Errorf("leases that nobody gave back: %+v, %v", left, err)
	}
	for incarnation, dir := range w.meet() {
		if filepath.Base(filepath.Dir(dir)) != "machines" || !live[incarnation] {
			w.t.Errorf("a machine that no row names is left in %s", dir)
		}
		delete(live, incarnation)
	}
	if len(live) > 0 {
		w.t.Errorf("rows name machines that are not there: %v", live)
	}
	for _, dir := range []string{"new", "trash"} {
		if left, _ := filepath.Glob(filepath.Join(w.root, dir, "*")); len(left) > 0 {
			w.t.Errorf("left of machines: %v", left)
		}
	}
	w.books(ctx, story, except == 0)
	w.noProcess(except)
}

// snapshots are those of all that has a sandbox: the scene's, and what else there is in the project.
func (w *world) snapshots(ctx context.Context, sc scene) (found []session.Snapshot) {
	w.t.Helper()
	var at []session.Address
	for _, id := range sc.Sessions {
		at = append(at, session.Address{Session: id})
	}
	for _, id := range sc.Environments {
		at = append(at, session.Address{Environment: id})
	}
	for _, a := range at {
		s, err := w.sessions.Load(ctx, a)
		if errors.Is(err, session.ErrNotFound) {
			continue
		}
		if err != nil {
			w.t.Fatal(err)
		}
		found = append(found, s)
		if _, err := w.leases.Held(ctx, session.LeaseWork, string(a.Session)); a.Session != "" && !errors.Is(err, session.ErrNotFound) {
			w.t.Errorf("session %s is still worked in: %v", a.Session, err)
		}
	}
	page, err := w.sessions.List(ctx, session.ListQuery{Project: project, Ended: true, Limit: session.MaxListed})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(page.Items) > len(sc.Sessions) {
		w.t.Errorf("%d sessions, of which the scene has %d", len(page.Items), len(sc.Sessions))
	}
	return found
}

// host is the id of this machine as the provider has it.
func (w *world) host() string {
	w.t.Helper()
	id, err := os.ReadFile(filepath.Join(w.root, "host"))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(id)
}

// noProcess fails the test if a process of this world runs on for long, other than except.
func (w *world) noProcess(except int) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var left []string
	for end := time.After(20 * time.Second); ; {
		if left = w.processes(except); len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			w.t.Errorf("processes are left: %v", left)
			return
		}
	}
}

// processes are those that run in one of this world's machines, or were started with its directory.
func (w *world) processes(except int) (found []string) {
	w.t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == except {
			continue
		}
		files := []string{"cmdline", "environ"}
		if theirs, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns", "mnt")); err == nil && theirs != ours {
			files = append(files, "mountinfo") // only then can it be in a machine
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if err != nil {
				continue // it has ended, or is the kernel's own
			}
			if w.marked(string(text)) {
				line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
				found = append(found, fmt.Sprintf("%d by its %s: %q", pid, file, line))
				break
			}
		}
	}
	return found
}

func (w *world) marked(text string) bool {
	for mark := range w.marks {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
