package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

const defaultBusyTimeout = 10 * time.Second

// Open opens the database file at path, creating it where it is not there; a
// folder that is not there is a [*FileError], as is everything else that
// keeps the file from serving. It does not migrate. Close closes it. opts may be nil.
//
// A path on a network file system (NFS, SMB, 9p, FUSE and the like; looked
// for on Linux) is refused with a [*access.FieldError]. A database in memory is in drivers/memory.
func Open(ctx context.Context, path string, opts *Options) (*DB, error) {
	return open(ctx, path, opts, networkFS)
}

// open is Open with the function that names a folder's network file system, or returns "".
func open(ctx context.Context, path string, opts *Options, network func(folder string) (string, error)) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := checkOptions(path, opts); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	if err := checkPath(path, network); err != nil {
		return nil, err
	}
	var pools [2]*sql.DB // the second has the one connection that we write on
	for i := range pools {
		if pools[i], err = sql.Open("sqlite", dataSourceName(path, opts)); err != nil {
			return nil, err
		}
	}
	pool, writer := pools[0], pools[1]
	// Connections are kept, for a new one costs more than most statements.
	connections := max(8, 2*runtime.GOMAXPROCS(0))
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	writer.SetMaxOpenConns(1)
	db, err := newDB(pool, writer, opts)
	if err == nil {
		err = patiently(ctx, busyTimeout(opts), func() error { return probe(ctx, pool, path, network) })
	}
	if err != nil {
		pool.Close()
		writer.Close()
		return nil, err
	}
	db.owned = []*sql.DB{writer, pool}
	return db, nil
}

func checkOptions(path string, opts *Options) error {
	switch {
	case path == "":
		return &access.FieldError{Field: "path", Rule: "must not be empty"}
	case path == ":memory:" || strings.HasPrefix(path, "file::memory:"):
		return &access.FieldError{Field: "path", Rule: "must be a file; a database in memory is in drivers/memory"}
	case strings.HasPrefix(path, "file:"):
		return &access.FieldError{Field: "path", Rule: "must be the path of a file, not a URI"}
	case strings.IndexByte(path, 0) >= 0:
		return &access.FieldError{Field: "path", Rule: "must not hold a NUL byte"}
	case opts.BusyTimeout < 0 || opts.BusyTimeout > 0 && opts.BusyTimeout < time.Millisecond:
		return &access.FieldError{Field: "BusyTimeout", Rule: "must be 0 or at least a millisecond"}
	case opts.Writer != nil:
		return &access.FieldError{Field: "Writer", Rule: "must be nil, for one is opened"}
	case opts.Synchronous > Full:
		return &access.FieldError{Field: "Synchronous", Rule: "must be Normal or Full"}
	}
	return nil
}

// checkPath finds out what it can without opening the file: to close a file
// that this process has open as a database elsewhere would drop its locks.
func checkPath(path string, network func(folder string) (string, error)) error {
	folder := filepath.Dir(path)
	switch info, err := os.Stat(folder); {
	case errors.Is(err, fs.ErrNotExist):
		return &FileError{Path: path, Reason: NoFolder, Err: err}
	case err != nil:
		return &FileError{Path: path, Err: err}
	case !info.IsDir():
		return &FileError{Path: path, Reason: NoFolder}
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return &FileError{Path: path, Err: err}
	case !info.Mode().IsRegular():
		return &FileError{Path: path, Reason: NotRegular}
	}
	return checkNetwork(path, "path", network)
}

func busyTimeout(opts *Options) time.Duration {
	if opts.BusyTimeout == 0 {
		return defaultBusyTimeout
	}
	return opts.BusyTimeout
}

// patiently does what may find the database locked, until it does not, or for
// as long as a lock is waited for. SQLite itself does not wait where a file is
// made a WAL one, as it is by the first of the processes that open a new one at once.
func patiently(ctx context.Context, patience time.Duration, do func() error) error {
	for begun := time.Now(); ; {
		err := do()
		if err == nil || !errors.As(err, new(*BusyError)) || time.Since(begun) >= patience {
			return err
		}
		again := time.NewTimer(betweenTries)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

const betweenTries = 5 * time.Millisecond

// dataSourceName holds all settings, since they are of single connections.
// The busy timeout comes first, so that the others wait for their locks.
func dataSourceName(path string, opts *Options) string {
	synchronous := "NORMAL"
	if opts.Synchronous == Full {
		synchronous = "FULL"
	}
	query := fmt.Sprintf("_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(%s)&_pragma=foreign_keys(1)&_txlock=immediate",
		busyTimeout(opts).Milliseconds(), synchronous)
	return (&url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: query}).String()
}

// probe opens the database: it checks the settings and that it can be written.
func probe(ctx context.Context, pool *sql.DB, path string, network func(string) (string, error)) error {
	if err := checkConnections(ctx, pool, "path", network); err != nil {
		return unusable(path, err)
	}
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return unusable(path, err)
	}
	defer func() { _ = tx.Rollback() }()
	// Of a file that can't be written nothing else tells: even BEGIN IMMEDIATE succeeds.
	if _, err := tx.ExecContext(ctx, "CREATE TABLE bunkroom_probe (n INTEGER)"); err != nil {
		return unusable(path, err)
	}
	return nil
}
