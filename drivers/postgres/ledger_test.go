package postgres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/session"
)

// credited gives payer credit, under an id of its own.
func credited(t testing.TB, l billing.Ledger, payer access.UserID) {
	t.Helper()
	g := billing.Grant{ID: billing.GrantID(id.New()), Payer: payer, Amount: 100_000_000, Source: "monthly", GrantedAt: time.Unix(1, 0)}
	if _, err := l.Grant(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

func ask(payer access.UserID) billing.HoldRequest {
	h := id.New()
	use := billing.Use{Meter: billing.MeterRuntime, Class: "small", Resource: "work " + h, Payer: payer, Session: "session"}
	return billing.HoldRequest{ID: billing.HoldID(h), Use: use, Terms: benchTerms, TTL: time.Minute}
}

func hold(t testing.TB, l billing.Ledger, payer access.UserID) billing.Hold {
	t.Helper()
	h, err := l.Hold(t.Context(), ask(payer))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// spent is the last post of h's work, of two seconds that cost 40.
func spent(h billing.Hold) billing.Post {
	return billing.Post{Use: h.Use, From: h.OpenedAt, To: h.OpenedAt.Add(2 * time.Second), Quantity: 2_000_000, Rate: second, Hold: h.ID, Last: true}
}

func post(t testing.TB, l billing.Ledger, p billing.Post) billing.Posted {
	t.Helper()
	out, err := l.Post(t.Context(), p)
	if err != nil || out[0].Err != nil {
		t.Fatalf("Post: %+v, %v", out, err)
	}
	return out[0]
}

// stands expects so many entries and open holds of an account, so much charged, and a book that agrees with it.
func stands(t testing.TB, l billing.Ledger, payer access.UserID, entries int64, holds int, charged billing.Micros) {
	t.Helper()
	b, err := l.Balance(t.Context(), payer)
	if err != nil || b.Account.Entries != entries || b.Holds != holds {
		t.Errorf("%s stands like %+v, %v; want %d entries, %d holds", payer, b, err, entries, holds)
	}
	v, err := billing.Verify(t.Context(), l, payer)
	if err != nil || v.Faults != nil || v.Charged != charged {
		t.Errorf("the book of %s: %+v, %v; want %v charged", payer, v, err, charged)
	}
}

// What a ledger writes in the host's transaction is seen there at once, by
// others once the host commits, and by nobody if it rolls back. What is refused
// leaves no trace, and the transaction goes on.
func TestLedgerInHostTransaction(t *testing.T) {
	for _, keep := range []bool{true, false} {
		db, tx := hosted(t)
		in := db.In(tx).Ledger()
		credited(t, in, "alice")
		h := hold(t, in, "alice")
		if _, err := in.Hold(t.Context(), ask("bob")); !errors.As(err, new(*billing.RefusedError)) {
			t.Errorf("Hold without credit: got %v, want a RefusedError", err)
		}
		post(t, in, spent(h))
		if _, err := in.Release(t.Context(), h.ID); !errors.Is(err, billing.ErrClosed) {
			t.Errorf("Release of what is settled: got %v, want ErrClosed", err)
		}
		stands(t, in, "alice", 2, 0, 40)
		stands(t, db.Ledger(), "alice", 0, 0, 0) // outside, before the host commits
		end, rows := tx.Rollback, 0
		if keep {
			end, rows = tx.Commit, 1
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if keep {
			stands(t, db.Ledger(), "alice", 2, 0, 40)
		}
		for _, table := range []string{"orders", "bunkroom_accounts", "bunkroom_grants", "bunkroom_holds", "bunkroom_marks"} {
			if n := count(t, db, "SELECT count(*) FROM "+table); n != rows {
				t.Errorf("kept %t: %d rows in %s, want %d", keep, n, table, rows)
			}
		}
	}
}

// Whichever part of a post fails, or COMMIT itself, nothing of it is written: no
// charge without its watermark, and no watermark without its charge. What the
// server process is ended in is unknown, and the same call once more completes it. (T-66)
func TestPostFailsAsAWhole(t *testing.T) {
	db := migrated(t)
	run(t, db, `CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'struck'; END $$`)
	run(t, db, `CREATE FUNCTION finish() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`)
	l := db.Ledger()
	n := 0
	for _, how := range []string{"TRIGGER strike BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION strike()", "CONSTRAINT TRIGGER strike AFTER %s ON %s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION finish()"} {
		for _, at := range []string{"UPDATE accounts", "UPDATE grants", "UPDATE holds", "UPDATE marks", "INSERT entries", "INSERT postings"} {
			n++
			payer := access.UserID(fmt.Sprint("payer ", n))
			credited(t, l, payer)
			h := hold(t, l, payer)
			first := spent(h)
			first.Last = false
			post(t, l, first) // so that there is a watermark to be moved
			last := spent(h)
			last.From, last.To = first.To, first.To.Add(2*time.Second)
			verb, table, _ := strings.Cut(at, " ")
			run(t, db, "CREATE "+fmt.Sprintf(how, verb, "bunkroom_"+table))
			_, err := l.Post(t.Context(), last)
			ended := strings.Contains(how, "finish")
			if err == nil || errors.Is(err, billing.ErrUnknown) != ended || !ended && !strings.Contains(err.Error(), "struck") {
				t.Errorf("%s: got %v", at, err)
			}
			run(t, db, "DROP TRIGGER strike ON bunkroom_"+table)
			stands(t, l, payer, 2, 1, 40)
			if again := post(t, l, last); again.Repeated || again.Charged != 40 {
				t.Errorf("%s: got %+v the second time", at, again)
			}
			stands(t, l, payer, 3, 0, 80)
		}
	}
}

// A reply to a COMMIT that happened, and is lost, is billing.ErrUnknown; the
// same call once more is the same hold, and the same charge.
func TestLedgerLostReply(t *testing.T) {
	_, dsn := schema(t)
	direct := opened(t, dsn, nil)
	if err := direct.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	credited(t, direct.Ledger(), "alice")
	p, leading := through(t, dsn)
	l := opened(t, leading, &postgres.Options{Connections: 1}).Ledger()
	asked := ask("alice")
	p.lost.Store(true)
	if _, err := l.Hold(t.Context(), asked); !errors.Is(err, billing.ErrUnknown) || !p.sent.Load() {
		t.Fatalf("Hold: got %v, want ErrUnknown", err)
	}
	p.lost.Store(false)
	h, err := l.Hold(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	p.lost.Store(true)
	if _, err := l.Post(t.Context(), spent(h)); !errors.Is(err, billing.ErrUnknown) {
		t.Errorf("Post: got %v, want ErrUnknown", err)
	}
	p.lost.Store(false)
	if again := post(t, l, spent(h)); !again.Repeated || again.Charged != 40 {
		t.Errorf("Post again: got %+v", again)
	}
	stands(t, direct.Ledger(), "alice", 2, 0, 40)
}

// Who pays for a resource may change while both post: the accounts are others,
// the watermark is one. Each span is charged once, and the other is told.
func TestTwoPayersOfOneMeter(t *testing.T) {
	dbs := replicas(t)
	credited(t, dbs[0].Ledger(), "alice")
	credited(t, dbs[0].Ledger(), "bob")
	for n := range 20 {
		p := billing.Post{Use: billing.Use{Meter: billing.MeterStorage, Resource: fmt.Sprint("sandbox ", n)}, From: time.Unix(100, 0), To: time.Unix(102, 0), Quantity: 2_000_000, Rate: second}
		errs := atOnce(2, func(i int) error {
			p := p
			p.Payer = []access.UserID{"alice", "bob"}[i]
			out, err := dbs[i].Ledger().Post(t.Context(), p)
			if err != nil {
				return err
			}
			return out[0].Err
		})
		if (errs[0] == nil) == (errs[1] == nil) || !errors.As(errors.Join(errs...), new(*billing.MarkError)) {
			t.Errorf("got %v, want one to be charged", errs)
		}
		// And the same hold, of which there is one.
		h := ask("alice")
		errs = atOnce(2, func(i int) error {
			h := h
			h.Payer = []access.UserID{"alice", "bob"}[i]
			_, err := dbs[i].Ledger().Hold(t.Context(), h)
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), billing.ErrConflict) {
			t.Errorf("got %v, want one to be let in", errs)
		}
	}
	for _, payer := range []access.UserID{"alice", "bob"} {
		if v, err := billing.Verify(t.Context(), dbs[0].Ledger(), payer); err != nil || v.Faults != nil {
			t.Errorf("the book of %s: %+v, %v", payer, v, err)
		}
	}
}

// A database of a version before the ledger, with rows, is brought up to date:
// the rows stay, and the ledger keeps accounts.
func TestMigrateToLedger(t *testing.T) {
	for _, version := range []string{"0001_schema", "0002_lost"} {
		_, dsn := schema(t)
		db := opened(t, dsn, nil)
		files, err := postgres.Migrations("")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"0001_schema", "0002_lost"} {
			text, err := fs.ReadFile(files, file+".tx.up.sql")
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range strings.Split(string(text), "--bun:split") {
				run(t, db, part)
			}
			if file == version {
				break
			}
		}
		run(t, db, `INSERT INTO bunkroom_sessions (id, version, owner, created_at, last_active_at) VALUES ('s', 1, 'alice', 1, 1)`)
		if e := schemaError(t, db.CheckSchema(t.Context())); e.Found == 0 || e.Found >= e.Wanted {
			t.Errorf("before: got %v", e)
		}
		if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
		load(t, db.Sessions(), session.Address{Session: "s"})
		credited(t, db.Ledger(), "alice")
		post(t, db.Ledger(), spent(hold(t, db.Ledger(), "alice")))
		stands(t, db.Ledger(), "alice", 2, 0, 40)
	}
}
