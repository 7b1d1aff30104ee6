package postgres

import (
	"context"
	"crypto/rand"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Listen connects a hub with those of other processes that listen on this
// database, by NOTIFY: what rings there rings here, and the other way round. It
// goes on until ctx ends, whatever becomes of the connection, and returns ctx's cause.
//
// It holds one connection of the pool all the time, and takes another for
// a moment to pass on what has rung, many conversations at a time: a NOTIFY is
// never part of a transaction that writes, since the server has those that
// notify commit one after the other. Each time it has a connection anew it rings
// for all conversations, since nobody knows what was missed.
//
// Only what has rung in a hub is passed on, so the stores' writes must ring
// theirs; see [transcript.Ringing].
func (db *DB) Listen(ctx context.Context, hub *transcript.Hub) error {
	if hub == nil {
		return &access.FieldError{Field: "hub", Rule: "must not be nil"}
	}
	l := &listening{db: db, relay: hub.Relay(), from: rand.Text()}
	defer l.relay.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	told := make(chan struct{})
	go func() {
		defer close(told)
		l.tell(ctx)
	}()
	err := l.hear(ctx)
	cancel(err)
	<-told
	return err
}

// listening is a hub that listens.
type listening struct {
	db    *DB
	relay *transcript.Relay
	from  string // begins what this one has sent
}

// The waits between attempts, each twice the one before.
const (
	shortPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

// pause waits, and returns how long to wait the next time. False: ctx has ended.
func pause(ctx context.Context, wait time.Duration) (time.Duration, bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return min(2*wait, longPause), true
	case <-ctx.Done():
		return wait, false
	}
}

// hear passes on what rings elsewhere, on one connection after the other.
func (l *listening) hear(ctx context.Context) error {
	wait := shortPause
	for {
		connected, err := l.listen(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, never := errors.AsType[*access.FieldError](err); never {
			return err
		}
		if connected {
			wait = shortPause
		}
		var ok bool
		if wait, ok = pause(ctx, wait); !ok {
			return context.Cause(ctx)
		}
	}
}

// listen listens on one connection for as long as that lasts.
func (l *listening) listen(ctx context.Context) (connected bool, err error) {
	conn, err := l.db.sql.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	raw := conn.Raw(func(c any) error {
		pg, ok := c.(*stdlib.Conn)
		if !ok {
			err = &access.FieldError{Field: "db", Rule: "must be opened with pgx's driver"}
			return nil
		}
		connected, err = l.on(ctx, pg.Conn())
		return driver.ErrBadConn // whatever it is in the middle of, nobody else is to have it
	})
	if err == nil {
		err = raw
	}
	return connected, err
}

func (l *listening) on(ctx context.Context, conn *pgx.Conn) (connected bool, err error) {
	if _, err := conn.Exec(ctx, "LISTEN "+l.db.channel); err != nil {
		return false, err
	}
	l.relay.Ring("")
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true, err
		}
		if of := len(l.from); len(n.Payload) >= of && n.Payload[:of] != l.from {
			l.relay.Ring(access.ConversationID(n.Payload[of:]))
		}
	}
}

// tell passes on what rings here, until ctx ends.
func (l *listening) tell(ctx context.Context) {
	var rung []access.ConversationID
	wait := shortPause
	for {
		if len(rung) == 0 {
			select {
			case <-l.relay.Bell:
			case <-ctx.Done():
				return
			}
		}
		rung = append(rung, l.relay.Take()...)
		if len(rung) > mostRung {
			rung = []access.ConversationID{""}
		}
		if err := l.notify(ctx, rung); err == nil {
			rung, wait = nil, shortPause
			continue
		}
		var ok bool
		if wait, ok = pause(ctx, wait); !ok {
			return
		}
	}
}

// mostRung is how many conversations are told apart that could not be passed on yet.
const mostRung = 2000

// notify is one statement, and a transaction of its own. The server drops what is in it twice.
func (l *listening) notify(ctx context.Context, rung []access.ConversationID) error {
	all, err := json.Marshal(rung)
	if err != nil {
		return err
	}
	_, err = l.db.sql.ExecContext(ctx, `SELECT pg_notify($1, $2 || c) FROM json_array_elements_text(CAST($3 AS json)) AS c`, l.db.channel, l.from, string(all))
	return err
}
