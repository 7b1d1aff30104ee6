package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What must hold on a real database, where transactions are real and calls take real time.

func openSQLite(t *testing.T) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "b.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// onSQLite is a process whose rows are in db.
func onSQLite(t *testing.T, db *sqlite.DB, boxes sandbox.Provider, limits session.Limits) *session.Service {
	t.Helper()
	s, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: newDirectory(), Sandboxes: []sandbox.Provider{boxes}, KeySecret: secret, Deployment: "bunkroom",
		Limits: func(access.Plan) session.Limits { return limits },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOnSQLite(t *testing.T) {
	t.Run("S-05: twenty callers at once, through two processes, share one machine, and T-16/T-17: it ends once", func(t *testing.T) {
		db, boxes := openSQLite(t), memory.NewSandboxes(nil)
		a, b := onSQLite(t, db, boxes, session.Limits{}), onSQLite(t, db, boxes, session.Limits{})
		s, first, err := a.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"})
		if err != nil {
			t.Fatal(err)
		}
		second, err := b.AddConversation(t.Context(), bob, session.AddConversation{Session: s.ID, Agent: "tester"})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		refs := map[sandbox.Ref]bool{}
		errs := together(20, func(i int) error {
			svc, who, id := a, ann, first.ID
			if i%2 == 1 {
				svc, who, id = b, bob, second.ID
			}
			_, err := svc.Run(t.Context(), who, inConversation(id), func(ctx context.Context, w *session.Work) error {
				mu.Lock()
				defer mu.Unlock()
				refs[w.Sandbox().Ref()] = true
				return sandbox.WriteFile(ctx, w.Sandbox().FS(), fmt.Sprint(i), []byte("x"), nil)
			})
			return err
		})
		if err := errors.Join(errs...); err != nil || len(refs) != 1 || len(boxes.Machines()) != 1 {
			t.Errorf("%v; worked in %v, machines %+v", err, refs, boxes.Machines())
		}
		var ended, destroyed int
		for _, err := range together(4, func(i int) error {
			rep, err := []*session.Service{a, b}[i%2].End(t.Context(), ann, s.ID)
			mu.Lock()
			defer mu.Unlock()
			ended, destroyed = ended+b2i(rep.Ended), destroyed+b2i(rep.Destroyed)
			return err
		}) {
			if err != nil {
				t.Error(err)
			}
		}
		if ended != 1 || destroyed != 1 || len(boxes.Machines()) > 0 {
			t.Errorf("%d ended it, %d proved it gone, machines %+v", ended, destroyed, boxes.Machines())
		}
	})

	t.Run("T-26: of 50 parallel spawns at the ceiling less one, exactly one succeeds", func(t *testing.T) {
		db, boxes := openSQLite(t), memory.NewSandboxes(nil)
		svc := []*session.Service{onSQLite(t, db, boxes, session.Limits{Sessions: 3}), onSQLite(t, db, boxes, session.Limits{Sessions: 3})}
		spawn := func(i int) error {
			_, _, err := svc[i%2].Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder"})
			return err
		}
		if err := errors.Join(spawn(0), spawn(1)); err != nil {
			t.Fatal(err)
		}
		if n := ok(t, together(50, spawn), session.SessionsPerOwner, 3); n != 1 {
			t.Errorf("%d succeeded, want 1", n)
		}
	})
}

// Catalog.In rides in the host's transaction.
func TestCatalogInTransaction(t *testing.T) {
	db := openSQLite(t)
	svc := onSQLite(t, db, memory.NewSandboxes(nil), session.Limits{Sessions: 2})
	in := func(commit bool, do func(c *session.Catalog)) {
		t.Helper()
		tx, err := db.SQL().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		do(svc.In(db.In(tx).Sessions()))
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	spawn := session.Spawn{Project: "p", Agent: "builder", Conversation: callersID}

	var made session.Session
	in(false, func(c *session.Catalog) {
		s, _, err := c.Spawn(t.Context(), ann, spawn)
		if err != nil {
			t.Errorf("Spawn: %v", err)
		}
		if _, err := c.Get(t.Context(), ann, s.ID); err != nil {
			t.Errorf("Get inside the transaction: %v", err)
		}
		made = s
	})
	_, err := svc.Get(t.Context(), ann, made.ID)
	wantErr(t, "S-08: the session of a transaction that was rolled back", err, session.ErrNotFound)

	in(true, func(c *session.Catalog) {
		var err error
		if made, _, err = c.Spawn(t.Context(), ann, spawn); err != nil {
			t.Errorf("Spawn: %v", err)
		}
		if _, err := c.AddConversation(t.Context(), ann, session.AddConversation{Session: made.ID, Agent: "tester"}); err != nil {
			t.Errorf("AddConversation: %v", err)
		}
	})
	if sum, err := svc.Get(t.Context(), ann, made.ID); err != nil || len(sum.Conversations) != 2 {
		t.Errorf("after the commit: %+v, %v", sum, err)
	}

	in(true, func(c *session.Catalog) { // refusals leave the transaction usable
		_, _, err := c.Spawn(t.Context(), bob, spawn)
		wantErr(t, "T-07: the id is somebody else's", err, session.ErrConversationTaken)
		if _, _, err := c.Spawn(t.Context(), ann, session.Spawn{}); err != nil {
			t.Errorf("Spawn: %v", err)
		}
		_, _, err = c.Spawn(t.Context(), ann, session.Spawn{})
		wantLimit(t, "one too many", err, session.SessionsPerOwner, 2)
		if err := c.Rename(t.Context(), ann, made.ID, "renamed"); err != nil {
			t.Errorf("Rename: %v", err)
		}
	})
	if sum, err := svc.Get(t.Context(), ann, made.ID); err != nil || sum.Session.Name != "renamed" {
		t.Errorf("after refusals: %+v, %v", sum, err)
	}
}

// A host's own row and a session come into being together, or not at all.
func ExampleCatalog_In() {
	ctx, ann := context.Background(), access.Actor{User: "ann"}
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	db, err := sqlite.Open(ctx, filepath.Join(dir, "host.db"), nil)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		panic(err)
	}
	service, err := session.New(session.Config{Store: db.Sessions(), Leases: db.Leases(), Directory: memory.NewDirectory()})
	if err != nil {
		panic(err)
	}
	db.SQL().ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY, session TEXT)")

	tx, _ := db.SQL().BeginTx(ctx, nil)
	s, _, err := service.In(db.In(tx).Sessions()).Spawn(ctx, ann, session.Spawn{Name: "Order 17"})
	if err == nil {
		_, err = tx.ExecContext(ctx, "INSERT INTO orders VALUES ('17', ?)", string(s.ID))
	}
	if err == nil {
		err = tx.Commit()
	}
	page, _ := service.List(ctx, ann, session.Query{})
	fmt.Println(page.Items[0].Session.Name, err)
	// Output: Order 17 <nil>
}
