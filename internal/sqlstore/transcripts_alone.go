package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/bunkroom/bunkroom/session"
)

// One statement may be a transaction of its own, without a word to begin or to
// commit it. To break it off once it was sent would leave nobody knowing what became
// of it. Therefore ctx ends the wait for a connection, and for locks it waits for a
// moment only: where somebody has them for longer, nothing is written, and the change is decided
// on in a transaction of several statements, which ends with ctx wherever it waits.

// briefly is a statement with FRESH in it that waits for locks for a moment only.
func briefly(text string) string { return strings.Replace(text, "FRESH", "FRESH AND BRIEFLY", 1) }

// alone calls do for such a statement, of which first has to be the first
// argument. It is not sent unless agreed, where there is one, says so at the last moment. errRefused: it wrote nothing, for somebody else has a lock that it needs, or for a reason of its own.
func (s transcripts) alone(ctx context.Context, agreed func() bool, do func(ctx context.Context, on place, first *sending) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitWait)
	defer cancel()
	first := &sending{hold: context.AfterFunc(ctx, cancel), agreed: agreed}
	defer first.hold() // where nothing was sent, ctx would keep it as long as it lasts
	err := do(whole, place{view: s.view}, first)
	switch d := s.store.dialect; {
	case err == nil:
		return nil
	case !first.sent && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errRefused), d.Busy != nil && d.Busy(err):
		return errRefused
	case !first.sent, d.RolledBack(err):
		return s.store.fault(err)
	}
	return s.store.fault(errors.Join(session.ErrUnknown, err))
}

// sending is an argument of a statement that is not to be broken off once it is
// sent. A driver asks for its value when it has a connection and is about to send the
// statement; if ctx has ended by then, it sends nothing.
type sending struct {
	value  driver.Value
	hold   func() bool // keeps ctx from ending it; false: it has
	agreed func() bool // nil = nobody else has a say
	sent   bool
}

// of is the argument with its value; without a sending, the value.
func (s *sending) of(value any) any {
	if s == nil {
		return value
	}
	s.value = value
	return s
}

// Value may be called more than once.
func (s *sending) Value() (driver.Value, error) {
	if !s.sent && (!s.hold() || s.agreed != nil && !s.agreed()) {
		return nil, context.Canceled
	}
	s.sent = true
	return s.value, nil
}
