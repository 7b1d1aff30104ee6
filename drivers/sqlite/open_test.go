package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
)

// A path that can't be a database's is refused by name, before anything is opened or created.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.db")
	for _, bad := range []struct {
		path  string
		opts  sqlite.Options
		field string
		says  string
	}{
		{"", sqlite.Options{}, "path", "empty"},
		{":memory:", sqlite.Options{}, "path", "drivers/memory"},
		{"file::memory:?cache=shared", sqlite.Options{}, "path", "drivers/memory"},
		{"file:x.db", sqlite.Options{}, "path", "URI"},
		{"x\x00.db", sqlite.Options{}, "path", "NUL"},
		{good, sqlite.Options{Prefix: "No"}, "Prefix", ""},
		{good, sqlite.Options{BusyTimeout: -1}, "BusyTimeout", ""},
		{good, sqlite.Options{BusyTimeout: time.Microsecond}, "BusyTimeout", ""},
		{good, sqlite.Options{Synchronous: 9}, "Synchronous", ""},
		{good, sqlite.Options{Writer: new(sql.DB)}, "Writer", ""},
	} {
		_, err := sqlite.Open(t.Context(), bad.path, &bad.opts)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != bad.field || !strings.Contains(e.Rule, bad.says) {
			t.Errorf("path %q, options %+v: got %v, want a FieldError of %s that says %q", bad.path, bad.opts, err, bad.field, bad.says)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}

// Each way in which a file can't serve has its reason and its cause, and what was there is untouched.
func TestOpenUnusableFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const prose = "This is a text of more than a hundred bytes, so that it is long enough to have the header that a database begins with."
	readOnly := filepath.Join(dir, "readonly.db")
	db, err := sqlite.Open(t.Context(), readOnly, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Migrate(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	header, err := os.OpenFile(readOnly, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// A format that may be read and not written: so is the file, for root too.
	if _, err := header.WriteAt([]byte{9}, 18); err != nil {
		t.Fatal(err)
	}
	header.Close()

	for _, bad := range []struct {
		path   string
		reason sqlite.FileReason
		cause  error
	}{
		{filepath.Join(dir, "absent", "x.db"), sqlite.NoFolder, fs.ErrNotExist},
		{filepath.Join(file("plain", "x"), "x.db"), sqlite.NoFolder, nil},
		{dir, sqlite.NotRegular, nil},
		{"/dev/null", sqlite.NotRegular, nil},
		{file("prose.db", prose), sqlite.NotADatabase, nil},
		{readOnly, sqlite.NotWritable, nil},
	} {
		before, _ := os.ReadFile(bad.path)
		_, err := sqlite.Open(t.Context(), bad.path, nil)
		e, ok := errors.AsType[*sqlite.FileError](err)
		if !ok || e.Reason != bad.reason || e.Path != bad.path || bad.cause != nil && !errors.Is(err, bad.cause) {
			t.Errorf("%s: got %v, want reason %v", bad.path, err, bad.reason)
			continue
		}
		if !strings.Contains(err.Error(), bad.path) || !strings.Contains(err.Error(), bad.reason.String()) {
			t.Errorf("%s: the error %q does not tell file and reason", bad.path, err)
		}
		if status, code, _ := e.Problem(); status != 500 || code != "database_unusable" {
			t.Errorf("%s: problem %d %s", bad.path, status, code)
		}
		if after, _ := os.ReadFile(bad.path); string(after) != string(before) {
			t.Errorf("%s: what it held was changed", bad.path)
		}
	}
}

// Any name a file can have will do, and a relative path is meant once: where it is when opened.
func TestOpenOddNames(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"plain.db", "with space", "what?.db", "100%.db", "a#b&c=d.db", "%41.db", "ünï.db", "it's.db", "file.db?mode=memory"} {
		db, err := sqlite.Open(t.Context(), name, nil)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if err := errors.Join(db.Migrate(t.Context()), db.Close(), db.Close()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%q: not there: %v", name, err)
		}
	}
}

// The settings are in force on every connection of the pool, not only the first.
func TestSettingsAreInForce(t *testing.T) {
	for _, want := range []struct {
		opts        *sqlite.Options
		synchronous int // 1 = NORMAL, 2 = FULL
		busy        int
	}{
		{nil, 1, 10_000},
		{&sqlite.Options{Synchronous: sqlite.Full, BusyTimeout: 1234 * time.Millisecond}, 2, 1234},
	} {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), want.opts)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for range 4 {
			conn, err := db.SQL().Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close() // held, so that the next is another
			for pragma, value := range map[string]string{
				"journal_mode": "wal", "foreign_keys": "1",
				"synchronous": fmt.Sprint(want.synchronous), "busy_timeout": fmt.Sprint(want.busy),
			} {
				var got string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != value {
					t.Errorf("%s is %q, %v, want %s", pragma, got, err, value)
				}
			}
		}
	}
}

// pool is a host's own database.
func pool(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const (
	wal  = "_pragma=journal_mode(WAL)"
	keys = "_pragma=foreign_keys(1)"
	busy = "_pragma=busy_timeout(10000)"
)

// A host's database whose connections are not set as they must be is refused
// by the name of the setting, also where only the first connection was set.
func TestNewRefuses(t *testing.T) {
	file := "file:" + filepath.Join(t.TempDir(), "host.db") + "?"
	byHand := pool(t, file+wal+"&"+busy)
	byHand.SetMaxIdleConns(1)
	if _, err := byHand.Exec("PRAGMA foreign_keys = 1"); err != nil {
		t.Fatal(err)
	}
	same := pool(t, file+wal+"&"+keys+"&"+busy)
	for _, bad := range []struct {
		db    *sql.DB
		opts  *sqlite.Options
		field string
	}{
		{nil, nil, "db"},
		{pool(t, ":memory:?"+keys+"&"+busy), nil, "db"},
		{pool(t, "file:"+filepath.Join(t.TempDir(), "rollback.db")+"?"+keys+"&"+busy), nil, "journal_mode"},
		{pool(t, file+wal+"&"+busy), nil, "foreign_keys"},
		{byHand, nil, "foreign_keys"},
		{pool(t, file+wal+"&"+keys), nil, "busy_timeout"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{BusyTimeout: time.Second}, "BusyTimeout"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{Synchronous: sqlite.Full}, "Synchronous"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{Prefix: "-"}, "Prefix"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{Writer: pool(t, file+wal+"&"+busy)}, "foreign_keys"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{Writer: pool(t, ":memory:?"+keys+"&"+busy)}, "Writer"},
		{pool(t, file+wal+"&"+keys+"&"+busy), &sqlite.Options{Writer: pool(t, "file:"+filepath.Join(t.TempDir(), "other.db")+"?"+wal+"&"+keys+"&"+busy)}, "Writer"},
		{same, &sqlite.Options{Writer: same}, "Writer"}, // which may have no connection but the one that is kept
	} {
		_, err := sqlite.New(t.Context(), bad.db, bad.opts)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != bad.field {
			t.Errorf("got %v, want a FieldError of %s", err, bad.field)
		}
	}
}

// A host's database stays open when ours is closed, and works with one connection.
func TestNewLeavesClosingToTheHost(t *testing.T) {
	host := pool(t, "file:"+filepath.Join(t.TempDir(), "host.db")+"?"+busy+"&"+wal+"&"+keys)
	host.SetMaxOpenConns(1)
	db, err := sqlite.New(t.Context(), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := spawn()
		if _, err := db.Sessions().Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Sessions().Load(t.Context(), session.Address{Session: c.Session.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(db.Close(), db.Close(), host.PingContext(t.Context())); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// A host's transactions that don't begin as immediate ones do no harm: each
// write takes the lock first. Where the host's own has read before, and
// somebody else has written since, that is a BusyError.
func TestDeferredTransactions(t *testing.T) {
	host := pool(t, "file:"+filepath.Join(t.TempDir(), "host.db")+"?"+busy+"&"+wal+"&"+keys)
	db, err := sqlite.New(t.Context(), host, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Sessions().Commit(t.Context(), session.Change{Session: &session.Session{ID: counter, Owner: "bob", Name: "0"}}); err != nil {
		t.Fatal(err)
	}
	second, err := sqlite.New(t.Context(), host, nil) // with a writer's turn of its own
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := spawnMany(t.Context(), second)
		done <- err
	}()
	_, err = spawnMany(t.Context(), db)
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	snap, err := db.Sessions().Load(t.Context(), session.Address{Session: counter})
	if err != nil || snap.Session.Name != fmt.Sprint(2*renames) {
		t.Errorf("counted to %q, %v; want %d", snap.Session.Name, err, 2*renames)
	}

	tx, err := host.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := db.In(tx).Sessions().Load(t.Context(), session.Address{Session: counter}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Sessions().Commit(t.Context(), spawn()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.In(tx).Sessions().Commit(t.Context(), spawn()); !errors.As(err, new(*sqlite.BusyError)) {
		t.Errorf("got %v, want a BusyError", err)
	}
}

// What was not migrated says so, whatever is asked of it, and works once it is.
func TestUnmigratedSaysSo(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "b.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ask := func() map[string]error {
		_, load := db.Sessions().Load(t.Context(), session.Address{Session: "s"})
		_, commit := db.Sessions().Commit(t.Context(), session.Change{Conversation: &session.Conversation{ID: "c", Owner: "o"}})
		_, list := db.Sessions().List(t.Context(), session.ListQuery{Owner: "o", Limit: 1})
		_, expired := db.Leases().Expired(t.Context(), 1)
		_, find := db.Mounts().Find(t.Context(), "user:o", "slug")
		return map[string]error{"load": load, "commit": commit, "list": list, "expired": expired, "find": find}
	}
	for what, err := range ask() {
		if _, ok := errors.AsType[*sqlite.SchemaError](err); !ok {
			t.Errorf("%s: %v, want a SchemaError", what, err)
		}
	}
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, err := range ask() {
		if _, ok := errors.AsType[*sqlite.SchemaError](err); ok {
			t.Errorf("%s, migrated: %v", what, err)
		}
	}
}
