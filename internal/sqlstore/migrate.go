package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SchemaError says that the database's schema is not the one this program needs.
type SchemaError struct {
	Found, Wanted int      // versions; 0 = there is none
	Missing       []string // what should be there at version Found and is not, such as "trigger bunkroom_sandboxes_bury"
	Err           error    // the database's error, where one told; then Found is 0, for nobody has looked
}

func (e *SchemaError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("bunkroom: the database has no schema of version %d: migrate it first: %v", e.Wanted, e.Err)
	}
	if e.Found < e.Wanted {
		return fmt.Sprintf("bunkroom: the database's schema has version %d, wanted %d: migrate it first", e.Found, e.Wanted)
	}
	return fmt.Sprintf("bunkroom: the database's schema (version %d, wanted %d) lacks %s", e.Found, e.Wanted, strings.Join(e.Missing, ", "))
}

// Unwrap returns the database's error.
func (e *SchemaError) Unwrap() error { return e.Err }

// fault is err with the type it has for callers.
func (s *store) fault(err error) error {
	if err == nil {
		return nil
	}
	if d := s.dialect; d.Absent != nil && d.Absent(err) {
		steps, _ := s.migrations()
		return &SchemaError{Wanted: len(steps), Err: err}
	}
	if s.dialect.Fault == nil {
		return err
	}
	return s.dialect.Fault(err)
}

// Problem is the same for every defect: clients can't do anything about it.
func (e *SchemaError) Problem() (status int, code, sentence string) {
	return 503, "schema", "The service is not set up completely. Try again later."
}

// Migrate brings the schema to this program's version, all at once or not at
// all. Any number of callers and processes may do so at the same time: one
// migrates, the others find it done. A schema of a later version stays as it is.
func (db *DB) Migrate(ctx context.Context) error {
	s := db.store
	steps, err := s.migrations()
	if err != nil {
		return err
	}
	if found, err := s.schemaVersion(ctx, s.db); err != nil || found >= len(steps) {
		return s.fault(err)
	}
	return s.fault(s.migrate(ctx, steps))
}

// migrate runs the steps that are missing. All of it is DDL under the lock
// of [Dialect.Begin], in one transaction, with what is missing found out inside.
func (s *store) migrate(ctx context.Context, steps []step) (err error) {
	if s.writer != nil {
		give, err := s.alone(ctx)
		if err != nil {
			return err
		}
		defer give()
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	whole := context.WithoutCancel(ctx)
	begun := false
	defer func() {
		if err == nil || !begun {
			return
		}
		if _, stuck := conn.ExecContext(whole, "ROLLBACK"); stuck != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // out of the pool with it
		}
	}()
	for _, text := range s.dialect.Begin {
		if _, err := conn.ExecContext(ctx, s.named(text)); err != nil {
			return err
		}
		begun = true
	}
	found, err := s.schemaVersion(whole, conn)
	if err != nil {
		return err
	}
	for _, step := range steps[min(found, len(steps)):] {
		for _, text := range step.statements {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := conn.ExecContext(whole, text); err != nil {
				return fmt.Errorf("sqlstore: %s: %w", step.file, err)
			}
		}
	}
	_, err = conn.ExecContext(whole, "COMMIT")
	return err
}

// CheckSchema reports whether the schema has at least this program's version
// and everything in it is there. If not, the error is a [*SchemaError].
func (db *DB) CheckSchema(ctx context.Context) error {
	s := db.store
	steps, err := s.migrations()
	if err != nil {
		return err
	}
	found, err := s.schemaVersion(ctx, s.db)
	if err != nil {
		return s.fault(err)
	}
	if found < len(steps) {
		return &SchemaError{Found: found, Wanted: len(steps)}
	}
	there, err := s.objects(ctx, s.db)
	if err != nil {
		return s.fault(err)
	}
	var missing []string
	for _, want := range objectsOf(steps) {
		if !slices.Contains(there, want) {
			missing = append(missing, want)
		}
	}
	if found == len(steps) && missing != nil { // a later version may have done away with some
		return &SchemaError{Found: found, Wanted: len(steps), Missing: missing}
	}
	return nil
}

// querier is a pool or a connection.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// schemaVersion is 0 where there is no schema.
func (s *store) schemaVersion(ctx context.Context, on querier) (version int, err error) {
	there, err := s.objects(ctx, on)
	if err != nil || !slices.Contains(there, s.named("view bunkroom_schema")) {
		return 0, err
	}
	err = on.QueryRowContext(ctx, s.named("SELECT version FROM bunkroom_schema")).Scan(&version)
	return version, err
}

// objects are all that the database's schema has.
func (s *store) objects(ctx context.Context, on querier) ([]string, error) {
	rows, err := on.QueryContext(ctx, s.named(s.dialect.Objects))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var kind, name string
		if err := rows.Scan(&kind, &name); err != nil {
			return nil, err
		}
		found = append(found, kind+" "+name)
	}
	return found, rows.Err()
}

// step is one migration: the one that makes version n is the n-th.
type step struct {
	file       string
	statements []string
}

func (s *store) migrations() ([]step, error) {
	files := prefixedFS{s.dialect.Migrations, s.prefix}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, e := range entries { // in the order of their names
		number, _, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != len(steps)+1 {
			return nil, fmt.Errorf("sqlstore: migration %s is not number %d", e.Name(), len(steps)+1)
		}
		text, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{e.Name(), strings.Split(string(text), "\n--bun:split\n")})
	}
	return steps, nil
}

// ddl finds what a statement makes or does away with, and the table that an
// index or a trigger is on, in the line the statement begins with. A virtual table is kept in others.
var ddl = regexp.MustCompile(`(?m)^(CREATE|DROP) (?:UNIQUE )?((?:VIRTUAL )?TABLE|INDEX|FUNCTION|TRIGGER|VIEW) (\w+)(?:.* ON (\w+))?`)

// objectsOf are all that the steps, one after the other, leave in the schema.
func objectsOf(steps []step) []string {
	type object struct{ name, table string }
	var made []object
	for _, step := range steps {
		for _, text := range step.statements {
			for _, m := range ddl.FindAllStringSubmatch(text, -1) {
				o := object{strings.ToLower(m[2]) + " " + m[3], "table " + m[4]}
				made = slices.DeleteFunc(made, func(other object) bool { return other.name == o.name || other.table == o.name })
				switch {
				case m[1] != "CREATE":
				case m[2] == "VIRTUAL TABLE":
					for _, part := range []string{"", "_data", "_idx", "_docsize", "_config"} {
						made = append(made, object{"table " + m[3] + part, "table " + m[4]})
					}
				default:
					made = append(made, o)
				}
			}
		}
	}
	names := make([]string, len(made))
	for i, o := range made {
		names[i] = o.name
	}
	return names
}
