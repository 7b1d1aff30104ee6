package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/session"
)

// Nobody serves the database that this example names, and the error says so.
func ExampleOpen() {
	ctx := context.Background()
	db, err := postgres.Open(ctx, "host=/nowhere user=app dbname=app", nil)
	if e, ok := errors.AsType[*postgres.ServerError](err); ok {
		fmt.Println(e.Reason)
		return
	}
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
	// Output: the server can't be reached
}

// A host that has a database of its own writes its rows and ours in one transaction.
func ExampleNew() {
	ctx := context.Background()
	host, err := sql.Open("pgx", "host=/nowhere user=app dbname=app default_query_exec_mode=exec")
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	_, err = postgres.New(ctx, host, &postgres.Options{Prefix: "Rooms"})
	if e, ok := errors.AsType[*access.FieldError](err); ok {
		fmt.Println(e.Field, "is refused")
	}
	db, err := postgres.New(ctx, host, &postgres.Options{Prefix: "rooms_"})
	if err != nil { // as here, where nobody serves it
		fmt.Println(errors.As(err, new(*postgres.ServerError)))
		return
	}
	tx, err := host.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	room := session.Session{ID: "0199a3c4-7d2e-7f10-8a51-2b6c9d0e4f77", Owner: "alice"}
	if _, err := db.In(tx).Sessions().Commit(ctx, session.Change{Session: &room}); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil { // with whatever else the host has written
		log.Fatal(err)
	}
	// Output:
	// Prefix is refused
	// true
}
