package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/session"
)

func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "bunkroom")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	db, err := sqlite.Open(ctx, filepath.Join(dir, "bunkroom.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Migrate(ctx); err != nil {
		log.Fatal(err)
	}

	room := session.Session{ID: "0199a3c4-7d2e-7f10-8a51-2b6c9d0e4f77", Owner: "alice", Name: "Refactoring"}
	if _, err := db.Sessions().Commit(ctx, session.Change{Session: &room}); err != nil {
		log.Fatal(err)
	}
	page, err := db.Sessions().List(ctx, session.ListQuery{Owner: "alice", Limit: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, item := range page.Items {
		fmt.Println(item.Session.Name, item.Machine)
	}
	// Output: Refactoring none
}
