package sqlstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// appendOnce is one statement. With first it is a transaction of its own.
func (p place) appendOnce(ctx context.Context, a *appending, first *sending) (*tree, error) {
	a.own = !p.store.readers.has(a.Conversation)
	args := a.args(p.store)
	args[0] = first.of(args[0])
	texts := [2]string{movedEntry, ""}
	if len(a.entries) == 1 {
		e := &a.entries[0]
		args = append(args, string(e.Kind), string(e.Turn), string(e.Actor), e.Hash, int64(len(e.Calls)), e.Preview, string(e.Body))
	} else {
		entries, more := p.store.table(movedEntries, a.columns()...)
		texts[0], args = entries, append(args, more...)
	}
	if len(a.calls) > 0 {
		calls, more := p.store.table(movedCalls, callColumns(a.calls)...)
		texts[1], args = calls, append(args, more...)
	}
	var m moved
	var numbers string
	if err := refused(p.row(ctx, p.store.appendText(appendText{a.own, a.several, texts, first != nil}, a.move()), args...).Scan(append(m.texts(), &numbers)...)); err != nil {
		return nil, err
	}
	if err := readArray(numbers, m.numbers[:]); err != nil {
		return nil, err
	}
	m.done(a)
	return &m.tree, nil
}

// readArray reads an array of numbers, as Postgres writes it.
func readArray(text string, into []int64) (err error) {
	rest := strings.Trim(text, "{}")
	for i := range into {
		var one string
		one, rest, _ = strings.Cut(rest, ",")
		if into[i], err = strconv.ParseInt(one, 10, 64); err != nil {
			return err
		}
	}
	return nil
}

// appendText is what the text of it is made of: whether the tree is not known to read others, whether each
// entry is a change of its own, what is inserted, and whether it is a transaction of its own.
type appendText struct {
	own, several bool
	inserted     [2]string
	alone        bool
}

// appendText is the text of it, which is made once.
func (s *store) appendText(of appendText, move string) string {
	if text, ok := s.made.Load(of); ok {
		return text.(string)
	}
	if of.several {
		move = strings.Replace(move, "t.version + 1", "t.version + ?1", 1)
	}
	text := "WITH t AS (" + move + "), e AS (" + of.inserted[0] + ")"
	if of.inserted[1] != "" {
		text += ", c AS (" + of.inserted[1] + ")"
	}
	// The numbers come as one column: to read a column costs more than what is in it.
	text += " SELECT " + movedTexts + ", CAST(ARRAY[" + movedNumbers + ", reads_on, kept_back] AS text) FROM t"
	if of.alone {
		text = briefly(text)
	}
	s.made.Store(of, text)
	return text
}

func (a *appending) columns() []column {
	all := a.entries
	return []column{
		numbers(all, func(e *added) int64 { return e.i }), texts(all, func(e *added) transcript.EntryID { return e.ID }),
		texts(all, func(e *added) transcript.EntryID { return e.parent }), texts(all, func(e *added) transcript.Kind { return e.Kind }),
		texts(all, func(e *added) transcript.TurnID { return e.Turn }), texts(all, func(e *added) access.UserID { return e.Actor }),
		texts(all, func(e *added) string { return e.Hash }), numbers(all, func(e *added) int64 { return e.Bytes }),
		numbers(all, func(e *added) int { return len(e.Calls) }),
		numbers(all, func(e *added) int64 { return e.after.Input }), numbers(all, func(e *added) int64 { return e.after.Output }),
		numbers(all, func(e *added) int64 { return e.after.CacheRead }), numbers(all, func(e *added) int64 { return e.after.CacheWrite }),
		numbers(all, func(e *added) int64 { return e.after.CostMicros }), texts(all, func(e *added) string { return e.Preview }),
		texts(all, func(e *added) string { return string(e.Body) }),
	}
}

func callColumns(all []addedCall) []column {
	results := columnOf[addedCall, *string]{all, func(c *addedCall) *string { // one that is not there is NULL
		if len(c.Result) == 0 {
			return nil
		}
		text := string(c.Result)
		return &text
	}}
	return []column{
		numbers(all, func(c *addedCall) int64 { return c.i }), texts(all, func(c *addedCall) transcript.CallID { return c.ID }),
		texts(all, func(c *addedCall) transcript.CallStatus { return c.Status }), flags(all, func(c *addedCall) bool { return c.Status.Settled() }), results,
	}
}
