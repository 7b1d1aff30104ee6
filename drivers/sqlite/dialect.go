package sqlite

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/bunkroom/bunkroom/internal/sqlstore"
)

// keys are the rows of the machines that are asked about.
const keys = `SELECT value ->> 0 AS n, value ->> 1 AS sandbox_id, value ->> 2 AS generation, value ->> 3 AS incarnation FROM json_each(?)`

// ids is one column of what is in a list.
const ids = `(SELECT value FROM json_each(?))`

// rows is a table of n rows of values or, if that is 0, of what is in a list of rows.
func rows(n int, names, _ []string) string {
	columns := make([]string, len(names))
	for i, name := range names {
		switch n {
		case 0:
			columns[i] = "value ->> " + strconv.Itoa(i) + " AS " + name
		case 1:
			columns[i] = "? AS " + name
		default:
			columns[i] = "column" + strconv.Itoa(i+1) + " AS " + name
		}
	}
	table := "(SELECT " + strings.Join(columns, ", ")
	switch n {
	case 0:
		table += " FROM json_each(?)"
	case 1:
	default:
		row := "(?" + strings.Repeat(", ?", len(names)-1) + ")"
		table += " FROM (VALUES " + row + strings.Repeat(", "+row, n-1) + ")"
	}
	return table + ")"
}

// taken matches what takes a table of arguments as it is.
var taken = regexp.MustCompile(`SELECT ([^()]+?)\s+FROM ROWS([1-9]\d*)\(([^)]+)\) AS r( WHERE true)?`)

// values says such a query as rows of values, which are inserted without one.
func values(query string) string {
	m := taken.FindStringSubmatch(query)
	var row []string
	columns := strings.Split(m[3], ", ")
	for column := range strings.SplitSeq(m[1], ",") {
		column = strings.TrimSpace(column)
		if name, isColumn := strings.CutPrefix(column, "r."); isColumn {
			if len(columns) == 0 || !strings.HasPrefix(columns[0], name+" ") { // in another order
				return query
			}
			column, columns = "?", columns[1:]
		}
		row = append(row, column)
	}
	n, _ := strconv.Atoi(m[2])
	one := "(" + strings.Join(row, ", ") + ")"
	return "VALUES " + one + strings.Repeat(", "+one, n-1)
}

// packed matches the rows of a subquery as one JSON array.
var packed = regexp.MustCompile(`PACKED\(([^)]+)\)`)

func dialect() sqlstore.Dialect {
	// One writer at a time: nothing else needs a lock. The clock is Options.Now.
	text := strings.NewReplacer(" FOR SHARE", "", " FOR KEY SHARE", "", " FOR UPDATE", "", "NOW()", "NULL", "KEYS(?)", keys, "IDS(?)", ids)
	return sqlstore.Dialect{
		Bun:        sqlitedialect.New(),
		Migrations: sqlstore.Migrations("sqlite"),
		Text: func(statement string) string {
			return text.Replace(packed.ReplaceAllString(sqlstore.Tables(taken.ReplaceAllStringFunc(statement, values), rows), "json_group_array(json_object($1))"))
		},
		Words:      words(),
		Begin:      []string{"BEGIN IMMEDIATE"},
		Lock:       "DELETE FROM bunkroom_fences WHERE 0",
		Objects:    "SELECT type, name FROM sqlite_schema",
		Fault:      fault,
		Absent:     absent,
		Unique:     unique,
		Busy:       busy,
		RolledBack: rolledBack,
	}
}
