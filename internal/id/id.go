// Package id mints and recognises the ids that Bunkroom itself makes: UUIDs of
// version 7, which sort by the time they were minted.
package id

import "github.com/google/uuid"

// New mints an id. It panics only where the operating system has no randomness left to give.
func New() string { return uuid.Must(uuid.NewV7()).String() }

// Canonical parses any spelling of a UUID (upper case, without dashes, in
// braces, as a urn) and returns the one with dashes in lower case.
func Canonical(s string) (canonical string, ok bool) {
	if uuid.Validate(s) != nil { // Parse alone takes any two characters for the braces
		return "", false
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return "", false
	}
	return u.String(), true
}

// Named derives the UUID (version 5) of name below the namespaces, the
// outermost first, starting from the DNS namespace.
func Named(name string, namespaces ...string) string {
	space := uuid.NameSpaceDNS
	for _, n := range namespaces {
		space = uuid.NewSHA1(space, []byte(n))
	}
	return uuid.NewSHA1(space, []byte(name)).String()
}
