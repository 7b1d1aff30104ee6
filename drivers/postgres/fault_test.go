package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session"
)

// proxy is a way to the server that loses the replies to COMMIT, and to what
// is a transaction of its own, once it is told to.
type proxy struct {
	dir  string
	lost atomic.Bool // the server's replies to a COMMIT from now on
	sent atomic.Bool // a COMMIT has reached the server
}

// through starts a proxy and returns it with a data source name that leads through it.
func through(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	real := server.Dir(t)
	dir, err := os.MkdirTemp("/tmp", "pgproxy")
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{dir: dir}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("unix", filepath.Join(real, socket))
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { p.forward(client, upstream) })
		}
	})
	return p, strings.Replace(dsn, "host="+real, "host="+dir, 1)
}

// forward carries bytes both ways until one side closes. When a COMMIT is to
// be lost it is delivered, its reply is waited for, and the client is cut off.
func (p *proxy) forward(client, upstream net.Conn) {
	var committing atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := upstream.Read(buffer)
			if err != nil || committing.Load() {
				p.sent.Store(committing.Load())
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	var alone []byte // the name of the last statement that is prepared to be a transaction of its own
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if n > 0 {
			said := buffer[:n]
			binds := alone != nil && bytes.Contains(said, append([]byte{0}, alone...))
			if _, text, parses := bytes.Cut(said, []byte("P\x00\x00")); parses && (bytes.Contains(said, []byte("SELECT 1 / CASE")) || bytes.Contains(said, []byte("WITH t AS ("))) {
				name, _, _ := bytes.Cut(text[2:], []byte{0})
				alone = append(bytes.Clone(name), 0)
			}
			if p.lost.Load() && (binds || bytes.Contains(bytes.ToLower(said), []byte("commit\x00"))) {
				committing.Store(true)
			}
			if _, err := upstream.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	upstream.Close()
	<-done
}

// A COMMIT that the server performed and whose reply is lost is ErrUnknown,
// and the next load tells.
func TestLostReplyIsUnknown(t *testing.T) {
	_, dsn := schema(t)
	direct := opened(t, dsn, nil)
	if err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, leading := through(t, dsn)
	db := opened(t, leading, &postgres.Options{Connections: 1})
	commit(t, db.Sessions(), spawn("p"))
	p.lost.Store(true)
	c := spawn("p")
	if _, err := db.Sessions().Commit(t.Context(), c); !errors.Is(err, session.ErrUnknown) || !p.sent.Load() {
		t.Fatalf("got %v, delivered %t, want ErrUnknown", err, p.sent.Load())
	}
	p.lost.Store(false)
	load(t, direct.Sessions(), session.Address{Session: c.Session.ID})
	load(t, db.Sessions(), session.Address{Session: c.Session.ID}) // with a new connection
}

// A server process that is ended in the middle of a COMMIT leaves the outcome
// unknown; what it refuses in one is surely not written.
func TestEndedInCommit(t *testing.T) {
	db := migrated(t)
	run(t, db, `CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF NEW.name = 'end' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
		IF NEW.name = 'refuse' THEN RAISE EXCEPTION 'refused'; END IF;
		IF NEW.name = 'serialize' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '40001'; END IF;
		RETURN NULL; END $$`)
	run(t, db, `CREATE CONSTRAINT TRIGGER strike AFTER INSERT ON bunkroom_sessions DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION strike()`)
	for name, want := range map[string]struct{ unknown, stale bool }{"end": {true, false}, "refuse": {false, false}, "serialize": {false, true}} {
		c := spawn("p")
		c.Session.Name = name
		_, err := db.Sessions().Commit(t.Context(), c)
		if err == nil || errors.Is(err, session.ErrUnknown) != want.unknown || errors.Is(err, session.ErrStale) != want.stale {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%s: Load: got %v, want ErrNotFound", name, err)
		}
	}
}

// held begins a transaction that has the session to itself, so that a commit
// which changes it waits, and returns what ends the transaction.
func held(t *testing.T, db *postgres.DB, id session.ID) *sql.Tx {
	t.Helper()
	tx, err := db.SQL().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec("SELECT 1 FROM bunkroom_sessions WHERE id = $1 FOR UPDATE", string(id)); err != nil {
		t.Fatal(err)
	}
	return tx
}

// A connection that is lost before the COMMIT has written nothing, and says so: it is not ErrUnknown.
func TestEndedBeforeCommit(t *testing.T) {
	dbs := replicas(t)
	c := commit(t, dbs[0].Sessions(), spawn("p"))
	tx := held(t, dbs[0], c.Session.ID)
	answer := make(chan error)
	go func() {
		_, err := dbs[1].Sessions().Commit(t.Context(), session.Change{Session: c.Session, End: true})
		answer <- err
	}()
	blocked(t, dbs[0])
	run(t, dbs[0], "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
	if err := <-answer; err == nil || errors.Is(err, session.ErrUnknown) || errors.Is(err, session.ErrStale) {
		t.Errorf("got %v, want an error that is neither", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := load(t, dbs[1].Sessions(), session.Address{Session: c.Session.ID}); got.Session.Version != 1 {
		t.Errorf("got %+v", got.Session)
	}
}

// Who waits for a lock stops when its context ends, and so does the server's process; nothing is written.
func TestContextEndsWhileWaiting(t *testing.T) {
	dbs := replicas(t)
	c := commit(t, dbs[0].Sessions(), spawn("p"))
	held(t, dbs[0], c.Session.ID)
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := dbs[1].Sessions().Commit(ctx, session.Change{Session: c.Session, End: true})
		answer <- err
	}()
	blocked(t, dbs[0])
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for count(t, dbs[0], "SELECT count(*) FROM pg_locks WHERE NOT granted") > 0 {
		<-tick.C // the test's own limit of time is the one that counts
	}
	if got := load(t, dbs[1].Sessions(), session.Address{Session: c.Session.ID}); got.Session.Version != 1 {
		t.Errorf("got %+v", got.Session)
	}
}

// Who waits for a connection of the pool stops when its context ends.
func TestContextEndsInTheQueue(t *testing.T) {
	db := migrated(t)
	db.SQL().SetMaxOpenConns(1)
	conn, err := db.SQL().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := db.Sessions().Commit(ctx, spawn("p")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	commit(t, db.Sessions(), spawn("p"))
}
