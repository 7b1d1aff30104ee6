package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

const running = 10_000 // sandboxes, ten of each payer

func payersOf(n int) (payers []access.UserID) {
	for i := range n {
		payers = append(payers, access.UserID(fmt.Sprintf("payer %04d", i)))
	}
	return payers
}

// metered are the posts of a tick of ten seconds, for sandboxes from the first on.
func metered(first, n, tick int) []billing.Post {
	posts := make([]billing.Post, n)
	for i := range posts {
		from := time.Unix(1_700_000_000+int64(tick)*10, 0)
		posts[i] = billing.Post{
			Use: billing.Use{
				Meter: billing.MeterRuntime, Class: "small", Resource: fmt.Sprintf("sandbox %05d", first+i),
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
		out, err := l.Post(context.Background(), metered(first, billing.MaxPosts, tick)...)
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

// The same by hand, in a statement for each table and for a thousand at a time.
const (
	bulkAccounts = `UPDATE bunkroom_accounts AS a SET day = $3, spent = a.spent + k.amount, entries = a.entries + k.entries
		FROM (SELECT * FROM unnest($1::text[], $2::bigint[], $4::bigint[]) AS u (payer, amount, entries) ORDER BY payer) AS k WHERE a.payer = k.payer RETURNING a.payer, a.entries`
	bulkGrants = `UPDATE bunkroom_grants AS g SET remaining = remaining - k.amount FROM unnest($1::text[], $2::bigint[]) AS k (id, amount) WHERE g.id = k.id`
	bulkMarks  = `INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed)
		SELECT r, 'runtime', 1, $3, $4, 0, 0, false FROM unnest($1::text[]) AS r
		ON CONFLICT (resource, meter) DO UPDATE SET through_at = excluded.through_at, total = bunkroom_marks.total + excluded.total WHERE bunkroom_marks.through_at = $2`
	bulkEntries = `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, class, resource, session_id, project, from_at, to_at, quantity, price, per)
		SELECT u.payer, u.n, u.id, 'usage', u.amount, $5, 'runtime', u.class, u.resource, u.session_id, u.project, u.from_at, u.to_at, u.quantity, u.price, u.per
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
			AS u (payer, n, id, amount, class, resource, session_id, project, from_at, to_at, quantity, price, per)`
	bulkPostings = `INSERT INTO bunkroom_postings (payer, n, place, account, amount)
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[])`
)

func tickedByHand(conn *pgx.Conn, tick int) error {
	for first := 0; first < running; first += billing.MaxPosts {
		posts := metered(first, billing.MaxPosts, tick)
		if err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error { return bulk(tx, posts) }); err != nil {
			return err
		}
	}
	return nil
}

func bulk(tx pgx.Tx, posts []billing.Post) error {
	ctx := context.Background()
	const amount = 200 // of each, as a price list says
	at := time.Now().UnixMicro()
	var payers, grants []string
	var sums, counts []int64
	for i, p := range posts {
		if i%10 == 0 {
			payers, grants = append(payers, string(p.Payer)), append(grants, "grant of "+string(p.Payer))
			sums, counts = append(sums, 0), append(counts, 0)
		}
		sums[i/10] += amount
		counts[i/10]++
	}
	rows, err := tx.Query(ctx, bulkAccounts, payers, sums, at/86_400_000_000, counts)
	if err != nil {
		return err
	}
	next := map[string]int64{}
	for rows.Next() {
		var payer string
		var n int64
		if err := rows.Scan(&payer, &n); err != nil {
			return err
		}
		next[payer] = n - 9
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, bulkGrants, grants, sums); err != nil {
		return err
	}
	var e struct {
		payers, ids, classes, resources, sessions, projects []string
		ns, amounts, froms, tos, quantities, prices, pers   []int64
		postingPayers, accounts                             []string
		postingNs, places, postingAmounts                   []int64
	}
	for _, p := range posts {
		n := next[string(p.Payer)]
		next[string(p.Payer)]++
		e.payers, e.ids, e.classes, e.resources = append(e.payers, string(p.Payer)), append(e.ids, billing.UsageID(p.Key(), p.From)), append(e.classes, string(p.Class)), append(e.resources, p.Resource)
		e.sessions, e.projects, e.ns, e.amounts = append(e.sessions, string(p.Session)), append(e.projects, string(p.Project)), append(e.ns, n), append(e.amounts, amount)
		e.froms, e.tos, e.quantities = append(e.froms, p.From.UnixMicro()), append(e.tos, p.To.UnixMicro()), append(e.quantities, p.Quantity)
		e.prices, e.pers = append(e.prices, int64(p.Rate.Price)), append(e.pers, p.Rate.Per)
		e.postingPayers, e.accounts = append(e.postingPayers, string(p.Payer), string(p.Payer)), append(e.accounts, "grant:grant of "+string(p.Payer), "revenue:runtime")
		e.postingNs, e.places, e.postingAmounts = append(e.postingNs, n, n), append(e.places, 0, 1), append(e.postingAmounts, -amount, amount)
	}
	tag, err := tx.Exec(ctx, bulkMarks, e.resources, posts[0].From.UnixMicro(), posts[0].To.UnixMicro(), posts[0].Quantity)
	if err != nil || tag.RowsAffected() != int64(len(posts)) {
		return fmt.Errorf("%v marks: %w", tag, err)
	}
	if _, err := tx.Exec(ctx, bulkEntries, e.payers, e.ns, e.ids, e.amounts, at, e.classes, e.resources, e.sessions, e.projects, e.froms, e.tos, e.quantities, e.prices, e.pers); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, bulkPostings, e.postingPayers, e.postingNs, e.places, e.accounts, e.postingAmounts)
	return err
}

// A tick of the meter for ten thousand sandboxes that run, of a thousand
// payers, against the same by hand; and the tick posted once more, against the first time.
func BenchmarkLedgerMeter(b *testing.B) {
	db := migrated(b)
	payers := payersOf(running / 10)
	rich(b, db, payers...)
	conn, err := pgx.Connect(b.Context(), byHandLedger(b, payers...))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(context.Background()) })
	ours, theirs := 0, 0
	tick := func() error {
		ours++
		return ticked(db.Ledger(), ours, false)
	}
	b.Run("against by hand", func(b *testing.B) {
		compare(b, tick, func() error {
			theirs++
			return tickedByHand(conn, theirs)
		})
	})
	b.Run("again against first", func(b *testing.B) {
		compare(b, func() error { return ticked(db.Ledger(), ours, true) }, tick)
	})
}

// A sweep of what a hundred thousand sandboxes store, a thousand at a time.
func BenchmarkLedgerStorage(b *testing.B) {
	const stored = 100_000
	db := migrated(b)
	rich(b, db, payersOf(stored/10)...)
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	for b.Loop() {
		now = now.Add(time.Hour)
		for first := 0; first < stored; first += billing.MaxPosts {
			posts := metered(first, billing.MaxPosts, 0)
			keys := make([]billing.MarkKey, len(posts))
			for i := range posts {
				posts[i].Meter = billing.MeterStorage
				keys[i] = posts[i].Key()
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
