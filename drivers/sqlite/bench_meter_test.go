package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
)

const running = 10_000 // sandboxes, ten of each payer

func payersOf(n int) (payers []access.UserID) {
	for i := range n {
		payers = append(payers, access.UserID(fmt.Sprintf("payer %04d", i)))
	}
	return payers
}

// metered are the posts of a tick of ten seconds, for a thousand sandboxes from the first on.
func metered(meter billing.Meter, first, tick int) []billing.Post {
	posts := make([]billing.Post, billing.MaxPosts)
	for i := range posts {
		from := time.Unix(1_700_000_000+int64(tick)*10, 0)
		posts[i] = billing.Post{
			Use: billing.Use{
				Meter: meter, Class: "small", Resource: fmt.Sprintf("sandbox %05d", first+i),
				Payer: access.UserID(fmt.Sprintf("payer %04d", (first+i)/10)), Session: "session", Project: "project",
			},
			From: from, To: from.Add(10 * time.Second), Quantity: 10_000_000, Rate: second,
		}
	}
	return posts
}

// ticked posts a tick for all that run, a thousand at a time.
func ticked(l billing.Ledger, tick int, again bool) error {
	for first := 0; first < running; first += billing.MaxPosts {
		out, err := l.Post(context.Background(), metered(billing.MeterRuntime, first, tick)...)
		if err != nil {
			return err
		}
		for _, p := range out {
			if p.Err != nil || p.Charged != 200 || p.Repeated != again {
				return fmt.Errorf("charged %v, repeated %t: %w", p.Charged, p.Repeated, p.Err)
			}
		}
	}
	return nil
}

// handMeter is the same by hand, prepared, a row at a time.
type handMeter struct {
	db                                  *sql.DB
	charge, draw, mark, entry, postings *sql.Stmt
}

func meterByHand(b *testing.B, raw *sql.DB, payers []access.UserID) *handMeter {
	b.Helper()
	theirs, err := sqlite.New(b.Context(), raw, nil)
	if err != nil {
		b.Fatal(err)
	}
	rich(b, theirs.Ledger(), payers...)
	return &handMeter{
		db:     raw,
		charge: prepare(b, raw, `UPDATE bunkroom_accounts SET day = ?, spent = spent + ?, entries = entries + 10 WHERE payer = ? RETURNING entries`),
		draw:   prepare(b, raw, `UPDATE bunkroom_grants SET remaining = remaining - ? WHERE id = ?`),
		mark: prepare(b, raw, `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed) VALUES (?, ?, 1, ?, ?, 0, 0, 0)
			ON CONFLICT (resource, meter) DO UPDATE SET through_at = excluded.through_at, total = bunkroom_marks.total + excluded.total WHERE bunkroom_marks.through_at = ?`),
		entry: prepare(b, raw, `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, class, resource, session_id, project, from_at, to_at, quantity, price, per)
			VALUES (?, ?, ?, 'usage', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		postings: prepare(b, raw, `INSERT INTO bunkroom_postings (payer, n, place, account, amount) VALUES (?1, ?2, 0, ?3, ?5), (?1, ?2, 1, ?4, ?6)`),
	}
}

func (h *handMeter) ticked(tick int) error {
	for first := 0; first < running; first += billing.MaxPosts {
		if err := (&hand{db: h.db}).transact(func(tx *sql.Tx) error { return h.bulk(tx, metered(billing.MeterRuntime, first, tick)) }); err != nil {
			return err
		}
	}
	return nil
}

func (h *handMeter) bulk(tx *sql.Tx, posts []billing.Post) error {
	const amount = 200 // of each, as a price list says
	mark, entry, postings := tx.Stmt(h.mark), tx.Stmt(h.entry), tx.Stmt(h.postings)
	now, n := time.Now().UnixMicro(), int64(0)
	for i, p := range posts {
		if i%10 == 0 {
			if err := tx.Stmt(h.charge).QueryRow(now/86_400_000_000, 10*amount, string(p.Payer)).Scan(&n); err != nil {
				return err
			}
			if err := wrote(tx, h.draw, 10*amount, "grant of "+string(p.Payer)); err != nil {
				return err
			}
			n -= 9
		}
		if _, err := mark.Exec(p.Resource, string(p.Meter), p.To.UnixMicro(), p.Quantity, p.From.UnixMicro()); err != nil {
			return err
		}
		if _, err := entry.Exec(string(p.Payer), n, billing.UsageID(p.Key(), p.From), amount, now, string(p.Meter), string(p.Class), p.Resource,
			string(p.Session), string(p.Project), p.From.UnixMicro(), p.To.UnixMicro(), p.Quantity, int64(p.Rate.Price), p.Rate.Per); err != nil {
			return err
		}
		if _, err := postings.Exec(string(p.Payer), n, "grant:grant of "+string(p.Payer), "revenue:runtime", -amount, amount); err != nil {
			return err
		}
		n++
	}
	return nil
}

// A tick of the meter for ten thousand sandboxes that run, of a thousand
// payers, against the same by hand; and the tick posted once more, against the first time.
func BenchmarkLedgerMeter(b *testing.B) {
	db, raw := pair(b)
	payers := payersOf(running / 10)
	rich(b, db.Ledger(), payers...)
	hand := meterByHand(b, raw, payers)
	ours, theirs := 0, 0
	tick := func() error {
		ours++
		return ticked(db.Ledger(), ours, false)
	}
	b.Run("against by hand", func(b *testing.B) {
		compare(b, tick, func() error {
			theirs++
			return hand.ticked(theirs)
		})
	})
	b.Run("again against first", func(b *testing.B) {
		compare(b, func() error { return ticked(db.Ledger(), ours, true) }, tick)
	})
}

// A sweep of what a hundred thousand sandboxes store, a thousand at a time.
func BenchmarkLedgerStorage(b *testing.B) {
	const stored = 100_000
	db, _ := pair(b)
	rich(b, db.Ledger(), payersOf(stored/10)...)
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	for b.Loop() {
		now = now.Add(time.Hour)
		for first := 0; first < stored; first += billing.MaxPosts {
			posts := metered(billing.MeterStorage, first, 0)
			keys := make([]billing.MarkKey, len(posts))
			for i, p := range posts {
				keys[i] = p.Key()
			}
			marks, err := db.Ledger().Marks(ctx, keys)
			if err != nil {
				b.Fatal(err)
			}
			for i, m := range marks {
				posts[i].From, posts[i].To = m.Through, now
				if m.Through.IsZero() {
					posts[i].From = now.Add(-time.Hour)
				}
				posts[i].Quantity, _ = billing.StorageCharge(billing.Stored{Bytes: 1 << 30, Since: posts[i].From, Used: m.Total}, m, now)
			}
			out, err := db.Ledger().Post(ctx, posts...)
			if err != nil || out[0].Err != nil || out[0].Charged == 0 {
				b.Fatal(out[0], err)
			}
		}
	}
	b.ReportMetric(stored*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
