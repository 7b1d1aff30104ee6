package session_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// healthy is a provider that shows whatever machine it is asked for.
type healthy struct{ roster }

func (healthy) Inspect(_ context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	return []sandbox.Found{{Incarnation: ref.Incarnation, Status: sandbox.StatusRunning}}, nil
}

// fleetTombstone is the entry of the outbox for the machine i of a roster.
func fleetTombstone(i int) session.Change {
	row := fleetRow(i).Sandbox
	t, _ := row.Buried()
	return session.Change{Bury: []sandbox.Tombstone{t}}
}

// BenchmarkReclaim compares a dry pass over 100,000 entries of the outbox, all
// of which their provider still shows, with a hash join in Go over the same rows and what the provider
// lists, in turn. Reported are the medians' ratio (target: at most 1.5), what of a pass falls to one entry,
// and by how many MiB the heap grew at most (at most 64, beside what a store in memory copies of its own).
func BenchmarkReclaim(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		db := memory.New(nil)
		store := db.Sessions()
		for i := range fleet {
			if _, err := store.Commit(b.Context(), fleetTombstone(i)); err != nil {
				b.Fatal(err)
			}
		}
		benchReclaim(b, store, db.Leases())
	})

	b.Run("sqlite", func(b *testing.B) {
		db := fleetOnSQLite(b, fleetTombstone)
		benchReclaim(b, db.Sessions(), db.Leases())
	})
}

func benchReclaim(b *testing.B, store session.Store, leases session.Leases) {
	p := &healthy{roster{name: "a", n: fleet}}
	svc, err := session.New(session.Config{Store: store, Leases: leases, Directory: newDirectory(), Sandboxes: []sandbox.Provider{p}, KeySecret: secret, Deployment: "bunkroom"})
	if err != nil {
		b.Fatal(err)
	}
	pass := func() {
		rep, err := svc.Reclaim(b.Context(), session.ReclaimOptions{Limit: fleet, DryRun: true})
		if err != nil || len(rep.Items) != fleet || rep.Items[fleet-1].Action != session.ReclaimKilled || rep.Capped != 0 {
			b.Fatalf("%v, %d items", err, len(rep.Items))
		}
	}
	rows := func(yield func(key, error) bool) {
		for due, err := range store.Due(b.Context(), session.DueQuery{Kinds: session.DueTombstones, Limit: fleet}) {
			t := due.Tombstone
			if !yield(key{string(t.Sandbox), string(t.Incarnation), t.Generation}, err) {
				return
			}
		}
	}
	peer := func() {
		if named, err := join(b.Context(), rows, &p.roster); err != nil || named != fleet {
			b.Fatalf("%v, %d named", err, named)
		}
	}
	took := func(f func()) time.Duration {
		runtime.GC() // what the one before it has left is not its to collect
		begun := time.Now()
		f()
		return time.Since(begun)
	}
	grown := heapGrowth(pass)
	var passes, peers []time.Duration
	for b.Loop() {
		for range 9 { // in turn, so that both meet the same machine
			passes, peers = append(passes, took(pass)), append(peers, took(peer))
		}
	}
	slices.Sort(passes)
	slices.Sort(peers)
	ours, theirs := passes[len(passes)/2], peers[len(peers)/2]
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
	b.ReportMetric(float64(ours)/fleet, "ours-ns/op")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(grown)/(1<<20), "MiB")
}
