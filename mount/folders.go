package mount

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

// Folder says which durable folder is meant: one of an agent, or one of a
// session. Exactly one of Agent and Session is set.
type Folder struct {
	Project access.ProjectID // empty = personal
	Owner   access.UserID    // whose, where Project is empty
	Agent   access.AgentID
	Session access.SessionID
	Name    string // empty = DefaultName, or of a session DefaultSessionName
}

// row is f's row as far as f tells: all but the id, the creator and the times.
func (f Folder) row() (Row, error) {
	scope, err := ScopeOf(f.Project, f.Owner)
	if err != nil {
		return Row{}, err
	}
	if f.Session != "" {
		return f.sessionRow(scope)
	}
	agent, err := CanonicalAgent(f.Agent)
	if err != nil {
		return Row{}, err
	}
	name, err := nameSlug(f.Name, DefaultName)
	if err != nil {
		return Row{}, err
	}
	return Row{Scope: scope, Slug: agentSlug(agent, name), Kind: KindAgent, Agent: agent, Name: name}, nil
}

func (f Folder) sessionRow(scope string) (Row, error) {
	if f.Agent != "" {
		return Row{}, &access.FieldError{Field: "agent", Rule: "must not be set where session is"}
	}
	if err := access.CheckID("session", f.Session); err != nil {
		return Row{}, err
	}
	name, err := sessionName(f.Name)
	if err != nil {
		return Row{}, err
	}
	return Row{Scope: scope, Slug: sessionSlug(f.Session, name), Kind: KindSession, Session: f.Session, Name: name}, nil
}

// same reports whether a stored row is what was meant: one slug has been two
// folders only where somebody made their ids collide.
func (r Row) same(want Row) bool {
	return r.Kind == want.Kind && r.Agent == want.Agent && r.Session == want.Session && r.Purpose == want.Purpose
}

// subject names whose folder a row is, for errors.
func (r Row) subject() string {
	if r.Kind == KindSession {
		return fmt.Sprintf("session %s: %s in %s", r.Session, r.Slug, r.Scope)
	}
	return fmt.Sprintf("agent %s: %s in %s", r.Agent, r.Slug, r.Scope)
}

// Folders gets, makes and finds the rows of the folders of agents and
// sessions. Whether those exist and the actor may use the folder has been
// decided before, as [Catalog] does: a row costs nothing, but a typing error would make one.
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
// none, and taken out of the archive if it was there. Any number of callers at
// once get the same row. A [*access.FieldError] names a bad field, ErrTaken
// says that the slug is another's; other errors are the store's.
func (s *Folders) GetOrCreate(ctx context.Context, f Folder, by access.UserID) (Row, error) {
	want, err := f.row()
	if err != nil {
		return Row{}, err
	}
	return s.getOrCreate(ctx, want, by)
}

func (s *Folders) getOrCreate(ctx context.Context, want Row, by access.UserID) (Row, error) {
	want, err := s.fresh(want, by)
	if err != nil {
		return Row{}, err
	}
	row, err := s.store.GetOrCreate(ctx, want)
	if err != nil {
		return Row{}, err
	}
	if !row.same(want) {
		return Row{}, fmt.Errorf("%w: %s", ErrTaken, want.subject())
	}
	return row, nil
}

// fresh is a row to insert.
func (s *Folders) fresh(r Row, by access.UserID) (Row, error) {
	if err := access.CheckOptionalID("by", by); err != nil {
		return Row{}, err
	}
	r.ID, r.Version, r.CreatedBy = ID(s.newID()), 1, by
	if _, ok := hexDigits(r.ID); !ok {
		return Row{}, &access.FieldError{Field: "NewID", Rule: "must mint canonical UUIDs"}
	}
	return r, nil
}

// Find returns the folder's row, be it in the archive, and never makes one:
// ErrNotFound where there is none. A [*access.FieldError] names a bad field;
// other errors are the store's.
func (s *Folders) Find(ctx context.Context, f Folder) (Row, error) {
	want, err := f.row()
	if err != nil {
		return Row{}, err
	}
	row, err := s.store.Find(ctx, want.Scope, want.Slug)
	if err != nil {
		return Row{}, err
	}
	if !row.same(want) {
		return Row{}, fmt.Errorf("%w: %s", ErrNotFound, want.subject())
	}
	return row, nil
}
