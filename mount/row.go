package mount

import (
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
	KindAgent Kind = 1 // the durable folder of one agent
)

// Row names a durable folder. It holds nothing of its content.
type Row struct {
	ID    ID
	Scope string // see ScopeOf; part of every key, query and prefix
	Slug  string // unique within the scope; see AgentSlug
	Kind  Kind
	Agent access.AgentID // KindAgent: whose, in canonical form; see CanonicalAgent
	Name  string         // the name's slug: "default"

	CreatedBy access.UserID
	CreatedAt time.Time // the store's clock, as UpdatedAt
	UpdatedAt time.Time // when GetOrCreate last returned the row
}
