package sqlstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// rowsOf matches "ROWS(payer text, n bigint)" in the source of a statement: a
// table that is its arguments. "ROWS2(...)" is one of two rows, each value an
// argument. Only a column whose type is followed by "null" may have NULLs.
var rowsOf = regexp.MustCompile(`ROWS(\d*)\(([^)]+)\)`)

// Tables says what tables of arguments are in a dialect: say is called with
// how many rows one has, 0 if any number, and with the names of its columns and their types.
func Tables(statement string, say func(rows int, names, types []string) string) string {
	return rowsOf.ReplaceAllStringFunc(statement, func(table string) string {
		m := rowsOf.FindStringSubmatch(table)
		rows, _ := strconv.Atoi(m[1])
		var names, types []string
		for _, column := range strings.Split(m[2], ", ") {
			name, kind, _ := strings.Cut(column, " ")
			names, types = append(names, name), append(types, kind)
		}
		return say(rows, names, types)
	})
}

const (
	// fewRows are as many as are said one by one: that is what most writes have.
	fewRows = 4
	// someRows are said one by one too where arguments are no arrays: that is as fast as it gets.
	someRows = 32
)

// tabled is a statement with a table of so many rows.
type tabled struct {
	text string
	rows int // 0 = any number, as arrays or as a list
}

// table has a statement with ROWS(...) say how many they are, if few, and
// returns the arguments: columns of one length.
func (s *store) table(statement string, columns ...column) (string, []any) {
	n := columns[0].len()
	switch {
	case n <= fewRows, n == someRows && !s.dialect.Arrays:
		args := make([]any, 0, n*len(columns))
		for i := range n {
			for _, c := range columns {
				args = append(args, c.at(i))
			}
		}
		return s.tabled(tabled{statement, n}), args
	case s.dialect.Arrays:
		args := make([]any, len(columns))
		for i, c := range columns {
			args[i] = c.array(i > 0) // the first one says how many rows there are
		}
		return statement, args
	}
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = make([]any, len(columns))
		for j, c := range columns {
			rows[i][j] = c.at(i)
		}
	}
	text, err := json.Marshal(rows)
	if err != nil { // they are texts, numbers and truth values
		panic(err)
	}
	return statement, []any{string(text)}
}

// tabled is the text of it, which is made once.
func (s *store) tabled(t tabled) string {
	if text, ok := s.made.Load(t); ok {
		return text.(string)
	}
	text := strings.Replace(t.text, "ROWS(", "ROWS"+strconv.Itoa(t.rows)+"(", 1)
	s.made.Store(t, text)
	return text
}

// column is one column of a table of arguments.
type column interface {
	len() int
	part(from, to int) column
	at(i int) any
	// array is all of it or, if it may be brief and all of it is the same, the first alone.
	array(brief bool) any
}

// columnOf is what is the same of each row.
type columnOf[R any, T string | int64 | *int64 | *string | bool] struct {
	rows []R
	of   func(*R) T
}

func (c columnOf[R, T]) len() int                 { return len(c.rows) }
func (c columnOf[R, T]) part(from, to int) column { return columnOf[R, T]{c.rows[from:to], c.of} }
func (c columnOf[R, T]) at(i int) any             { return c.of(&c.rows[i]) }
func (c columnOf[R, T]) array(brief bool) any {
	first, same := c.of(&c.rows[0]), 1
	for brief && same < len(c.rows) && c.of(&c.rows[same]) == first {
		same++
	}
	if same == len(c.rows) {
		return []T{first}
	}
	all := make([]T, len(c.rows))
	for i := range all {
		all[i] = first
		if i >= same {
			all[i] = c.of(&c.rows[i])
		}
	}
	return all
}

func texts[R any, T ~string](rows []R, of func(*R) T) column {
	return columnOf[R, string]{rows, func(r *R) string { return string(of(r)) }}
}

func numbers[R any, T ~int64 | ~int](rows []R, of func(*R) T) column {
	return columnOf[R, int64]{rows, func(r *R) int64 { return int64(of(r)) }}
}

func flags[R any](rows []R, of func(*R) bool) column { return columnOf[R, bool]{rows, of} }

// moments are numbers; one that is not set is NULL.
func moments[R any](rows []R, of func(*R) time.Time) column {
	return columnOf[R, *int64]{rows, func(r *R) *int64 {
		at := of(r)
		if at.IsZero() {
			return nil
		}
		n := at.UnixMicro()
		return &n
	}}
}

// ledgerRow is a row of what is loaded for a book, whatever it is of.
type ledgerRow struct {
	what int64
	t    [8]string
	n    [6]nullable
}

// nullable scans an integer, or NULL.
type nullable struct {
	Int64 int64
	Valid bool
}

func (n *nullable) Scan(v any) error {
	n.Valid = v != nil
	return num(&n.Int64).Scan(v)
}

// into is where a scan puts it.
func (r *ledgerRow) into() []any {
	into := []any{num(&r.what)}
	for i := range r.t {
		into = append(into, str(&r.t[i]))
	}
	for i := range r.n {
		into = append(into, &r.n[i])
	}
	return into
}

func (r *ledgerRow) micros(i int) billing.Micros { return billing.Micros(r.n[i].Int64) }

func (r *ledgerRow) moment(i int) time.Time {
	if !r.n[i].Valid {
		return time.Time{}
	}
	return time.UnixMicro(r.n[i].Int64).UTC()
}

// holdState scans the state of a hold by its name.
type holdState struct{ to *billing.HoldState }

func (s holdState) Scan(v any) error {
	var name string
	if err := str(&name).Scan(v); err != nil {
		return err
	}
	for known := billing.HoldOpen; known <= billing.HoldExpired; known++ {
		if known.String() == name {
			*s.to = known
			return nil
		}
	}
	return fmt.Errorf("sqlstore: unknown state %q of a hold", name)
}

const (
	holdColumns  = `h.id, h.payer, h.meter, h.class, h.resource, h.session_id, h.project, h.state, h.estimate, h.opened_at, h.until_at, h.closed_at`
	markColumns  = `m.resource, m.meter, m.through_at, m.total, m.left_n, m.left_per, m.closed, m.payer, m.class, m.session_id, m.project`
	entryColumns = `e.payer, e.n, e.id, e.kind, e.amount, e.posted_at, e.grant_id, e.meter, e.class, e.resource, e.session_id, e.project,
		e.from_at, e.to_at, e.quantity, e.price, e.per, e.carried_n, e.carried_per`
)

func holdInto(h *billing.Hold) []any {
	return []any{str(&h.ID), str(&h.Payer), str(&h.Meter), str(&h.Class), str(&h.Resource), str(&h.Session), str(&h.Project), holdState{&h.State},
		num(&h.Estimate), moment{&h.OpenedAt}, moment{&h.Until}, moment{&h.ClosedAt}}
}

func markInto(m *billing.Mark) []any {
	return []any{str(&m.Resource), str(&m.Meter), moment{&m.Through}, num(&m.Total), num(&m.Left.N), num(&m.Left.Per), flag{&m.Closed},
		str(&m.Of.Payer), str(&m.Of.Class), str(&m.Of.Session), str(&m.Of.Project)}
}

// markOf is whose use was posted last to a mark; zero = that was not noted.
func markOf(key billing.MarkKey, u billing.Use) billing.Use {
	if u.Payer == "" {
		return billing.Use{}
	}
	u.Resource, u.Meter = key.Resource, key.Meter
	return u
}

func entryInto(e *billing.Entry) []any {
	return []any{str(&e.Payer), num(&e.N), str(&e.ID), str(&e.Kind), num(&e.Amount), moment{&e.PostedAt}, str(&e.Grant),
		str(&e.Use.Meter), str(&e.Use.Class), str(&e.Use.Resource), str(&e.Use.Session), str(&e.Use.Project),
		moment{&e.From}, moment{&e.To}, num(&e.Quantity), num(&e.Rate.Price), num(&e.Rate.Per), num(&e.Carried.N), num(&e.Carried.Per)}
}
