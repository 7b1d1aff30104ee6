package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
)

// second is what a second of runtime costs in benchmarks.
var second = billing.Rate{Price: 20, Per: 1_000_000}

var benchTerms = billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 1000}

// rich gives payers credit that lasts, and by hand the same.
func rich(b *testing.B, db *postgres.DB, payers ...access.UserID) {
	b.Helper()
	for _, payer := range payers {
		g := billing.Grant{ID: billing.GrantID("grant of " + payer), Payer: payer, Amount: 1 << 50, Source: "monthly", GrantedAt: time.Unix(1, 0)}
		if _, err := db.Ledger().Grant(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
}

// byHandLedger is a second database alike, whose accounts also count what they hold.
func byHandLedger(b *testing.B, payers ...access.UserID) (dsn string) {
	b.Helper()
	_, dsn = schema(b)
	db := opened(b, dsn, nil)
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	rich(b, db, payers...)
	run(b, db, `ALTER TABLE bunkroom_accounts ADD COLUMN held bigint NOT NULL DEFAULT 0`)
	return dsn
}

// worked is one work as a benchmark has it: held, done in two seconds, and settled.
func worked(l billing.Ledger, payer access.UserID) error {
	ctx := context.Background()
	work := id.New()
	use := billing.Use{Meter: billing.MeterRuntime, Class: "small", Resource: work, Payer: payer, Session: "session", Project: "project"}
	h, err := l.Hold(ctx, billing.HoldRequest{ID: billing.HoldID(work), Use: use, Terms: benchTerms, TTL: time.Minute})
	if err != nil {
		return err
	}
	out, err := l.Post(ctx, billing.Post{
		Use: use, From: h.OpenedAt, To: h.OpenedAt.Add(2 * time.Second), Quantity: 2_000_000, Rate: second, Hold: h.ID, Last: true,
	})
	if err == nil && (out[0].Err != nil || out[0].Charged != 40) {
		err = fmt.Errorf("charged %v: %w", out[0].Charged, out[0].Err)
	}
	return err
}

// The statements of the same work, as one would write them down.
const (
	handHold = `UPDATE bunkroom_accounts SET held = held + $2 WHERE payer = $1 AND held + $2 <= $3 RETURNING ` + now
	handOpen = `INSERT INTO bunkroom_holds (id, payer, meter, class, resource, session_id, project, estimate, state, opened_at, until_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'open', $9, $10)`
	handClose  = `UPDATE bunkroom_holds SET state = 'settled', closed_at = ` + now + ` WHERE id = $1 AND state = 'open' RETURNING closed_at`
	handCharge = `UPDATE bunkroom_accounts SET held = held - $2, day = $3, spent = spent + $4, entries = entries + 1 WHERE payer = $1 RETURNING entries`
	handDraw   = `UPDATE bunkroom_grants SET remaining = remaining - $2 WHERE id = $1 AND remaining >= $2`
	handMark   = `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed) VALUES ($1, $2, 1, $4, $5, 0, 0, true)
		ON CONFLICT (resource, meter) DO UPDATE SET through_at = excluded.through_at, total = bunkroom_marks.total + excluded.total WHERE bunkroom_marks.through_at = $3`
	handEntry = `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, class, resource, session_id, project, from_at, to_at, quantity, price, per)
		VALUES ($1, $2, $3, 'usage', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`
	handPostings = `INSERT INTO bunkroom_postings (payer, n, place, account, amount) VALUES ($1, $2, 0, $3, $5), ($1, $2, 1, $4, $6)`
)

// handy is a transaction that something written by hand runs in.
type handy interface {
	one(text string, to *int64, args ...any) error
	do(text string, args ...any) error
}

func workedByHand(transact func(func(handy) error) error, payer string) error {
	work, at := id.New(), int64(0)
	if err := transact(func(tx handy) error {
		if err := tx.one(handHold, &at, payer, 20_000, int64(1)<<50); err != nil {
			return err
		}
		return tx.do(handOpen, work, payer, "runtime", "small", work, "session", "project", 20_000, at, at+60_000_000)
	}); err != nil {
		return err
	}
	return transact(func(tx handy) error {
		var closed, n int64
		if err := tx.one(handClose, &closed, work); err != nil {
			return err
		}
		if err := tx.one(handCharge, &n, payer, 20_000, closed/86_400_000_000, 40); err != nil {
			return err
		}
		if err := tx.do(handDraw, "grant of "+payer, 40); err != nil {
			return err
		}
		if err := tx.do(handMark, work, "runtime", at, at+2_000_000, 2_000_000); err != nil {
			return err
		}
		if err := tx.do(handEntry, payer, n, fmt.Sprintf("runtime/%s/%d", work, at), 40, closed, "runtime", "small", work, "session", "project", at, at+2_000_000, 2_000_000, 20, 1_000_000); err != nil {
			return err
		}
		return tx.do(handPostings, payer, n, "grant:grant of "+payer, "revenue:runtime", -40, 40)
	})
}

// onConn runs by hand on a connection of pgx's own.
type onConn struct{ pgx.Tx }

func (tx onConn) one(text string, to *int64, args ...any) error {
	return tx.QueryRow(context.Background(), text, args...).Scan(to)
}

func (tx onConn) do(text string, args ...any) error {
	tag, err := tx.Exec(context.Background(), text, args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("nothing was written")
	}
	return err
}

func onConns(conn *pgx.Conn) func(func(handy) error) error {
	return func(do func(handy) error) error {
		return pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error { return do(onConn{tx}) })
	}
}

// A work is held and settled: two transactions, against the same done by hand,
// which counts what is held in the account.
func BenchmarkLedgerHoldSettle(b *testing.B) {
	db := migrated(b)
	rich(b, db, "alice")
	conn, err := pgx.Connect(b.Context(), byHandLedger(b, "alice"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(context.Background()) })
	compare(b, func() error { return worked(db.Ledger(), "alice") }, func() error { return workedByHand(onConns(conn), "alice") })
}

// onPool runs by hand on a pool, as many callers do.
type onPool struct{ tx *sql.Tx }

func (p onPool) one(text string, to *int64, args ...any) error {
	return p.tx.QueryRow(text, args...).Scan(to)
}

func (p onPool) do(text string, args ...any) error {
	r, err := p.tx.Exec(text, args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("nothing was written: %w", err)
	}
	return nil
}

// Sixty-four callers hold and settle for one payer, each two works, against as
// many by hand over a pool of the same size, which prepares what it is told.
func BenchmarkLedgerCrowd(b *testing.B) {
	db := migrated(b)
	rich(b, db, "alice")
	theirs := pool(b, byHandLedger(b, "alice"))
	theirs.SetMaxOpenConns(db.SQL().Stats().MaxOpenConnections)
	theirs.SetMaxIdleConns(db.SQL().Stats().MaxOpenConnections)
	byHand := func(do func(handy) error) error {
		tx, err := theirs.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := do(onPool{tx}); err != nil {
			return err
		}
		return tx.Commit()
	}
	crowd := func(work func() error) error {
		errs := make([]error, 64)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = errors.Join(work(), work()) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	compare(b, func() error {
		return crowd(func() error { return worked(db.Ledger(), "alice") })
	}, func() error {
		return crowd(func() error { return workedByHand(byHand, "alice") })
	})
}
