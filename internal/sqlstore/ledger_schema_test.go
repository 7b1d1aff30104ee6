package sqlstore_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/internal/sqlstore"
	"github.com/bunkroom/bunkroom/session"
)

// A database of a version before the ledger, with rows, is brought up to date:
// the rows stay, and the ledger keeps accounts.
func TestUpgradeToLedger(t *testing.T) {
	for _, version := range []string{"0001_schema", "0002_lost"} {
		db := empty(t, nil)
		for _, file := range []string{"0001_schema", "0002_lost"} {
			text, err := fs.ReadFile(sqlstore.Migrations("sqlite"), file+".tx.up.sql")
			if err != nil {
				t.Fatal(err)
			}
			run(t, db, strings.ReplaceAll(string(text), "--bun:split", ""))
			if file == version {
				break
			}
		}
		run(t, db, `INSERT INTO bunkroom_sessions (id, version, owner, created_at, last_active_at) VALUES ('s', 1, 'alice', 1, 1);
			INSERT INTO bunkroom_sandboxes (id, version, session_id, state, since) VALUES ('b', 1, 's', 'live', 1)`)
		if e := schemaError(t, db); e.Found == 0 || e.Found >= e.Wanted {
			t.Errorf("before: got %v", e)
		}
		if err := errors.Join(db.Migrate(t.Context()), db.CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
		if got := load(t, db.Sessions(), session.Address{Session: "s"}); got.Sandbox.ID != "b" {
			t.Errorf("after: got %+v", got)
		}
		credited(t, db.Ledger(), "alice")
		post(t, db.Ledger(), spent(hold(t, db.Ledger(), "alice")))
		stands(t, db.Ledger(), "alice", 2, 0, 40)
	}
}

// The schema itself makes impossible what no book would write.
func TestLedgerSchemaRules(t *testing.T) {
	db := migrated(t, nil)
	credited(t, db.Ledger(), "alice")
	post(t, db.Ledger(), spent(hold(t, db.Ledger(), "alice")))
	hold(t, db.Ledger(), "alice")
	for rule, text := range map[string]string{
		"negative debt":                        `UPDATE bunkroom_accounts SET debt = -1`,
		"negative spending":                    `UPDATE bunkroom_accounts SET spent = -1`,
		"a grant that is overdrawn":            `UPDATE bunkroom_grants SET remaining = -1`,
		"a grant with more than there was":     `UPDATE bunkroom_grants SET remaining = amount + 1`,
		"a grant of nothing":                   `UPDATE bunkroom_grants SET amount = 0, remaining = 0`,
		"an unknown state":                     `UPDATE bunkroom_holds SET state = 'asleep'`,
		"an open hold that was closed":         `UPDATE bunkroom_holds SET closed_at = 1 WHERE state = 'open'`,
		"a settled hold that was never closed": `UPDATE bunkroom_holds SET closed_at = NULL WHERE state = 'settled'`,
		"a negative estimate":                  `UPDATE bunkroom_holds SET estimate = -1`,
		"a whole micro left over":              `UPDATE bunkroom_marks SET left_n = 5, left_per = 5`,
		"a negative total":                     `UPDATE bunkroom_marks SET total = -1`,
		"a negative charge":                    `UPDATE bunkroom_entries SET amount = -1`,
		"an unknown kind":                      `UPDATE bunkroom_entries SET kind = 'gift' WHERE kind = 'grant'`,
		"usage without a span":                 `UPDATE bunkroom_entries SET from_at = NULL WHERE kind = 'usage'`,
		"a span without length":                `UPDATE bunkroom_entries SET to_at = from_at WHERE kind = 'usage'`,
		"a grant's entry without the grant":    `UPDATE bunkroom_entries SET grant_id = '' WHERE kind = 'grant'`,
		"the same entry twice":                 `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, grant_id) SELECT 'bob', 1, id, kind, amount, posted_at, grant_id FROM bunkroom_entries WHERE kind = 'grant'`,
		"two entries in one place":             `INSERT INTO bunkroom_entries (payer, n, id, kind, amount, posted_at, grant_id) VALUES ('alice', 1, 'other', 'grant', 1, 1, 'g')`,
		"an account of nobody":                 `INSERT INTO bunkroom_accounts (payer, debt, day, spent, entries) VALUES ('', 0, 0, 0, 0)`,
	} {
		if _, err := db.SQL().ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "constraint") {
			t.Errorf("%s: got %v, want a constraint that refuses it", rule, err)
		}
	}
}

// A hold that nobody of this program wrote is an error, and no guess.
func TestUnknownHoldIsRefused(t *testing.T) {
	db := migrated(t, nil)
	credited(t, db.Ledger(), "alice")
	h := hold(t, db.Ledger(), "alice")
	run(t, db, "PRAGMA ignore_check_constraints = 1; UPDATE bunkroom_holds SET state = 'asleep'; PRAGMA ignore_check_constraints = 0")
	_, listing := db.Ledger().Holds(t.Context(), h.Resource)
	_, releasing := db.Ledger().Release(t.Context(), h.ID)
	for _, err := range []error{listing, releasing} {
		if err == nil || !strings.Contains(err.Error(), "asleep") {
			t.Errorf("got %v, want an error that names the state", err)
		}
	}
}

// What a verb needs is found by indexes, by the statements as they are sent: no
// table is read from end to end, and what has the order of an index is not sorted.
func TestLedgerPlans(t *testing.T) {
	db, spy := spied(t, nil)
	l := db.Ledger()
	credited(t, l, "alice")
	credited(t, l, "bob")
	h := hold(t, l, "alice")
	ten := func() (posts []billing.Post) {
		for i := range 10 {
			other := spent(h)
			other.Resource, other.Hold = strings.Repeat("r", i+1), ""
			posts = append(posts, other)
		}
		return posts
	}
	for _, c := range []struct {
		what    string
		do      func() error
		indexes []string
	}{
		{"hold", func() error { _, err := l.Hold(t.Context(), ask("alice")); return err },
			[]string{"SEARCH a USING PRIMARY KEY (payer=?)", "bunkroom_grants_left (payer=?)", "USING COVERING INDEX bunkroom_holds_open (payer=? AND until_at>?)", "SEARCH h USING PRIMARY KEY (id=?)"}},
		{"post", func() error { _, err := l.Post(t.Context(), spent(h)); return err },
			[]string{"SEARCH a USING PRIMARY KEY (payer=?)", "bunkroom_grants_left (payer=?)", "SEARCH m USING PRIMARY KEY (resource=? AND meter=?)"}},
		{"post again", func() error { _, err := l.Post(t.Context(), spent(h)); return err }, []string{"bunkroom_entries_id (id=?)"}},
		{"post many", func() error { _, err := l.Post(t.Context(), ten()...); return err }, []string{"SEARCH m USING PRIMARY KEY (resource=? AND meter=?)"}},
		{"release", func() error { _, err := l.Release(t.Context(), h.ID); return errIsNot(err, billing.ErrClosed) }, []string{"SEARCH bunkroom_holds USING PRIMARY KEY (id=?)"}},
		{"grant", func() error {
			_, err := l.Grant(t.Context(), billing.Grant{ID: "g", Payer: "alice", Source: "s", Amount: 1})
			return err
		}, []string{"SEARCH g USING PRIMARY KEY (id=?)", "bunkroom_grants_left"}},
		{"balance", func() error { _, err := l.Balance(t.Context(), "alice"); return err }, []string{"USING COVERING INDEX bunkroom_holds_open (payer=? AND until_at>?)", "bunkroom_grants_left (payer=?)"}},
		{"statement", func() error {
			_, err := l.Statement(t.Context(), billing.StatementQuery{Payer: "alice", Limit: 10})
			return err
		}, []string{"SEARCH e USING PRIMARY KEY (payer=? AND n>?)", "SEARCH p USING PRIMARY KEY (payer=? AND n>? AND n<?)"}},
		{"payers", func() error { _, err := l.Payers(t.Context(), "a", 10); return err }, []string{"SEARCH bunkroom_accounts USING PRIMARY KEY (payer>?)"}},
		{"marks", func() error {
			_, err := l.Marks(t.Context(), []billing.MarkKey{{Resource: "r", Meter: "m"}})
			return err
		}, []string{"SEARCH m USING PRIMARY KEY (resource=? AND meter=?)"}},
		{"holds", func() error { _, err := l.Holds(t.Context(), "r"); return err }, []string{"bunkroom_holds_resource (resource=?)"}},
		{"expire", func() error { _, err := l.Expire(t.Context(), 0, 10); return err }, []string{"bunkroom_holds_expiring (until_at<?)", "bunkroom_grants_expiring (expires_at>? AND expires_at<?)"}},
		{"exported", func() error { return l.Exported(t.Context(), []string{"x", "y"}) }, []string{"bunkroom_entries_id (id=?)"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			spy.reset(nil, nil)
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			lines := plan(t, db, spy.seen())
			all := strings.Join(lines, "\n")
			for _, line := range lines {
				what, scanned := strings.CutPrefix(line, "SCAN ")
				if scanned && !strings.Contains(what, "VIRTUAL TABLE") && !strings.Contains(what, "CONSTANT ROW") && !strings.Contains(what, "VALUES CLAUSE") && !strings.Contains(all, "CO-ROUTINE "+what) {
					t.Errorf("%s: a table is read from end to end:\n%s", line, all)
				}
			}
			if strings.Contains(all, "TEMP B-TREE") {
				t.Errorf("something is sorted:\n%s", all)
			}
			for _, index := range c.indexes {
				if !strings.Contains(all, index) {
					t.Errorf("want %s:\n%s", index, all)
				}
			}
		})
	}
}

// errIsNot is err, unless it is what was expected.
func errIsNot(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
