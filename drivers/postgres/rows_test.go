package postgres_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// spawn is the change that opens a session of alice with a sandbox and a conversation.
func spawn(project access.ProjectID) session.Change {
	s := &session.Session{ID: session.ID(id.New()), Owner: "alice", Project: project, Name: "room"}
	return session.Change{
		Session:      s,
		Sandbox:      &sandbox.Row{ID: sandbox.ID(id.New()), Session: s.ID},
		Conversation: &session.Conversation{ID: session.ConversationID(id.New()), Session: s.ID, Project: project, Owner: s.Owner},
	}
}

// commit commits c, which must succeed, and returns what was written.
func commit(t testing.TB, s session.Store, c session.Change) session.Change {
	t.Helper()
	clock, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return c.Stamped(clock)
}

// load loads a session, which must be there.
func load(t testing.TB, s session.Store, a session.Address) session.Snapshot {
	t.Helper()
	snap, err := s.Load(t.Context(), a)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return snap
}

// outbox are all tombstones, longest waiting first.
func outbox(t testing.TB, s session.Store, hosts ...string) []sandbox.Tombstone {
	t.Helper()
	var all []sandbox.Tombstone
	for d, err := range s.Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones, Hosts: hosts, Limit: 1000}) {
		if err != nil {
			t.Fatalf("Due: %v", err)
		}
		all = append(all, d.Tombstone)
	}
	return all
}

// atOnce calls f from n goroutines at once and returns what each answered.
func atOnce(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// replicas are two pools on one migrated database, as two processes have.
func replicas(t *testing.T) [2]*postgres.DB {
	t.Helper()
	_, dsn := schema(t)
	var both [2]*postgres.DB
	for i := range both {
		both[i] = opened(t, dsn, &postgres.Options{Connections: 20})
		if err := errors.Join(both[i].Migrate(t.Context()), both[i].CheckSchema(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	return both
}
