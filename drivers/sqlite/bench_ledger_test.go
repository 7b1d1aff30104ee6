package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
)

// second is what a second of runtime costs in benchmarks.
var second = billing.Rate{Price: 20, Per: 1_000_000}

var benchTerms = billing.Terms{Estimate: 20_000, Floor: 250_000, InFlight: 1000}

// rich gives payers credit that lasts.
func rich(b *testing.B, l billing.Ledger, payers ...access.UserID) {
	b.Helper()
	for _, payer := range payers {
		g := billing.Grant{ID: billing.GrantID("grant of " + payer), Payer: payer, Amount: 1 << 50, Source: "monthly", GrantedAt: time.Unix(1, 0)}
		if _, err := l.Grant(b.Context(), g); err != nil {
			b.Fatal(err)
		}
	}
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

// hand is the same work written by hand and prepared, in a database alike
// whose accounts also count what they hold.
type hand struct {
	db                                                     *sql.DB
	hold, open, close, charge, draw, mark, entry, postings *sql.Stmt
}

func handOf(b *testing.B, db *sqlite.DB, raw *sql.DB) *hand {
	b.Helper()
	theirs, err := sqlite.New(b.Context(), raw, nil)
	if err != nil {
		b.Fatal(err)
	}
	rich(b, db.Ledger(), "alice")
	rich(b, theirs.Ledger(), "alice")
	if _, err := raw.Exec(`ALTER TABLE bunkroom_accounts ADD COLUMN held INTEGER NOT NULL DEFAULT 0`); err != nil {
		b.Fatal(err)
	}
	return &hand{
		db:   raw,
		hold: prepare(b, raw, `UPDATE bunkroom_accounts SET held = held + ? WHERE payer = ? AND held + ? <= ?`),
		open: prepare(b, raw, `INSERT INTO bunkroom_holds (id, payer, meter, class, resource, session_id, project, estimate, state, opened_at, until_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?, ?)`),
		close:  prepare(b, raw, `UPDATE bunkroom_holds SET state = 'settled', closed_at = ? WHERE id = ? AND state = 'open'`),
		charge: prepare(b, raw, `UPDATE bunkroom_accounts SET held = held - ?, day = ?, spent = spent + ?, entries = entries + 1 WHERE payer = ? RETURNING entries`),
		draw:   prepare(b, raw, `UPDATE bunkroom_grants SET remaining = remaining - ? WHERE id = ? AND remaining >= ?`),
		mark: prepare(b, raw, `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed) VALUES (?, ?, 1, ?, ?, 0, 0, 1)
			ON CONFLICT (resource, meter) DO UPDATE SET through_at = excluded.through_at, total = bunkroom_marks.total + excluded.total WHERE bunkroom_marks.through_at = ?`),
		entry: prepare(b, raw, `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, class, resource, session_id, project, from_at, to_at, quantity, price, per)
			VALUES (?, ?, ?, 'usage', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		postings: prepare(b, raw, `INSERT INTO bunkroom_postings (payer, n, place, account, amount) VALUES (?1, ?2, 0, ?3, ?5), (?1, ?2, 1, ?4, ?6)`),
	}
}

func (h *hand) transact(do func(tx *sql.Tx) error) error {
	tx, err := h.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// wrote runs a statement that must write something.
func wrote(tx *sql.Tx, st *sql.Stmt, args ...any) error {
	r, err := tx.Stmt(st).Exec(args...)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("nothing was written: %w", err)
	}
	return nil
}

func (h *hand) worked(payer string) error {
	work, at := id.New(), time.Now().UnixMicro()
	if err := h.transact(func(tx *sql.Tx) error {
		if err := wrote(tx, h.hold, 20_000, payer, 20_000, int64(1)<<50); err != nil {
			return err
		}
		return wrote(tx, h.open, work, payer, "runtime", "small", work, "session", "project", 20_000, at, at+60_000_000)
	}); err != nil {
		return err
	}
	return h.transact(func(tx *sql.Tx) error {
		now, n := time.Now().UnixMicro(), int64(0)
		if err := wrote(tx, h.close, now, work); err != nil {
			return err
		}
		if err := tx.Stmt(h.charge).QueryRow(20_000, now/86_400_000_000, 40, payer).Scan(&n); err != nil {
			return err
		}
		if err := wrote(tx, h.draw, 40, "grant of "+payer, 40); err != nil {
			return err
		}
		if err := wrote(tx, h.mark, work, "runtime", at+2_000_000, 2_000_000, at); err != nil {
			return err
		}
		if err := wrote(tx, h.entry, payer, n, fmt.Sprintf("usage/runtime/%s/%d", work, at), 40, now, "runtime", "small", work, "session", "project", at, at+2_000_000, 2_000_000, 20, 1_000_000); err != nil {
			return err
		}
		return wrote(tx, h.postings, payer, n, "grant:grant of "+payer, "revenue:runtime", -40, 40)
	})
}

// A work is held and settled: two transactions, against the same done by hand.
func BenchmarkLedgerHoldSettle(b *testing.B) {
	db, raw := pair(b)
	theirs := handOf(b, db, raw)
	compare(b, func() error { return worked(db.Ledger(), "alice") }, func() error { return theirs.worked("alice") })
}

// Sixty-four callers hold and settle for one payer, each two works.
func BenchmarkLedgerCrowd(b *testing.B) {
	db, raw := pair(b)
	theirs := handOf(b, db, raw)
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
		return crowd(func() error { return theirs.worked("alice") })
	})
}
