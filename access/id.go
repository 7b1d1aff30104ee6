package access

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The ids of the house. Each is a type of its own, so that an id of one kind
// can't be passed, compared or derived where another is meant. Ids address,
// names label: nothing is ever looked up by a name.
//
// UserID, ProjectID and AgentID are the host's and opaque: 1 to [MaxID] bytes
// of UTF-8 without NUL. The others are minted by Bunkroom as UUIDs (version 7).
type (
	// UserID is a person known to the host. Empty means nobody.
	UserID string
	// ProjectID is the host's tenant-like container with an owner and
	// members. Empty means none: what has no project is personal, its owner's alone.
	ProjectID string
	// AgentID is an agent the host has configured. Empty means the personal assistant.
	AgentID string
	// SessionID is a project-level working context. It is never a conversation's id.
	SessionID string
	// ConversationID is one thread with one agent.
	ConversationID string
	// ShellID is one named terminal process in a session's sandbox.
	ShellID string
	// EnvironmentID is a sandbox that outlives sessions and that several of them borrow.
	EnvironmentID string
)

// MaxID is the greatest length of a host's id, in bytes.
const MaxID = 256

// MaxName is the greatest length of a name, in runes, after trimming.
const MaxName = 120

// CheckID reports whether value can serve as an id: 1 to [MaxID] bytes of
// UTF-8 without NUL. The error is a [*FieldError] that names field.
func CheckID[T ~string](field string, value T) error {
	if value == "" {
		return &FieldError{Field: field, Rule: "must not be empty"}
	}
	return CheckOptionalID(field, value)
}

// CheckOptionalID is [CheckID] for an id that may be empty.
func CheckOptionalID[T ~string](field string, value T) error {
	switch s := string(value); {
	case len(s) > MaxID:
		return &FieldError{Field: field, Rule: fmt.Sprintf("must have at most %d bytes, has %d", MaxID, len(s))}
	case !utf8.ValidString(s):
		return &FieldError{Field: field, Rule: "must be UTF-8"}
	case strings.IndexByte(s, 0) >= 0:
		return &FieldError{Field: field, Rule: "must not hold a NUL byte"}
	}
	return nil
}

// CheckName trims white space from both ends of name and returns the rest. A
// name of over [MaxName] runes is refused, never cut; so is one that is not
// UTF-8 or holds a NUL byte. An empty name is allowed and means "no name".
func CheckName(field, name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", &FieldError{Field: field, Rule: "must be UTF-8"}
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", &FieldError{Field: field, Rule: "must not hold a NUL byte"}
	}
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n > MaxName {
		return "", &FieldError{Field: field, Rule: fmt.Sprintf("must have at most %d characters, has %d", MaxName, n)}
	}
	return name, nil
}
