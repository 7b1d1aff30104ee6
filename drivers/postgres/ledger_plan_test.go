package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/postgres"
)

// accounted fills a ledger as that of a large installation is: of every payer
// there is a grant that is used up and one that is not, much that is over, and little that is open.
func accounted(t testing.TB, db *postgres.DB, n int) {
	t.Helper()
	for _, text := range []string{
		`INSERT INTO bunkroom_accounts (payer, debt, day, spent, entries) SELECT 'u' || i, 0, 1, 1, 1 FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_grants (id, payer, amount, source, priority, granted_at, expires_at, repay, remaining)
			SELECT 'g' || i || '-' || k, 'u' || i, 1000000, 's', 0, 1, CASE k WHEN 0 THEN i END, false, 1000000 * k FROM generate_series(1, $1::bigint) AS i, generate_series(0, 1) AS k`,
		`INSERT INTO bunkroom_holds (id, payer, meter, resource, estimate, state, opened_at, until_at, closed_at)
			SELECT 'h' || i, 'u' || i, 'runtime', 'w' || i, 1, CASE i % 100 WHEN 0 THEN 'open' ELSE 'settled' END, 1, i + 4000000000000000, CASE i % 100 WHEN 0 THEN NULL ELSE 2 END FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_marks (resource, meter, version, through_at, total, left_n, left_per, closed) SELECT 'w' || i, 'runtime', 1, 100, 1, 0, 0, false FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, meter, resource, from_at, to_at, quantity, price, per, exported_at)
			SELECT 'u' || i, 1, 'usage/runtime/w' || i || '/50', 'usage', 1, i, 'runtime', 'w' || i, 50, 100, 1, 1, 1, CASE i % 100 WHEN 0 THEN NULL ELSE 2 END FROM generate_series(1, $1::bigint) AS i`,
		`INSERT INTO bunkroom_postings (payer, n, place, account, amount) SELECT 'u' || i, 1, k, 'a' || k, k * 2 - 1 FROM generate_series(1, $1::bigint) AS i, generate_series(0, 1) AS k`,
	} {
		run(t, db, text, n)
	}
	run(t, db, "ANALYZE")
}

// What a verb of the ledger needs is found by indexes in a large one, by the
// statements as they are sent: nothing that is over is ever gone through.
func TestLedgerPlansAtScale(t *testing.T) {
	db, spy := spied(t, "exec")
	accounted(t, db, 20_000)
	l := db.Ledger()
	posts := func(n int, from int64) (all []billing.Post) {
		for i := range n {
			all = append(all, billing.Post{
				Use:  billing.Use{Meter: "runtime", Resource: fmt.Sprint("w", i*7+1), Payer: access.UserID(fmt.Sprint("u", i+1))},
				From: time.UnixMicro(from), To: time.UnixMicro(100), Quantity: 1, Rate: billing.Rate{Price: 1, Per: 1},
			})
		}
		return all
	}
	var keys []billing.MarkKey
	for _, p := range posts(200, 50) {
		keys = append(keys, p.Key())
	}
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
	}{
		{"hold", func() error { _, err := l.Hold(t.Context(), ask("u100")); return err },
			[]string{"bunkroom_accounts_pkey", "bunkroom_grants_left", "bunkroom_holds_open", "bunkroom_holds_pkey"}},
		{"post", func() error { _, err := l.Post(t.Context(), posts(1, 50)...); return err },
			[]string{"bunkroom_accounts_pkey", "bunkroom_grants_left", "bunkroom_marks_pkey", "bunkroom_entries_id"}},
		{"post many", func() error { _, err := l.Post(t.Context(), posts(200, 50)...); return err },
			[]string{"bunkroom_accounts_pkey", "bunkroom_grants_left", "bunkroom_marks_pkey", "bunkroom_entries_id"}},
		{"balance", func() error { _, err := l.Balance(t.Context(), "u100"); return err }, []string{"bunkroom_holds_open", "bunkroom_grants_left"}},
		{"statement", func() error {
			_, err := l.Statement(t.Context(), billing.StatementQuery{Payer: "u100", Limit: 10})
			return err
		}, []string{"bunkroom_entries_pkey", "bunkroom_postings_pkey"}},
		{"payers", func() error { _, err := l.Payers(t.Context(), "u100", 10); return err }, []string{"bunkroom_accounts_pkey"}},
		{"marks", func() error { _, err := l.Marks(t.Context(), keys); return err }, []string{"bunkroom_marks_pkey"}},
		{"holds", func() error { _, err := l.Holds(t.Context(), "w100"); return err }, []string{"bunkroom_holds_resource"}},
		{"unexported", func() error { _, err := l.Unexported(t.Context(), 10); return err }, []string{"bunkroom_entries_unexported", "bunkroom_postings_pkey"}},
		{"expire", func() error { _, err := l.Expire(t.Context(), 0, 10); return err }, []string{"bunkroom_holds_expiring", "bunkroom_grants_expiring"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			spy.during(func() { // prepares what there is to prepare
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			plan := spy.plans(t, db, func() {
				if err := c.do(); err != nil {
					t.Fatal(err)
				}
			})
			if strings.Contains(plan, "Seq Scan") {
				t.Errorf("a table is read from end to end:\n%s", plan)
			}
			for _, index := range c.indexes {
				if !strings.Contains(plan, index) {
					t.Errorf("want index %s:\n%s", index, plan)
				}
			}
		})
	}
}

// A hold takes two statements, and so does a post, of one work or of a
// thousand: one that looks and one that writes. What is refused takes one less, and what was posted before is looked up.
func TestLedgerQueriesPerCall(t *testing.T) {
	db, spy := spied(t, "exec")
	l := db.Ledger()
	credited(t, l, "alice")
	h := hold(t, l, "alice")
	many := metered(0, billing.MaxPosts, 1)
	for _, c := range []struct {
		what string
		want int
		do   func() error
	}{
		{"a hold", 2, func() error { _, err := l.Hold(t.Context(), ask("alice")); return err }},
		{"a hold that is refused", 1, func() error {
			if _, err := l.Hold(t.Context(), ask("bob")); err == nil {
				return fmt.Errorf("let in")
			}
			return nil
		}},
		{"a post", 2, func() error { _, err := l.Post(t.Context(), spent(h)); return err }},
		{"a thousand posts", 2, func() error { _, err := l.Post(t.Context(), many...); return err }},
		{"the same once more", 3, func() error { _, err := l.Post(t.Context(), many...); return err }},
		{"a balance", 1, func() error { _, err := l.Balance(t.Context(), "alice"); return err }},
		{"a page of a book", 2, func() error {
			_, err := l.Statement(t.Context(), billing.StatementQuery{Payer: "alice", Limit: 100})
			return err
		}},
		{"what was not exported", 2, func() error { _, err := l.Unexported(t.Context(), 1000); return err }},
	} {
		got := spy.during(func() {
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
		})
		if len(got) != c.want {
			t.Errorf("%s: %d statements, want %d: %s", c.what, len(got), c.want, strings.Join(got, "\n\t"))
		}
	}
}
