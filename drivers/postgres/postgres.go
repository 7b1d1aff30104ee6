package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"io/fs"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Options are the settings of a [DB].
type Options struct {
	// Prefix begins the names of all tables, indexes, functions and triggers: 1 to
	// 31 lower-case letters, digits and underscores. Empty = "bunkroom_".
	Prefix string
	// Connections is how many [Open] has at most at the same time; 0 = 8. The
	// server has a limit for all replicas together, 100 by default. [New]
	// refuses it, since the pool it is given has its own.
	Connections int
}

// DB is a database. It may be used concurrently.
type DB struct {
	sql   *sql.DB
	store *sqlstore.DB
	owned bool // opened by us, hence ours to close

	channel string // of the notifications
}

// SchemaError says that the database's schema is not the one this program
// needs: Found is 0 before the first Migrate, Missing names what somebody
// removed. Every other method answers with it too, with the server's own
// error, where a table is not there.
type SchemaError = sqlstore.SchemaError

// New returns the stores of a database that the host has opened, with pgx's
// driver for database/sql, and will close. A server that can't serve is
// refused by a [*access.FieldError] that names the setting; one that can't be
// reached is a [*ServerError].
//
// Lists are sent as text without arguments. So that no connection prepares
// each of them, the data source name should have default_query_exec_mode=exec.
//
// opts may be nil.
func New(ctx context.Context, db *sql.DB, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	switch {
	case db == nil:
		return nil, &access.FieldError{Field: "db", Rule: "must not be nil"}
	case opts.Connections != 0:
		return nil, &access.FieldError{Field: "Connections", Rule: "is a setting of the pool; set it there"}
	}
	return newDB(ctx, db, opts, false)
}

func newDB(ctx context.Context, db *sql.DB, opts *Options, owned bool) (*DB, error) {
	store, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: dialect(), Prefix: opts.Prefix})
	if err != nil {
		return nil, err
	}
	if err := checkServer(ctx, db); err != nil {
		return nil, fault(err)
	}
	return &DB{sql: db, store: store, owned: owned, channel: cmp.Or(opts.Prefix, "bunkroom_") + "rings"}, nil
}

// Migrate creates or upgrades the tables. Any number of goroutines and
// replicas may do so at the same time, and again and again. It never runs by itself.
func (db *DB) Migrate(ctx context.Context) error { return db.store.Migrate(ctx) }

// CheckSchema reports whether the database has the tables, indexes, functions
// and triggers this program needs, all of them enabled; if not, the error is a
// [*SchemaError]. One that a later program has migrated will do.
func (db *DB) CheckSchema(ctx context.Context) error { return db.store.CheckSchema(ctx) }

// Migrations are what Migrate runs, as SQL files for other tools (bun/migrate
// and golang-migrate read them as they are), with the prefix of the tables;
// empty = "bunkroom_".
func Migrations(prefix string) (fs.FS, error) {
	return sqlstore.PrefixedMigrations("postgres", prefix)
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
// has begun and will commit or roll back. Each write is a savepoint: one that
// is refused leaves the transaction usable and without a trace.
//
// The transaction must be READ COMMITTED, which is the default. Writes in any
// other are refused with a [*access.FieldError], since it goes on seeing what
// was there when it began and so can't count.
//
// Locks last until the transaction ends, so it should end soon: until then
// others wait that want a place under the same ceiling, or write in the same
// conversation. They do so until their contexts end; but what waits inside of a host's transaction
// goes on waiting then, for to break a statement off would end that as well.
func (db *DB) In(tx *sql.Tx) *Tx { return &Tx{db.store.In(tx)} }

// Close closes the database, if it was opened by [Open]. Closing twice succeeds.
func (db *DB) Close() error {
	err := db.store.Close()
	if db.owned {
		err = db.sql.Close()
	}
	return err
}

// Tx is a database as seen and written by a transaction of the host. It may
// be used until the transaction ends, and by several goroutines at once, which
// take turns; not so two of them on one transaction.
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
