package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/postgres"
	"github.com/bunkroom/bunkroom/internal/pgtest"
)

var seed = flag.Uint64("seed", 0, "draws the workloads; 0 draws a seed")

var (
	server  pgtest.Server
	schemas atomic.Int64 // how many there have been
)

// roleVar, when set, makes the test binary be one process of a host; see replica.
const roleVar = "BUNKROOM_E2E_REPLICA"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := beReplica(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// chance draws what a workload is free to choose, and says how to draw it again.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	s := *seed
	for s == 0 {
		s = rand.Uint64()
	}
	t.Logf("drawn with -seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// database makes a schema of a test's own. It goes with the server.
func database(t testing.TB) (db *postgres.DB, dsn string) {
	t.Helper()
	dsn = server.DSN(t)
	admin, err := postgres.Open(t.Context(), dsn, &postgres.Options{Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	schema := fmt.Sprintf("e2e_%d", schemas.Add(1))
	if _, err := admin.SQL().ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	dsn += " search_path=" + schema
	if db, err = postgres.Open(t.Context(), dsn, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, dsn
}
