package mount

import (
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
)

// ReservedPrefix begins every slug that Bunkroom makes. No caller's slug may begin with it.
const ReservedPrefix = "__bkr__"

// The names of folders where none is given.
const (
	DefaultName        = "default" // an agent's
	DefaultSessionName = "cwd"     // a session's: its working directory
)

// attachments is the name of the session mount that nobody makes or has by name.
const attachments = "attachments"

// The frozen parts of scopes and slugs: with others every stored row is lost
// from sight, and its files with it.
const (
	scopeProject  = "project:"
	scopeUser     = "user:"
	agentPrefix   = ReservedPrefix + "agent__"
	sessionPrefix = ReservedPrefix + "session__"
)

// ScopeOf returns the scope of a session's mounts: "project:" and the
// project's id, or where there is none "user:" and the owner's. Both kinds
// have a prefix of their own, so that no project id, whatever it is, names the
// scope of a user. The error is a [*access.FieldError].
func ScopeOf(project access.ProjectID, owner access.UserID) (string, error) {
	if project != "" {
		if err := access.CheckID("project", project); err != nil {
			return "", err
		}
		return scopeProject + string(project), nil
	}
	if err := access.CheckID("owner", owner); err != nil {
		return "", err
	}
	return scopeUser + string(owner), nil
}

// CanonicalAgent returns the one form of an agent's id that rows hold: where
// it is a UUID in any spelling (upper case, without dashes, in braces, as a
// urn), lower case with dashes; else the id as it is. The error is a [*access.FieldError].
func CanonicalAgent(agent access.AgentID) (access.AgentID, error) {
	if err := access.CheckID("agent", agent); err != nil {
		return "", err
	}
	if canonical, ok := id.Canonical(string(agent)); ok {
		return access.AgentID(canonical), nil
	}
	return agent, nil
}

// AgentSlug returns the slug of an agent's folder:
//
//	__bkr__agent__<uuid>__<name>
//
// <uuid> is the canonical id of the agent where that is a UUID; of any other
// id the UUID (version 5) below bunkroom and mounts in the DNS namespace.
// <name> is name in lower case, each run of characters outside a-z and 0-9
// one dash, none at the ends, so that "Notes" and " notes " are one folder. An empty name is
// [DefaultName]; one of which nothing is left is refused with a [*access.FieldError].
func AgentSlug(agent access.AgentID, name string) (string, error) {
	canonical, err := CanonicalAgent(agent)
	if err != nil {
		return "", err
	}
	name, err = nameSlug(name, DefaultName)
	if err != nil {
		return "", err
	}
	return agentSlug(canonical, name), nil
}

// SessionSlug returns the slug of a session's folder:
//
//	__bkr__session__<uuid>__<name>
//
// <uuid> is that of version 5 of the session's id, as of an agent's that is no
// UUID; <name> is as in [AgentSlug], and an empty one [DefaultSessionName]. The
// name "attachments" is reserved and refused with a [*access.FieldError].
func SessionSlug(session access.SessionID, name string) (string, error) {
	if err := access.CheckID("session", session); err != nil {
		return "", err
	}
	name, err := sessionName(name)
	if err != nil {
		return "", err
	}
	return sessionSlug(session, name), nil
}

// sessionSlug is SessionSlug of parts that have been checked.
func sessionSlug(session access.SessionID, name string) string {
	return sessionPrefix + hashed(string(session)) + "__" + name
}

func sessionName(name string) (string, error) {
	slug, err := nameSlug(name, DefaultSessionName)
	if err == nil && slug == attachments {
		return "", reserved("name")
	}
	return slug, err
}

func reserved(field string) error {
	return &access.FieldError{Field: field, Rule: "must not be " + attachments + ", which is reserved"}
}

// hashed is the UUID of version 5 of what may be any text.
func hashed(text string) string { return id.Named(text, "bunkroom", "mounts") }

// agentSlug is AgentSlug of parts that are canonical already.
func agentSlug(canonical access.AgentID, name string) string {
	part, ok := id.Canonical(string(canonical))
	if !ok {
		part = hashed(string(canonical))
	}
	return agentPrefix + part + "__" + name
}

func nameSlug(name, otherwise string) (string, error) {
	if name == "" {
		return otherwise, nil
	}
	name, err := access.CheckName("name", name)
	if err != nil {
		return "", err
	}
	slug := slugify(name)
	if slug == "" {
		return "", &access.FieldError{Field: "name", Rule: "must hold a letter a to z or a digit"}
	}
	return slug, nil
}

// checkSlug refuses a slug that no caller may choose. Those that begin as ours
// do are ours, in whichever case: a forged one would stand where an agent's folder is to be.
func checkSlug(slug string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	switch {
	case slug == "" || len(slug) > access.MaxName || slug[0] == '.' || strings.Trim(slug, letters+".") != "":
		return &access.FieldError{Field: "slug", Rule: fmt.Sprintf("must be 1 to %d letters, digits, underscores, dashes and dots, and not begin with a dot", access.MaxName)}
	case strings.HasPrefix(strings.ToLower(slug), ReservedPrefix):
		return &access.FieldError{Field: "slug", Rule: "must not begin with " + ReservedPrefix + ", which is reserved"}
	}
	return nil
}

// slugify knows ASCII only: a frozen form can't depend on tables of letters that grow.
func slugify(s string) string {
	slug := make([]byte, 0, len(s))
	for _, c := range []byte(s) {
		switch {
		case 'A' <= c && c <= 'Z':
			slug = append(slug, c+'a'-'A')
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			slug = append(slug, c)
		case len(slug) > 0 && slug[len(slug)-1] != '-':
			slug = append(slug, '-')
		}
	}
	return strings.TrimSuffix(string(slug), "-")
}

// maxLabel keeps a label with 32 hex digits well below the 255 bytes that file names may have.
const maxLabel = 64

// label is the readable part of where an agent's folder appears. It
// identifies nothing, so it may be cut, and something is always found.
func label(agentName string, agent access.AgentID) string {
	for _, s := range []string{agentName, string(agent)} {
		slug := slugify(s)
		if len(slug) > maxLabel {
			slug = strings.TrimSuffix(slug[:maxLabel], "-")
		}
		if slug != "" {
			return slug
		}
	}
	return "agent"
}

// hexDigits are the 32 digits of a mount's id, and whether it is one that we mint.
func hexDigits(mount ID) (string, bool) {
	canonical, ok := id.Canonical(string(mount))
	if !ok || canonical != string(mount) {
		return "", false
	}
	return strings.ReplaceAll(canonical, "-", ""), true
}
