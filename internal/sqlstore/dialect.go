package sqlstore

import (
	"io/fs"

	"github.com/uptrace/bun/schema"
)

// Dialect is what differs between databases.
type Dialect struct {
	// Bun quotes for lists.
	Bun schema.Dialect
	// Text says a fixed statement in the dialect's words. In the source, "KEYS(?)" is
	// a query for the rows (n, sandbox_id, generation, incarnation) that its
	// argument, a JSON array, is an array of each, and "IN IDS(?)" asks whether
	// something is in its argument, a JSON array of texts; "ROWS(payer text, n bigint)"
	// is a table of such columns, see [Tables] and Arrays; "PACKED('a', x)" is a
	// JSON array, of an object {"a": x} for each row of a group; "?2" is the
	// second argument, any other "?" the one after the greatest that came before, NOW() the database's clock in microseconds (to be said as
	// NULL where that of [Config] is to be used), and FOR SHARE, FOR KEY
	// SHARE and FOR UPDATE stand where the rows that are read must stay as they
	// are until the transaction ends.
	Text func(statement string) string
	// Lateral: the database has LATERAL.
	Lateral bool
	// Arrays: arguments may be arrays, and one statement may write to several
	// tables. Then the arguments of ROWS are its columns, an array each, of which any
	// but the first and those that may have NULLs is of one value where that is the
	// same in every row; else there is one argument, a JSON array of rows that are arrays.
	Arrays bool
	// Words is how the words of entries are kept, and asked for.
	Words Words
	// Migrations holds the files NNNN_name.tx.up.sql, in which "bunkroom_" stands for the prefix.
	Migrations fs.FS
	// Begin are the statements that begin a migration: nobody else migrates until it ends.
	Begin []string
	// Objects lists the schema's objects: their kind, in lower case, and their name. "bunkroom_" stands for the prefix.
	Objects string
	// Fault turns the driver's errors into the dialect's own, or the
	// session's, and returns others as they are. May be nil.
	Fault func(error) error
	// Absent reports whether an error says that something in a statement is not in the schema. May be nil.
	Absent func(error) bool
	// Taken reports whether an error says that a row with that key is there
	// already, or that a statement of ours has divided by 0, which it does to write nothing. May be nil.
	Taken func(error) bool
	// Unique reports whether an error says that a row with that key is there already. May be nil.
	Unique func(error) bool
	// Busy reports whether an error says that others held the database's lock, or one that was needed, for too long. May be nil.
	Busy func(error) bool
	// RolledBack reports whether a COMMIT that failed with err surely wrote nothing.
	RolledBack func(err error) bool

	// Of the following one is set. It is how a write, in its first statement,
	// sees to it that what it is about to count or to miss stays as it is.

	// Lock takes the one write lock of the database. Only one transaction of a
	// process writes, and no statement is broken off.
	Lock string
	// Keys takes the locks whose numbers its one argument lists, as in
	// "{1,2}", in that order, and waits for each. It answers with the clock,
	// read once all are held, and with the transaction's isolation, which must
	// be "read committed": then every statement sees what was committed before it began.
	Keys string

	// Fresh, "FRESH" in the source, is a condition: a write that is one statement has not taken
	// Keys, and it must hold for it what Keys answers with. Empty: it always does.
	Fresh string
	// Briefly, "BRIEFLY" in the source, is a condition that always holds, and
	// makes a statement that is a transaction of its own wait for a lock for a moment only: then its error is one that
	// Busy reports. Rows are locked only once it was looked at. Empty: nothing does.
	Briefly string
}

// Words is how a dialect keeps the words of entries, in bunkroom_search_words. Each is told
// with the numbers of its tree and of its block before it, so that nothing is read for the sake of other trees.
type Words struct {
	// Block is of how many seqs of a tree the words are kept and asked for together, so
	// that what is frequent in a long history is not all looked at for a page. Once there are words it can't change.
	Block int64
	// Put keeps the words of an entry, a text with spaces between them: tree, seq, words.
	Put string
	// Find are the branch, seq, depth and kind of the entries, newest first, that have what All or Any says: that, tree, a seq they are before.
	Find string
	// Remove removes those of some of the entries of a tree: tree, how many.
	Remove string
	// All asks for entries that have all of these words, and one that begins with the last; empty: nothing more.
	All func(words []string, prefix string) string
	// Any asks for what one of several asks for.
	Any func(all []string) string
}
