package postgres

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
)

const (
	// micros is the server's clock, in whole microseconds, which is what it has.
	micros = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

	// keys takes its locks one after the other in the inner query, and reads
	// the clock in the outer one, once that has its row.
	keys = `SELECT ` + micros + `, current_setting('transaction_isolation') FROM
		(SELECT count(pg_advisory_xact_lock(k)) AS held FROM unnest(CAST(? AS text)::bigint[]) AS k) AS n WHERE n.held >= 0`

	// machines are the rows of the machines that are asked about.
	machines = `SELECT CAST(m ->> 0 AS bigint) AS n, m ->> 1 AS sandbox_id, CAST(m ->> 2 AS bigint) AS generation, m ->> 3 AS incarnation
		FROM json_array_elements(CAST(? AS json)) AS m`

	// ids are looked up in an index each, in an array as they are not in a query.
	ids = `= ANY (ARRAY(SELECT json_array_elements_text(CAST(? AS json))))`

	// objects are those that a statement would find under the prefix. A disabled trigger is none.
	objects = `
		SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' ELSE 'table' END, c.relname::text
			FROM pg_class AS c WHERE c.relkind IN ('r', 'p', 'v', 'i') AND c.relname LIKE 'bunkroom_%' AND pg_table_is_visible(c.oid)
		UNION ALL SELECT 'trigger', t.tgname::text
			FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
			WHERE t.tgname LIKE 'bunkroom_%' AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND pg_table_is_visible(c.oid)
		UNION ALL SELECT 'function', p.proname::text
			FROM pg_proc AS p WHERE p.proname LIKE 'bunkroom_%' AND pg_function_is_visible(p.oid)`
)

func dialect() sqlstore.Dialect {
	return sqlstore.Dialect{
		Bun:        pgdialect.New(),
		Text:       text,
		Lateral:    true,
		Arrays:     true,
		Words:      words(),
		Migrations: sqlstore.Migrations("postgres"),
		Begin: []string{
			"BEGIN ISOLATION LEVEL READ COMMITTED",
			"SELECT pg_advisory_xact_lock(hashtext('bunkroom_ migrate'))",
		},
		Objects: objects,
		Fault:   fault,
		Absent:  absent,
		Taken: func(err error) bool {
			return state(err) == "23505" || state(err) == "22012" // unique_violation, division_by_zero
		},
		Unique:     func(err error) bool { return state(err) == "23505" },
		RolledBack: rolledBack,
		Busy:       func(err error) bool { return state(err) == "55P03" }, // lock_not_available
		Keys:       keys,
		Fresh:      `current_setting('transaction_isolation') = 'read committed'`,
		Briefly:    `set_config('lock_timeout', '100ms', true) <> ''`,
	}
}

// packed matches the rows of a subquery as one JSON array.
var packed = regexp.MustCompile(`PACKED\(([^)]+)\)`)

// text says a statement in Postgres' words: its arguments are numbered, and
// the clock is a query of its own, so that it is read once.
func text(statement string) string {
	statement = strings.ReplaceAll(statement, "NOW()", "(SELECT "+micros+")")
	statement = packed.ReplaceAllString(sqlstore.Tables(statement, rows), "CAST(json_agg(json_build_object($1)) AS text)")
	statement = strings.NewReplacer("KEYS(?)", machines, "IN IDS(?)", ids).Replace(statement)
	parts := strings.Split(statement, "?") // no statement has one in quotes
	var b strings.Builder
	b.WriteString(parts[0])
	last := 0
	for _, part := range parts[1:] {
		rest := strings.TrimLeft(part, "0123456789")
		number := part[:len(part)-len(rest)]
		if n, err := strconv.Atoi(number); err == nil {
			last = max(last, n)
		} else {
			last++
			number = strconv.Itoa(last)
		}
		b.WriteString("$" + number + rest)
	}
	return b.String()
}

// rows is a table of n rows of values or, if that is 0, one whose columns are
// arrays: an array that ends early goes on with its first value, for a thousand
// times the same would take most of the time that all of a thousand rows take.
func rows(n int, names, types []string) string {
	values, columns, arrays := make([]string, len(types)), make([]string, len(types)), make([]string, len(types))
	for i, t := range types {
		kind, null := strings.CutSuffix(t, " null")
		values[i] = "CAST(? AS " + kind + ")"
		arrays[i] = "k." + names[i]
		if n == 0 {
			values[i] = "CAST(? AS " + kind + "[]) AS " + names[i]
		}
		columns[i] = "COALESCE(u." + names[i] + ", k." + names[i] + "[1]) AS " + names[i]
		if i == 0 || null {
			columns[i] = "u." + names[i]
		}
	}
	all := strings.Join(names, ", ")
	if n > 0 {
		row := "(" + strings.Join(values, ", ") + ")"
		return "(SELECT * FROM (VALUES " + row + strings.Repeat(", "+row, n-1) + ") AS u (" + all + "))"
	}
	return "(SELECT " + strings.Join(columns, ", ") + " FROM (SELECT " + strings.Join(values, ", ") + ") AS k, unnest(" + strings.Join(arrays, ", ") + ") AS u (" + all + "))"
}
