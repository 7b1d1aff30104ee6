// Package arch holds the house to its own rules. It has no code: its tests
// read the source of the whole module and say, for each place where a rule is
// broken, which one it is and why there is one.
//
// # Floors
//
// Every folder stands on a floor, and imports lower floors only:
//
//	8  examples
//	7  drivers/*            never one another
//	6  internal/sqlstore
//	5  session/agenttool, session/transcript/pijsonl
//	4  session/transcript, session/shell, session/layout, mount/files
//	3  session              imports access, billing, sandbox, mount
//	2  mount                imports access, sandbox
//	1  billing, sandbox     import access
//	0  access
//
// A suite, <name>test, stands beside its subject and one floor above it. Tests
// and suites may import any floor below 8; nothing else imports a suite, or
// internal/need. A new folder gets its line in the table house, in
// floors_test.go: the lowest floor above everything it imports.
//
// # Linked modules
//
// Who imports a room gets what it links. Rooms 0 to 5, and suites, link the
// standard library, each other and google/uuid, and nothing else but for
// mount/files, which links gocloud.dev. What each driver links stands in
// the same table, so that a new module shows in review. Tests import what
// rooms link, go-cmp and rapid. The go.mod has no replace and no tool lines:
// programs that the Makefile needs are required by a module of their own, internal/tools.
//
// # Deciders
//
// Files named decide*.go, plan*.go and tombstone.go, and all of access but
// directory.go, hold pure functions: no context, clock, chance, log, new ids,
// goroutines, operating system or order of a map. Every decider of access is in
// the one table that all its properties are asked of.
//
// # The catalog
//
// session.Catalog opens sessions and can't reach a provider of sandboxes: not
// by its fields, not by what its methods are given, and session/catalog*.go
// name nothing of the kind.
//
// # Ids
//
// No code makes a session's id of a conversation's or the other way round, or
// compares the two; and no row of a session or its sandbox, as a struct or as
// a table, has a field for a conversation or an agent.
//
// # Refusals
//
// Every sentinel (Err…) and every exported error type has a method Problem
// with a status of 400 to 599, a code in small letters that has that status everywhere, and a
// fixed sentence that ends with a period. Each has its line in the table
// refusals, in told_test.go, which says what a client is told and whether there
// may be an event for the audit.
//
// # Where we are
//
// No code reads the headers in which a proxy, or anybody else, says under which
// address a server was reached: that is configuration.
//
// # State
//
// No init functions. A package-level variable is an error, a compiled regular
// expression, an embedded file system or a table, and nothing changes it.
//
// # Tests
//
// Package testing is imported by tests, suites and internal/need only. Tests
// don't sleep, but in a bubble of testing/synctest, and skip through
// internal/need only. Every exported New… and Open… of a public package is in
// an example with output.
//
// # Text
//
// A package has a comment that begins with its name. No file that git keeps has a note to oneself, more than 500 lines, a path of
// the machine it was written on, or the name of a host that packages come from.
//
// A rule is itself tested, on a few lines made up to break it.
package arch
