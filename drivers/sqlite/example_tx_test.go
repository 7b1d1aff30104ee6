package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
)

// A host that has a database of its own writes its rows and ours in one transaction.
func ExampleNew() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bunkroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	host, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "app.db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	db, err := sqlite.New(ctx, host, &sqlite.Options{Prefix: "rooms_"})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	tx, err := host.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	room := session.Session{ID: "0199a3c4-7d2e-7f10-8a51-2b6c9d0e4f77", Owner: "alice"}
	if _, err := db.In(tx).Sessions().Commit(ctx, session.Change{Session: &room}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Rollback(); err != nil { // the host thinks better of it
		log.Fatal(err)
	}
	_, err = db.Sessions().Load(ctx, session.Address{Session: room.ID})
	fmt.Println(errors.Is(err, session.ErrNotFound))
	// Output: true
}
