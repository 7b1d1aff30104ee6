package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// What a host's test can rest on: a change is written whole or not at all,
// and only if what it was decided on is still so.
func ExampleNew() {
	ctx := context.Background()
	noon := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	store := memory.New(&memory.Options{Now: func() time.Time { return noon }}).Sessions()

	clock, err := store.Commit(ctx, session.Change{
		Session:      &session.Session{ID: "s1", Owner: "alice", Name: "the workshop"},
		Sandbox:      &sandbox.Row{ID: "b1", Session: "s1"},
		Conversation: &session.Conversation{ID: "c1", Session: "s1", Owner: "alice"},
		Limits:       []session.Limit{{Kind: session.SessionsPerOwner, Scope: "alice", Max: 100}},
	})
	fmt.Println(clock.Format(time.TimeOnly), err)

	seen, err := store.Load(ctx, session.Address{Conversation: "c1"})
	fmt.Println(seen.Session.Name, seen.Sandbox.ID, err)

	rename := func(name string) error {
		s := seen.Session // as it was seen, for both of them
		s.Name = name
		_, err := store.Commit(ctx, session.Change{Session: &s})
		return err
	}
	fmt.Println(rename("the library"))
	fmt.Println(errors.Is(rename("the kitchen"), session.ErrStale))
	// Output:
	// 12:00:00 <nil>
	// the workshop b1 <nil>
	// <nil>
	// true
}
