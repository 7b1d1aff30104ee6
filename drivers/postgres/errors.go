package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bunkroom/bunkroom/session"
)

// ServerError says that no connection to the server could be had. Nothing was
// read or written.
type ServerError struct {
	Reason ServerReason
	Err    error // pgx's; it names host, user and database, and no password
}

// ServerReason says why there is no connection.
type ServerReason uint8

// The reasons.
const (
	Unreachable ServerReason = iota // nobody answers, or not in Postgres' words
	NoAccess                        // the user, the password or the database is not accepted
	Unready                         // it is starting up, shutting down, or has no connection to spare
)

func (r ServerReason) String() string {
	switch r {
	case NoAccess:
		return "the server does not accept the user, password or database"
	case Unready:
		return "the server takes no connection right now"
	}
	return "the server can't be reached"
}

func (e *ServerError) Error() string { return fmt.Sprintf("postgres: %v: %v", e.Reason, e.Err) }

// Unwrap returns pgx's error.
func (e *ServerError) Unwrap() error { return e.Err }

// Problem is the same for every reason: clients can't do anything about it.
func (e *ServerError) Problem() (status int, code, sentence string) {
	return 503, "database_unreachable", "The server's database can't be reached. Try again shortly."
}

// state is the SQLSTATE of the server's error in err; "" = there is none.
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// fault gives the errors of the driver their own types, or the session's.
func fault(err error) error {
	if err == nil {
		return nil
	}
	switch state(err) {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		if errors.Is(err, session.ErrStale) {
			return err
		}
		return fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	if _, already := errors.AsType[*ServerError](err); already {
		return err
	}
	if _, connecting := errors.AsType[*pgconn.ConnectError](err); connecting {
		return &ServerError{reasonOf(state(err)), err}
	}
	return err
}

func reasonOf(state string) ServerReason {
	switch {
	case strings.HasPrefix(state, "28"), state == "3D000", state == "42501": // authorization, invalid_catalog_name, insufficient_privilege
		return NoAccess
	case strings.HasPrefix(state, "53"), strings.HasPrefix(state, "57P"): // insufficient_resources, operator intervention
		return Unready
	}
	return Unreachable
}

// absent reports whether the server misses a table, column or function.
func absent(err error) bool {
	switch state(err) {
	case "42P01", "42703", "42883":
		return true
	}
	return false
}

// rolledBack reports whether a COMMIT that failed surely wrote nothing: the
// server says so, or was not asked. A fatal error may come after the commit.
func rolledBack(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.SeverityUnlocalized == "ERROR" && e.Code != "40003" // statement_completion_unknown
	}
	return errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err)
}
