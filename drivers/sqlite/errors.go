package sqlite

import (
	"errors"
	"fmt"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"
)

// BusyError says that another process, or another transaction of this one,
// kept the database locked for longer than the busy timeout, or has written
// since a transaction of the host began to read. Nothing was written; retry.
type BusyError struct{ Err error }

func (e *BusyError) Error() string { return "sqlite: database busy: " + e.Err.Error() }

// Unwrap returns the driver's error.
func (e *BusyError) Unwrap() error { return e.Err }

// Problem asks to try again.
func (e *BusyError) Problem() (status int, code, sentence string) {
	return 503, "busy", "The server is busy. Try again shortly."
}

// FileError says that a file can't serve as a database.
type FileError struct {
	Path   string
	Reason FileReason
	Err    error // the cause; may be nil
}

// FileReason says why a file can't serve.
type FileReason uint8

// The reasons.
const (
	Unusable     FileReason = iota // as Err says
	NoFolder                       // the folder it is to be in does not exist, or is none
	NotRegular                     // it is a folder, or another thing that is no file
	NotADatabase                   // it holds something else, or is damaged
	NotWritable                    // it, or the folder it is in, can't be written
)

func (r FileReason) String() string {
	switch r {
	case NoFolder:
		return "its folder does not exist"
	case NotRegular:
		return "it is not a regular file"
	case NotADatabase:
		return "it is not a database, or damaged"
	case NotWritable:
		return "it or its folder can't be written"
	}
	return "it can't be used"
}

func (e *FileError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("sqlite: %s: %v", e.Path, e.Reason)
	}
	return fmt.Sprintf("sqlite: %s: %v: %v", e.Path, e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Problem is the same for every reason: clients can't do anything about it.
func (e *FileError) Problem() (status int, code, sentence string) {
	return 500, "database_unusable", "The server's database can't be used."
}

// coder is implemented by the errors of modernc.org/sqlite.
type coder interface {
	error
	Code() int
}

// primary is the primary result code of SQLite's error in err; 0 = there is none.
func primary(err error) int {
	if e, ok := errors.AsType[coder](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

func busy(err error) bool {
	code := primary(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// unique reports whether a row with the same key is there already.
func unique(err error) bool {
	e, ok := errors.AsType[coder](err)
	return ok && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// rolledBack reports whether a COMMIT that failed surely wrote nothing: where
// others hold the lock, or the disk is full, what tells that it is whole was not written.
func rolledBack(err error) bool { return busy(err) || primary(err) == sqlite3.SQLITE_FULL }

// absent reports that a table of ours is not there: our statements name no
// other. SQLite has no code of its own for it, only the words.
func absent(err error) bool {
	return primary(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

// fault gives the errors of the driver their own types.
func fault(err error) error {
	if err == nil || !busy(err) {
		return err
	}
	if _, already := errors.AsType[*BusyError](err); already {
		return err
	}
	return &BusyError{err}
}

// unusable is why path can't be opened as a database.
func unusable(path string, err error) error {
	reason := Unusable
	switch primary(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault(err)
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		reason = NotADatabase
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		reason = NotWritable
	case 0:
		return err // not SQLite's: a context, say
	}
	return &FileError{Path: path, Reason: reason, Err: err}
}
