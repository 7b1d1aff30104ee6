package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"time"

	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Options are the settings of a [DB].
type Options struct {
	// Now is the clock that dates everything; nil = time.Now.
	Now func() time.Time
	// Prefix begins the names of all tables, indexes and triggers: 1 to 31
	// lower-case letters, digits and underscores. Empty = "bunkroom_".
	Prefix string

	// Writer, for [New], is a second pool of the same file, with the same
	// settings. One connection of it is kept to write on, which takes a good
	// quarter off what small writes cost. It stays the host's to close, once the
	// [DB] is closed. nil = writes go by any connection. [Open] has one of its own, and refuses it.
	Writer *sql.DB

	// The following are of the connections. [Open] sets them; [New] refuses
	// them, since the connections it is given have theirs.

	// BusyTimeout is how long a write waits for another process; 0 = 10 seconds.
	BusyTimeout time.Duration
	// Synchronous says what a commit waits for.
	Synchronous Synchronous
}

// Synchronous says what a commit waits for.
type Synchronous uint8

// The settings.
const (
	// Normal: a commit outlives the process. The latest ones may be undone,
	// but nothing is damaged, when the power fails.
	Normal Synchronous = iota
	// Full: a commit is on the disk. Each costs a flush.
	Full
)

// DB is a database. It may be used concurrently.
type DB struct {
	sql   *sql.DB
	store *sqlstore.DB
	owned []*sql.DB // opened by us, hence ours to close
}

// SchemaError says that the database's schema is not the one this program
// needs: Found is 0 before the first Migrate, Missing names what somebody removed.
type SchemaError = sqlstore.SchemaError

// New returns the stores of a database that the host has opened, with the
// driver of modernc.org/sqlite, and will close. It refuses, by a
// [*access.FieldError] that names the setting, a database that is not a file,
// and one whose connections don't have journal_mode WAL, foreign_keys on and
// a busy_timeout. Settings are of single connections, so they belong in the
// data source name:
//
//	file:PATH?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)&_txlock=immediate
//
// opts may be nil.
func New(ctx context.Context, db *sql.DB, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	const inName = "is a setting of the connections; set it in the data source name"
	switch {
	case db == nil:
		return nil, &access.FieldError{Field: "db", Rule: "must not be nil"}
	case opts.Writer == db:
		return nil, &access.FieldError{Field: "Writer", Rule: "must be another pool than that of the database"}
	case opts.BusyTimeout != 0:
		return nil, &access.FieldError{Field: "BusyTimeout", Rule: inName}
	case opts.Synchronous != Normal:
		return nil, &access.FieldError{Field: "Synchronous", Rule: inName}
	}
	if err := checkConnections(ctx, db, "db", networkFS); err != nil {
		return nil, err
	}
	if opts.Writer != nil {
		if err := checkWriter(ctx, db, opts.Writer); err != nil {
			return nil, err
		}
	}
	return newDB(db, opts.Writer, opts)
}

func newDB(db, writer *sql.DB, opts *Options) (*DB, error) {
	store, err := sqlstore.New(sqlstore.Config{DB: db, Writer: writer, Dialect: dialect(), Prefix: opts.Prefix, Now: opts.Now})
	if err != nil {
		return nil, err
	}
	return &DB{sql: db, store: store}, nil
}

// Migrate creates or upgrades the tables. Any number of goroutines and
// processes may do so at the same time, and again and again. It never runs by itself.
func (db *DB) Migrate(ctx context.Context) error { return db.store.Migrate(ctx) }

// CheckSchema reports whether the database has the tables, indexes and
// triggers this program needs; if not, the error is a [*SchemaError]. One
// that a later program has migrated will do.
func (db *DB) CheckSchema(ctx context.Context) error { return db.store.CheckSchema(ctx) }

// Migrations are what Migrate runs, as SQL files for other tools (bun/migrate
// and golang-migrate read them as they are), with the prefix of the tables;
// empty = "bunkroom_".
func Migrations(prefix string) (fs.FS, error) {
	return sqlstore.PrefixedMigrations("sqlite", prefix)
}

// Sessions returns the store of sessions, conversations, sandboxes and the outbox.
func (db *DB) Sessions() session.Store { return db.store.Sessions() }

// Leases returns the store of leases.
func (db *DB) Leases() session.Leases { return db.store.Leases() }

// Transcripts returns the store of what was said in conversations.
func (db *DB) Transcripts() transcript.Store { return db.store.Transcripts() }

// Inbox returns the store of the inputs that wait in conversations.
func (db *DB) Inbox() transcript.Inbox { return db.store.Inbox() }

// Mounts returns the store of mounts.
func (db *DB) Mounts() mount.Store { return db.store.Mounts() }

// Ledger returns the ledger of accounts.
func (db *DB) Ledger() billing.Ledger { return db.store.Ledger() }

// SQL returns the database itself, for the host's own tables and
// transactions. It is closed by whoever opened it.
func (db *DB) SQL() *sql.DB { return db.sql }

// In returns the same stores inside a transaction of [DB.SQL], which the host
// has begun and will commit or roll back. A write that is refused leaves the
// transaction usable and without a trace. The transaction should be immediate
// (_txlock=immediate, as Open has it): one that has only read so far may find
// that somebody else has written since, which is a [*BusyError], and waits for
// somebody else's lock up to the busy timeout, whatever becomes of its context.
func (db *DB) In(tx *sql.Tx) *Tx { return &Tx{db.store.In(tx)} }

// Close closes the database, if it was opened by [Open]. One with
// [Options.Writer] gives up the connection that it has kept, and writes nothing afterwards. Closing twice succeeds.
func (db *DB) Close() error {
	err := db.store.Close()
	for _, pool := range db.owned {
		err = errors.Join(err, pool.Close())
	}
	return err
}

// Tx is a database as seen and written by a transaction of the host. It may
// be used until the transaction ends.
type Tx struct{ store *sqlstore.Tx }

// Sessions returns the store of sessions, conversations, sandboxes and the outbox.
func (tx *Tx) Sessions() session.Store { return tx.store.Sessions() }

// Leases returns the store of leases.
func (tx *Tx) Leases() session.Leases { return tx.store.Leases() }

// Transcripts returns the store of what was said in conversations.
func (tx *Tx) Transcripts() transcript.Store { return tx.store.Transcripts() }

// Inbox returns the store of the inputs that wait in conversations.
func (tx *Tx) Inbox() transcript.Inbox { return tx.store.Inbox() }

// Mounts returns the store of mounts.
func (tx *Tx) Mounts() mount.Store { return tx.store.Mounts() }

// Ledger returns the ledger of accounts. A post, say, is then written with the host's own rows, or not at all.
func (tx *Tx) Ledger() billing.Ledger { return tx.store.Ledger() }
