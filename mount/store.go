package mount

import (
	"context"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// MaxListed is the greatest number of rows on a page, and of what one call deletes.
const MaxListed = 100

// Store keeps mount rows, and remembers those that are deleted for as long as
// their content may be there. Its methods may be called concurrently, from
// many processes; the store's own clock dates rows. A limit is 1 to
// [MaxListed]: of any other, and of a bad page token, the error is a
// [*access.FieldError], with nothing written. The ids of a row have been checked.
type Store interface {
	// GetOrCreate returns the row with r.Scope and r.Slug, inserting r if
	// there is none, in one statement: of any number of callers at the same
	// instant all get the same row, and its id is the stored one. An existing
	// row is returned as [Row.Used] has it for r.CreatedBy, and stored so: an
	// archived one is back in use, with the files it had.
	GetOrCreate(ctx context.Context, r Row) (Row, error)
	// Create inserts r. ErrExists: its slug is taken in its scope, be it by an
	// archived row; that one stays as it is.
	Create(ctx context.Context, r Row) (Row, error)
	// Find returns the row with that scope and slug, or ErrNotFound. It never creates one.
	Find(ctx context.Context, scope, slug string) (Row, error)
	// Get returns the row with that id, or ErrNotFound.
	Get(ctx context.Context, id ID) (Row, error)
	// Update changes a row as [Row.Applied] has it and returns it. ErrNotFound:
	// it is not there. [*VersionError]: it has another version.
	Update(ctx context.Context, id ID, c Change) (Row, error)
	// List returns a page of the rows of a scope, oldest first, by id where
	// that is equal. Protected rows are left out before they are counted: a
	// page is short only where it is the last one.
	List(ctx context.Context, q ListQuery) (Page, error)

	// Scan returns at most limit rows of all scopes, archived and protected
	// ones too, in the order of their ids from behind after on.
	Scan(ctx context.Context, after ID, limit int) ([]Row, error)

	// Delete deletes at most limit rows of t, protected ones included, and
	// returns them. In the same transaction each leaves a tombstone, so that
	// nobody forgets content that is still there.
	Delete(ctx context.Context, t Target, limit int) ([]Row, error)
	// Tombstones returns at most limit of what rows left that are deleted, of
	// t where it has a scope or a session, in the order of their ids from
	// behind after on.
	Tombstones(ctx context.Context, t Target, after ID, limit int) ([]Tombstone, error)
	// Forget removes the tombstones of mounts whose content is gone. Those
	// that are not there do not matter.
	Forget(ctx context.Context, ids []ID) error
}

// ListQuery asks for a page of rows.
type ListQuery struct {
	Scope    string           // required
	Session  access.SessionID // only those of this session; empty = of any and none
	Agent    access.AgentID   // only those of this agent, in canonical form; empty = of any and none
	Archived bool             // archived ones too
	Limit    int
	After    string // Page.Next of the page before; empty = the first page
}

// Page is a page of a list.
type Page struct {
	Items []Row
	Next  string // for ListQuery.After; empty = this is the last page
}

// Target says which rows are meant to go. Delete takes exactly one of Scope,
// Session, ID and Archived; only with ID, Archived may be there too, and Version.
type Target struct {
	Scope    string           // all of a scope
	Session  access.SessionID // all of a session, in whichever scope
	Archived time.Duration    // all that have been in the archive for at least this long
	ID       ID               // that one
	Version  int64            // that it must have; 0 = whichever it has
}

// Check refuses what says nothing and what says two things: it is what stores
// answer Delete with, a [*access.FieldError] that names "target".
func (t Target) Check() error {
	set := 0
	for _, is := range []bool{t.Scope != "", t.Session != "", t.ID != "", t.Archived > 0 && t.ID == ""} {
		if is {
			set++
		}
	}
	if set != 1 || t.Archived < 0 || t.Version != 0 && t.ID == "" {
		return &access.FieldError{Field: "target", Rule: "must have exactly one of Scope, Session, ID and Archived, and Version only with ID"}
	}
	return nil
}

// Tombstone is what is left of a deleted row: enough to find its content.
type Tombstone struct {
	ID      ID
	Scope   string
	Session access.SessionID
}
