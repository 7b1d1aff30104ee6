package mount

import "context"

// Store keeps mount rows. Its methods may be called concurrently, from many
// processes; the store's own clock dates rows.
type Store interface {
	// GetOrCreate returns the row with r.Scope and r.Slug, inserting r if
	// there is none, in one statement: of any number of callers at the same
	// instant all get the same row, and its id is the stored one. An existing
	// row is returned as it is, but for UpdatedAt.
	GetOrCreate(ctx context.Context, r Row) (Row, error)
	// Find returns the row with that scope and slug, or ErrNotFound. It never creates one.
	Find(ctx context.Context, scope, slug string) (Row, error)
}
