package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bunkroom/bunkroom/access"
)

const defaultConnections = 8

// Open connects to the database that dsn names, as a URL
// (postgres://user:password@host/database?sslmode=verify-full) or as keywords
// and values (host=/run/postgresql dbname=app). What it leaves out comes from
// the environment (PGHOST, PGPASSWORD and the like), as with Postgres' own
// programs. default_query_exec_mode is exec unless dsn has it.
//
// One that can't be read is a [*access.FieldError] that never shows it; a
// server that can't be reached is a [*ServerError]. Open does not migrate.
// Close closes it. opts may be nil.
func Open(ctx context.Context, dsn string, opts *Options) (*DB, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.Connections < 0 {
		return nil, &access.FieldError{Field: "Connections", Rule: "must not be negative"}
	}
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	pool := stdlib.OpenDB(*config)
	connections := opts.Connections
	if connections == 0 {
		connections = defaultConnections
	}
	// Connections are kept, for a new one costs more than most statements.
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	db, err := newDB(ctx, pool, opts, true)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return db, nil
}

func parse(dsn string) (*pgx.ConnConfig, error) {
	if dsn == "" {
		return nil, &access.FieldError{Field: "dsn", Rule: "must not be empty"}
	}
	const modeKey = "default_query_exec_mode"
	plain, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return nil, &access.FieldError{Field: "dsn", Rule: "must be a URL of Postgres, or its keywords and values"}
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, &access.FieldError{Field: "dsn", Rule: "must have settings that pgx knows"}
	}
	if _, given := plain.RuntimeParams[modeKey]; !given {
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return config, nil
}

// oldest is the oldest server that knows all that is asked of it.
const oldest = 12

// checkServer checks what can't be put right afterwards.
func checkServer(ctx context.Context, db *sql.DB) error {
	var version, encoding, quoting string
	const settings = `SELECT current_setting('server_version_num'), current_setting('server_encoding'), current_setting('standard_conforming_strings')`
	if err := db.QueryRowContext(ctx, settings).Scan(&version, &encoding, &quoting); err != nil {
		return err
	}
	return checkSettings(version, encoding, quoting)
}

func checkSettings(version, encoding, quoting string) error {
	n, err := strconv.Atoi(version)
	switch {
	case err != nil:
		return errors.New("postgres: the server's version is " + version)
	case n/10_000 < oldest:
		return &access.FieldError{Field: "server_version_num", Rule: "must be " + strconv.Itoa(oldest) + "0000 or more, is " + version}
	case encoding != "UTF8":
		return &access.FieldError{Field: "server_encoding", Rule: "must be UTF8, is " + encoding}
	case quoting != "on": // what lists quote would mean something else
		return &access.FieldError{Field: "standard_conforming_strings", Rule: "must be on, is " + quoting}
	}
	return nil
}
