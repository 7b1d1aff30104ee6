//go:build linux

package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/internal/pgtest"
)

var (
	all  = flag.Bool("all", false, "die at every place of money, of transcripts and on Postgres, too, and at more random moments of each story")
	seed = flag.Uint64("seed", 0, "draws the sample and the random moments; 0 draws a seed")
)

var (
	server  pgtest.Server
	schemas atomic.Int64 // how many there have been
)

// program is the host's, built once.
var program struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	if program.dir != "" {
		_ = os.RemoveAll(program.dir)
	}
	os.Exit(code)
}

// host is the program that is killed, which needs bwrap for its machines.
func host(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		need.Missing(t, need.Bwrap, "no bwrap on PATH")
	}
	return built(t)
}

// built builds the program, without the race detector: that would take most of
// the time, and has nothing to look for in a process that dies.
func built(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		if program.dir, program.err = os.MkdirTemp("", "bunkroom-crash-"); program.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program.dir, "./host").CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("go build: %w: %s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return filepath.Join(program.dir, "host")
}

// chance draws what a run is free to choose, and says how to draw it again.
func chance(t testing.TB) *rand.Rand {
	t.Helper()
	s := *seed
	for s == 0 {
		s = rand.Uint64()
	}
	t.Logf("drawn with -seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}
