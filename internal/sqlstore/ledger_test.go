package sqlstore_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/internal/id"
)

var terms = billing.Terms{Estimate: 20, Floor: 250, InFlight: 50}

// credited gives payer credit.
func credited(t testing.TB, l billing.Ledger, payer access.UserID) {
	t.Helper()
	g := billing.Grant{ID: billing.GrantID(id.New()), Payer: payer, Amount: 100_000, Source: "monthly", GrantedAt: time.Unix(1, 0)}
	if _, err := l.Grant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

func ask(payer access.UserID) billing.HoldRequest {
	h := id.New()
	use := billing.Use{Meter: billing.MeterRuntime, Class: "small", Resource: "work " + h, Payer: payer, Session: "session"}
	return billing.HoldRequest{ID: billing.HoldID(h), Use: use, Terms: terms, TTL: time.Minute}
}

func hold(t testing.TB, l billing.Ledger, payer access.UserID) billing.Hold {
	t.Helper()
	h, err := l.Hold(t.Context(), ask(payer))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// spent is the last post of h's work, of a second that costs 40.
func spent(h billing.Hold) billing.Post {
	from := h.OpenedAt.Add(-time.Second)
	return billing.Post{Use: h.Use, From: from, To: h.OpenedAt, Quantity: 1_000_000, Rate: billing.Rate{Price: 40, Per: 1_000_000}, Hold: h.ID, Last: true}
}

// post posts p, which must be well.
func post(t testing.TB, l billing.Ledger, p billing.Post) billing.Posted {
	t.Helper()
	out, err := l.Post(t.Context(), p)
	if err != nil || out[0].Err != nil {
		t.Fatalf("Post: %+v, %v", out, err)
	}
	return out[0]
}

// stands expects so much debt and so many entries and open holds of an account, and a book that agrees with it.
func stands(t testing.TB, l billing.Ledger, payer access.UserID, entries int64, holds int, charged billing.Micros) {
	t.Helper()
	b, err := l.Balance(t.Context(), payer)
	if err != nil || b.Account.Entries != entries || b.Holds != holds || b.Spent != charged {
		t.Errorf("%s stands like %+v, %v; want %d entries, %d holds, %v spent", payer, b, err, entries, holds, charged)
	}
	v, err := billing.Verify(t.Context(), l, payer)
	if err != nil || v.Faults != nil || v.Charged != charged {
		t.Errorf("the book of %s: %+v, %v", payer, v, err)
	}
}

// What a ledger writes in the host's transaction is seen there at once, by
// others once the host commits, and by nobody if it rolls back.
func TestLedgerInHostTransaction(t *testing.T) {
	for _, keep := range []bool{true, false} {
		db, tx := hosted(t)
		in := db.In(tx).Ledger()
		credited(t, in, "alice")
		h := hold(t, in, "alice")
		post(t, in, spent(h))
		hold(t, in, "alice")
		stands(t, in, "alice", 2, 1, 40)
		end := tx.Rollback
		if keep {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if keep {
			stands(t, db.Ledger(), "alice", 2, 1, 40)
			continue
		}
		for _, table := range ledgerTables {
			if n := count(t, db, "SELECT count(*) FROM "+table); n != 0 {
				t.Errorf("%d rows in %s after a rollback", n, table)
			}
		}
	}
}

var ledgerTables = []string{"bunkroom_accounts", "bunkroom_grants", "bunkroom_holds", "bunkroom_marks", "bunkroom_entries", "bunkroom_postings"}

// What is refused in the host's transaction leaves no trace in it, and the transaction goes on.
func TestLedgerRefusedInHostTransaction(t *testing.T) {
	db, tx := hosted(t)
	in := db.In(tx).Ledger()
	credited(t, in, "alice")
	h := hold(t, in, "alice")
	if _, err := in.Hold(t.Context(), ask("bob")); !errors.As(err, new(*billing.RefusedError)) {
		t.Errorf("Hold without credit: got %v, want a RefusedError", err)
	}
	if _, err := in.Grant(t.Context(), billing.Grant{ID: "g", Payer: "alice", Source: "s"}); !errors.As(err, new(*access.FieldError)) {
		t.Errorf("Grant of nothing: got %v, want a FieldError", err)
	}
	post(t, in, spent(h))
	if _, err := in.Release(t.Context(), h.ID); !errors.Is(err, billing.ErrClosed) {
		t.Errorf("Release of what is settled: got %v, want ErrClosed", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	stands(t, db.Ledger(), "alice", 2, 0, 40)
	stands(t, db.Ledger(), "bob", 0, 0, 0)
	if n := count(t, db, "SELECT count(*) FROM orders"); n != 1 {
		t.Errorf("the host's row: %d", n)
	}
}

// Whichever statement of a post fails, nothing of it is written: no charge
// without its watermark, and no watermark without its charge. (T-66)
func TestPostFailsAsAWhole(t *testing.T) {
	for _, table := range ledgerTables[1:] {
		for _, verb := range []string{"INSERT", "UPDATE"} {
			db := migrated(t, nil)
			l := db.Ledger()
			credited(t, l, "alice")
			h := hold(t, l, "alice")
			first := spent(h)
			first.Last = false
			post(t, l, first) // so that there is a watermark to be moved
			last := spent(h)
			last.From, last.To = first.To, first.To.Add(time.Second)
			run(t, db, "CREATE TRIGGER strike BEFORE "+verb+" ON "+table+" BEGIN SELECT RAISE(ABORT, 'struck'); END")
			out, err := l.Post(t.Context(), last)
			if err == nil && out[0].Err == nil { // it does not come by there
				stands(t, l, "alice", 3, 0, 80)
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "struck") {
				t.Fatalf("%s of %s: got %+v, %v", verb, table, out, err)
			}
			stands(t, l, "alice", 2, 1, 40)
			run(t, db, "DROP TRIGGER strike")
			if again := post(t, l, last); again.Repeated || again.Charged != 40 {
				t.Errorf("%s of %s: got %+v the second time", verb, table, again)
			}
			stands(t, l, "alice", 3, 0, 80)
		}
	}
}

// A post whose context ends before or in any of its statements is written as a
// whole or not at all, and its answer says which. (T-66)
func TestLedgerContextEndsMidway(t *testing.T) {
	for n := 1; ; n++ {
		db, spy := spied(t, nil)
		l := db.Ledger()
		credited(t, l, "alice")
		h := hold(t, l, "alice")
		ended, err := spy.givenUp(t, n, func(ctx context.Context) error {
			out, err := l.Post(ctx, spent(h))
			if err == nil && out[0].Err != nil {
				err = errors.New(out[0].Err.Error()) // which is no answer to a context that ends
			}
			return err
		})
		if err == nil {
			stands(t, l, "alice", 2, 0, 40)
		} else {
			stands(t, l, "alice", 1, 1, 0)
		}
		if !ended { // there were fewer statements
			if n < 6 || err != nil {
				t.Errorf("%d statements, error %v", n-1, err)
			}
			return
		}
	}
}

// A COMMIT whose reply is lost is billing.ErrUnknown, whether it happened or
// not, and the same call once more completes it once.
func TestLedgerLostReply(t *testing.T) {
	for _, happened := range []bool{true, false} {
		db, spy := spied(t, nil)
		l := db.Ledger()
		credited(t, l, "alice")
		lose := func(commit func() error) error {
			if happened {
				if err := commit(); err != nil {
					return err
				}
			}
			return driver.ErrBadConn
		}
		asked := ask("alice")
		spy.reset(nil, lose)
		if _, err := l.Hold(t.Context(), asked); !errors.Is(err, billing.ErrUnknown) || !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("Hold, happened %t: got %v, want ErrUnknown with its cause", happened, err)
		}
		spy.reset(nil, nil)
		h, err := l.Hold(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		spy.reset(nil, lose)
		if _, err := l.Post(t.Context(), spent(h)); !errors.Is(err, billing.ErrUnknown) {
			t.Errorf("Post, happened %t: got %v, want ErrUnknown", happened, err)
		}
		spy.reset(nil, nil)
		if again := post(t, l, spent(h)); again.Repeated != happened || again.Charged != 40 {
			t.Errorf("Post again, happened %t: got %+v", happened, again)
		}
		stands(t, l, "alice", 2, 0, 40)
	}
}

// Where the process lives in another zone than UTC, moments are stored as UTC
// integers and read back as the same moments in UTC, and days are UTC's. (T-58)
func TestLedgerMomentsAreUTC(t *testing.T) {
	local := time.Local
	time.Local = time.FixedZone("IST", 5*3600+1800)
	t.Cleanup(func() { time.Local = local })
	now := time.Date(2026, 3, 4, 1, 2, 3, 456_789_123, time.Local) // in UTC it is the third still
	db := migrated(t, &sqlite.Options{Now: func() time.Time { return now }})
	l := db.Ledger()
	credited(t, l, "alice")
	h := hold(t, l, "alice")
	p := spent(h)
	p.From, p.To = now.Add(-time.Second), now
	post(t, l, p)
	at := now.UnixMicro()
	for query, want := range map[string]int64{
		"SELECT opened_at FROM bunkroom_holds":                                                   at,
		"SELECT until_at FROM bunkroom_holds":                                                    at + 60_000_000,
		"SELECT closed_at FROM bunkroom_holds":                                                   at,
		"SELECT through_at FROM bunkroom_marks":                                                  at,
		"SELECT from_at FROM bunkroom_entries WHERE kind = 'usage'":                              at - 1_000_000,
		"SELECT posted_at FROM bunkroom_entries WHERE kind = 'usage'":                            at,
		"SELECT granted_at FROM bunkroom_grants":                                                 1_000_000,
		"SELECT count(*) FROM bunkroom_grants WHERE typeof(expires_at) = 'null'":                 1,
		"SELECT day FROM bunkroom_accounts":                                                      time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC).Unix() / 86_400,
		"SELECT count(*) FROM bunkroom_entries WHERE id LIKE 'usage/runtime/work %/' || from_at": 1,
	} {
		if got := int64(count(t, db, query)); got != want {
			t.Errorf("%s: got %d, want %d", query, got, want)
		}
	}
	holds, err := l.Holds(t.Context(), h.Resource)
	if err != nil || len(holds) != 1 {
		t.Fatal(holds, err)
	}
	entries, err := l.Unexported(t.Context(), 5)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	for _, at := range []time.Time{holds[0].OpenedAt, holds[0].Until, holds[0].ClosedAt, entries[0].From, entries[0].To, entries[0].PostedAt} {
		if at.Location() != time.UTC {
			t.Errorf("read back in %v: %v", at.Location(), at)
		}
	}
}
