package mount

import (
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// ID is a mount's id, minted by Bunkroom. It is part of where its files are
// kept: to keep the id is to keep the files.
type ID string

// Kind is what a mount is for. It is the service's own column: nothing reads it out of a slug.
type Kind uint8

// The kinds.
const (
	KindAgent   Kind = 1 // the durable folder of one agent
	KindSession Kind = 2 // a folder of one session, and gone with it
	KindCustom  Kind = 3 // made by hand, under a slug of the caller's
)

// Purpose classes mounts that the service has for itself. A mount that has a
// purpose is protected: see [Row.Protected].
type Purpose string

// PurposeAttachments is the session mount of what users have attached, as they sent it.
const PurposeAttachments Purpose = "attachments"

// Row names a durable folder. It holds nothing of its content.
//
// Name, Description and Meta are the user's to edit; everything else is the
// service's own.
type Row struct {
	ID      ID
	Version int64  // from 1; raised by each [Store.Update], and where GetOrCreate takes the row out of the archive
	Scope   string // see ScopeOf; part of every key, query and prefix
	Slug    string // unique within the scope; see AgentSlug, SessionSlug
	Kind    Kind
	Purpose Purpose          // empty = the users' own
	Agent   access.AgentID   // KindAgent: whose, in canonical form; see CanonicalAgent
	Session access.SessionID // KindSession: whose

	Name        string // a label; at first the name's slug, such as "default"
	Description string
	Meta        string // a JSON object of the host's own, or empty; nothing reads it

	CreatedBy  access.UserID
	CreatedAt  time.Time     // the store's clock, as the other times
	UpdatedBy  access.UserID // of the latest change, use through GetOrCreate included
	UpdatedAt  time.Time
	ArchivedBy access.UserID
	ArchivedAt time.Time // zero = in use
}

// Archived reports whether the mount has been put away. Its files are as they were.
func (r Row) Archived() bool { return !r.ArchivedAt.IsZero() }

// Protected reports whether the mount is the service's own: nobody has it by its id, and no list shows it.
func (r Row) Protected() bool { return r.Purpose != "" }

// facts are what package access has to know.
func (r Row) facts() access.MountFacts {
	project, owner := belongs(r.Scope)
	return access.MountFacts{Owner: owner, Project: project, Protected: r.Protected()}
}

// belongs is whose a scope is: the reverse of [ScopeOf]. What is no scope is nobody's.
func belongs(scope string) (project access.ProjectID, owner access.UserID) {
	if id, ok := strings.CutPrefix(scope, scopeProject); ok {
		return access.ProjectID(id), ""
	}
	id, _ := strings.CutPrefix(scope, scopeUser)
	if scopeUser+id != scope {
		return "", ""
	}
	return "", access.UserID(id)
}
