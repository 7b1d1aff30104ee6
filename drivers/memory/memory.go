package memory

import (
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Options are the settings of a [DB].
type Options struct {
	// Now is the clock that dates everything; nil = time.Now.
	Now func() time.Time
}

// DB is a database in memory. Its stores show the same rows as long as they
// come from the same DB. All methods may be called concurrently.
type DB struct {
	now func() time.Time

	mu            sync.Mutex
	seq           int64 // counts writes, to tell which came first
	sessions      map[session.ID]session.Session
	environments  map[session.EnvironmentID]session.Environment
	conversations map[session.ConversationID]session.Conversation
	bound         map[session.ID]map[session.ConversationID]bool // conversations by their session
	sandboxes     map[sandbox.ID]storedRow
	owned         map[owner]sandbox.ID // sandboxes by what they belong to
	outbox        map[sandbox.TombstoneKey]storedTombstone
	fence         int64 // of the latest lease; counted over all leases, so that it never restarts
	leases        map[leaseOn]map[string]session.Lease
	mounts        folders
	books         books
	talks         talks
}

// New returns an empty database. opts may be nil.
func New(opts *Options) *DB {
	db := &DB{
		now:           time.Now,
		sessions:      map[session.ID]session.Session{},
		environments:  map[session.EnvironmentID]session.Environment{},
		conversations: map[session.ConversationID]session.Conversation{},
		bound:         map[session.ID]map[session.ConversationID]bool{},
		sandboxes:     map[sandbox.ID]storedRow{},
		owned:         map[owner]sandbox.ID{},
		outbox:        map[sandbox.TombstoneKey]storedTombstone{},
		leases:        map[leaseOn]map[string]session.Lease{},
		mounts:        newFolders(),
		books:         newBooks(),
		talks:         newTalks(),
	}
	if opts != nil && opts.Now != nil {
		db.now = opts.Now
	}
	return db
}

// Sessions returns the store of sessions, conversations, sandboxes and the outbox.
func (db *DB) Sessions() session.Store { return sessionStore{db} }

// Leases returns the store of leases.
func (db *DB) Leases() session.Leases { return leaseStore{db} }

// Mounts returns the store of mounts.
func (db *DB) Mounts() mount.Store { return mountStore{db} }

// clock is the moment that one operation goes by.
func (db *DB) clock() time.Time { return moment(db.now()) }

// moment is t as it is kept: a database has no zone and nothing below a microsecond.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// next counts a write.
func (db *DB) next() int64 {
	db.seq++
	return db.seq
}
