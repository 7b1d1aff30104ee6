package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// fleet is several replicas on one database, of which one may be killed and
// replaced at any time.
type fleet struct {
	t     testing.TB
	roles []role
	mu    sync.Mutex
	procs []*process
	kills int
}

func newFleet(t testing.TB, n int, as role) *fleet {
	f := &fleet{t: t}
	for i := range n {
		one := as
		one.Name = fmt.Sprintf("replica-%d", i)
		one.Skew = [...]time.Duration{0, 10 * time.Minute, -10 * time.Minute, time.Minute}[i%4]
		f.roles = append(f.roles, one)
		f.procs = append(f.procs, start(t, one))
	}
	return f
}

// at is the replica that is now the ith.
func (f *fleet) at(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.procs[i%len(f.procs)]
}

// killOne kills the ith with SIGKILL and starts another in its place.
func (f *fleet) killOne(i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.procs[i].kill()
	f.kills++
	as := f.roles[i]
	as.Name = fmt.Sprintf("%s-%d", as.Name, f.kills)
	p, err := launch(f.t, as)
	if err == nil {
		f.procs[i] = p
	}
	return err
}

// workload is how many clients make how many calls each of how many
// processes, and how many of those are killed meanwhile.
type workload struct{ processes, clients, each, kills int }

var workloads = []workload{{2, 4, 60, 0}, {2, 6, 50, 3}, {4, 8, 50, 0}, {4, 8, 50, 4}}

func (w workload) String() string {
	return fmt.Sprintf("%d processes, %d clients, %d kills", w.processes, w.clients, w.kills)
}

// during has every client act at once, each with its own chance. The kills are
// spread over the calls, of which done tells how many there have been.
func (f *fleet) during(draw *rand.Rand, w workload, done func() int, act func(client int, draw *rand.Rand)) {
	f.t.Helper()
	var running sync.WaitGroup
	for i := range w.clients {
		own := rand.New(rand.NewPCG(draw.Uint64(), 0))
		running.Go(func() { act(i, own) })
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range w.kills {
		for at := w.clients * w.each * (i + 1) / (w.kills + 2); done() < at; {
			<-tick.C
		}
		if err := f.killOne(draw.IntN(len(f.procs))); err != nil {
			f.t.Errorf("no replica in the place of a killed one: %v", err)
			break
		}
	}
	running.Wait()
}
