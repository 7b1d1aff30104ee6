package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"

	"github.com/bunkroom/bunkroom/access"
)

// checkConnections checks a pool's settings and where its file lies. Settings
// are of single connections, and the first may have been set by hand: it
// checks two at the same time, where the pool allows for that many.
func checkConnections(ctx context.Context, db *sql.DB, field string, network func(folder string) (string, error)) error {
	n := 2
	if db.Stats().MaxOpenConnections == 1 {
		n = 1
	}
	for range n {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := checkConnection(ctx, conn, field, network); err != nil {
			return err
		}
	}
	return nil
}

// checkWriter checks a pool to write on beside that of a database.
func checkWriter(ctx context.Context, db, writer *sql.DB) error {
	if err := checkConnections(ctx, writer, "Writer", networkFS); err != nil {
		return err
	}
	var files [2]string
	for i, pool := range []*sql.DB{db, writer} {
		if err := pool.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&files[i]); err != nil {
			return err
		}
	}
	if files[0] != files[1] {
		return &access.FieldError{Field: "Writer", Rule: "must be of the same file"}
	}
	return nil
}

func checkConnection(ctx context.Context, conn *sql.Conn, field string, network func(folder string) (string, error)) error {
	var file, mode string
	var keys, wait int64
	const names = `SELECT (SELECT file FROM pragma_database_list WHERE name = 'main'), (SELECT journal_mode FROM pragma_journal_mode),
		(SELECT foreign_keys FROM pragma_foreign_keys), (SELECT timeout FROM pragma_busy_timeout)`
	if err := conn.QueryRowContext(ctx, names).Scan(&file, &mode, &keys, &wait); err != nil {
		return err
	}
	switch {
	case file == "":
		return &access.FieldError{Field: field, Rule: "must be a database in a file; one in memory is in drivers/memory"}
	case mode != "wal":
		return &access.FieldError{Field: "journal_mode", Rule: "must be WAL, is " + mode}
	case keys != 1:
		return &access.FieldError{Field: "foreign_keys", Rule: "must be on, is off"}
	case wait <= 0:
		return &access.FieldError{Field: "busy_timeout", Rule: "must be over 0"}
	}
	return checkNetwork(file, field, network)
}

// checkNetwork refuses a file that lies, after symbolic links, on a network
// file system, whose locks can't be relied on. The file need not be there yet.
func checkNetwork(path, field string, network func(folder string) (string, error)) error {
	folder := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		folder = filepath.Dir(real)
	} else if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	switch name, err := network(folder); {
	case err != nil:
		return &FileError{Path: path, Err: err}
	case name != "":
		return &access.FieldError{Field: field, Rule: "must not lie on a network file system, lies on " + name}
	}
	return nil
}
