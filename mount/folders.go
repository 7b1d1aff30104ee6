package mount

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

// Folder says which durable folder of an agent is meant.
type Folder struct {
	Project access.ProjectID // empty = personal
	Owner   access.UserID    // whose, where Project is empty
	Agent   access.AgentID   // required
	Name    string           // empty = DefaultName
}

// row is f's row as far as f tells: all but the id, the creator and the times.
func (f Folder) row() (Row, error) {
	scope, err := ScopeOf(f.Project, f.Owner)
	if err != nil {
		return Row{}, err
	}
	agent, err := CanonicalAgent(f.Agent)
	if err != nil {
		return Row{}, err
	}
	name, err := nameSlug(f.Name)
	if err != nil {
		return Row{}, err
	}
	return Row{Scope: scope, Slug: agentSlug(agent, name), Kind: KindAgent, Agent: agent, Name: name}, nil
}

// Folders gets, makes and finds the rows of agents' folders. Whether the agent
// exists and the actor may use its folder has been decided before: a row
// costs nothing, but a typing error would make one.
type Folders struct {
	store Store
	newID func() string
}

// FoldersConfig is the configuration of [Folders].
type FoldersConfig struct {
	Store Store         // required
	NewID func() string // mints ids, canonical UUIDs; nil = version 7
}

// NewFolders returns folders over a store. The error is a [*access.FieldError].
func NewFolders(c FoldersConfig) (*Folders, error) {
	if c.Store == nil {
		return nil, &access.FieldError{Field: "Store", Rule: "must be set"}
	}
	if c.NewID == nil {
		c.NewID = id.New
	}
	return &Folders{store: c.Store, newID: c.NewID}, nil
}

// GetOrCreate returns the folder's row, made now for the user by if there was
// none. Any number of callers at once get the same row. A [*access.FieldError]
// names a bad field, ErrTaken says that the slug is another agent's; other errors are the store's.
func (s *Folders) GetOrCreate(ctx context.Context, f Folder, by access.UserID) (Row, error) {
	want, err := f.row()
	if err != nil {
		return Row{}, err
	}
	if err := access.CheckOptionalID("by", by); err != nil {
		return Row{}, err
	}
	want.ID, want.CreatedBy = ID(s.newID()), by
	if _, ok := hexDigits(want.ID); !ok {
		return Row{}, &access.FieldError{Field: "NewID", Rule: "must mint canonical UUIDs"}
	}
	row, err := s.store.GetOrCreate(ctx, want)
	if err != nil {
		return Row{}, err
	}
	if row.Kind != want.Kind || row.Agent != want.Agent {
		return Row{}, fmt.Errorf("%w: agent %s: %s in %s", ErrTaken, want.Agent, want.Slug, want.Scope)
	}
	return row, nil
}

// Find returns the folder's row and never makes one: ErrNotFound where there
// is none. A [*access.FieldError] names a bad field; other errors are the store's.
func (s *Folders) Find(ctx context.Context, f Folder) (Row, error) {
	want, err := f.row()
	if err != nil {
		return Row{}, err
	}
	row, err := s.store.Find(ctx, want.Scope, want.Slug)
	if err != nil {
		return Row{}, err
	}
	if row.Kind != want.Kind || row.Agent != want.Agent {
		return Row{}, fmt.Errorf("%w: agent %s: %s in %s", ErrNotFound, want.Agent, want.Slug, want.Scope)
	}
	return row, nil
}
