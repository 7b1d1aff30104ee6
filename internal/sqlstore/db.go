package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/session"
)

// Config is what [New] needs. All but Writer, Prefix and Now is required.
type Config struct {
	DB *sql.DB // stays the caller's to close
	// Writer is a pool of the same database, of which one connection is kept to
	// write on; its transactions may be begun immediately. It stays the caller's to close. nil = DB.
	Writer  *sql.DB
	Dialect Dialect
	Prefix  string           // of all names; empty = "bunkroom_"
	Now     func() time.Time // dates everything where the database has no clock; nil = time.Now
}

// DB is a database. It may be used concurrently.
type DB struct{ view }

// New returns the stores of a database. It does not touch it: see [DB.Migrate].
func New(c Config) (*DB, error) {
	prefix, err := checkPrefix(c.Prefix)
	if err != nil {
		return nil, err
	}
	s := &store{
		db: c.DB, dialect: c.Dialect, prefix: prefix, now: c.Now,
		bun: bun.NewDB(c.DB, c.Dialect.Bun),
	}
	if c.Dialect.Keys == "" {
		s.writer = &writer{going: sharedFor}
		if c.Writer != nil {
			s.line = &line{pool: c.Writer}
		}
	}
	if s.now == nil {
		s.now = time.Now
	}
	return &DB{view{store: s}}, nil
}

// In returns the same stores inside a transaction that the host has begun on
// the same *sql.DB and will commit or roll back. Each write is then a
// savepoint: one that is refused leaves the transaction usable and without a trace.
func (db *DB) In(tx *sql.Tx) *Tx {
	return &Tx{view{store: db.store, host: tx, turn: make(chan struct{}, 1)}}
}

// Close gives up the prepared statements, and the connection that is written
// on: what has Config.Writer writes nothing afterwards. Each *sql.DB stays open.
func (db *DB) Close() error {
	if s := db.store; s.line != nil {
		give, err := s.alone(context.Background())
		if err != nil {
			return err
		}
		s.line.close()
		give()
	}
	return db.store.statements.close()
}

// Tx is a database as a transaction of the host sees and writes it. It may be
// used as long as the transaction itself, and by several goroutines at once:
// they take turns. (Those that each call [DB.In] don't.)
type Tx struct{ view }

// view is a database seen from outside any transaction, or from the host's.
type view struct {
	store *store
	host  *sql.Tx
	turn  chan struct{} // with host: it is full while one reads, or has a savepoint
}

// Sessions returns the store of sessions, conversations, sandboxes and the outbox.
func (v view) Sessions() session.Store { return sessions{v} }

// Leases returns the store of leases.
func (v view) Leases() session.Leases { return leases{v} }

// Mounts returns the store of mounts.
func (v view) Mounts() mount.Store { return mounts{v} }

// store is what all views of one database share.
type store struct {
	db         *sql.DB
	bun        *bun.DB
	dialect    Dialect
	prefix     string
	now        func() time.Time
	statements statements
	made       sync.Map // texts of statements by what they are made of: tabled, loadingShape
	accounts   turns    // of those of our own transactions that are about one account
	crowds     crowds   // of those who append to one conversation, where the database has many writers at once
	readers    readers
	writer     *writer // nil where the database has many writers at once
	line       *line   // what is written on; nil = any connection
}

// text is a fixed statement as this database is to be told it.
func (s *store) text(statement string) string {
	d := s.dialect
	said := strings.NewReplacer("LOCKED", d.Keys, "FRESH", cmp.Or(d.Fresh, "TRUE"), "BRIEFLY", cmp.Or(d.Briefly, "TRUE"))
	return d.Text(s.named(said.Replace(statement)))
}

// named is text with the prefix of this database.
func (s *store) named(text string) string { return prefixed(text, s.prefix) }

const defaultPrefix = "bunkroom_"

func prefixed(text, prefix string) string { return strings.ReplaceAll(text, defaultPrefix, prefix) }

func checkPrefix(p string) (string, error) {
	switch {
	case p == "":
		return defaultPrefix, nil
	case !regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`).MatchString(p), strings.HasPrefix(p, "sqlite_"), strings.HasPrefix(p, "pg_"):
		return "", &access.FieldError{Field: "Prefix", Rule: "must be 1 to 31 lower-case letters, digits and underscores, begin with a letter and not with sqlite_ or pg_"}
	}
	return p, nil
}
