package session_test

import (
	"context"
	"iter"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// fleet is how many rows and machines there are. (Performance target 29.)
const fleet = 100_000

// fleetRow is the row of the machine i of a roster.
func fleetRow(i int) session.Change {
	id := "a-" + strconv.Itoa(i)
	return session.Change{
		Session: &session.Session{ID: session.ID("of-" + id), Owner: "ann"},
		Sandbox: &sandbox.Row{
			ID: sandbox.ID(id), Session: session.ID("of-" + id), Provider: "a", Payer: "ann", Deployment: "bunkroom",
			State: sandbox.Live, Generation: 1, Name: id + "-g1", Incarnation: sandbox.Incarnation("i-" + id),
		},
	}
}

// key is what a join goes by.
type key struct {
	id, incarnation string
	generation      int64
}

// join is the peer: it loads all rows into a map and looks each listed machine up.
func join(ctx context.Context, rows iter.Seq2[key, error], p *roster) (named int, err error) {
	all := map[key]struct{}{}
	for k, err := range rows {
		if err != nil {
			return 0, err
		}
		all[k] = struct{}{}
	}
	for l, err := range p.List(ctx, "bunkroom") {
		if err != nil {
			return 0, err
		}
		generation, err := strconv.ParseInt(l.Labels[sandbox.LabelGeneration], 10, 64)
		if err != nil || l.Labels[sandbox.LabelDeployment] != "bunkroom" {
			continue
		}
		if _, found := all[key{l.Labels[sandbox.LabelSandbox], string(l.Ref.Incarnation), generation}]; found {
			named++
		}
	}
	return named, nil
}

// BenchmarkSweep compares a pass over 100,000 machines, all of which a row
// names, with a hash join in Go over the same rows and the same list, in turn.
// Reported are the medians' ratio (target: at most 1.5), the machines looked
// at in a second of a pass (at least 50,000), and by how many MiB the heap grew at most (at most 64).
func BenchmarkSweep(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		db := memory.New(nil)
		store := db.Sessions()
		for i := range fleet {
			if _, err := store.Commit(b.Context(), fleetRow(i)); err != nil {
				b.Fatal(err)
			}
		}
		benchSweep(b, store, db.Leases(), func(yield func(key, error) bool) {
			for after := ""; ; { // there is no other way to have all rows
				page, err := store.Names(b.Context(), after)
				for _, n := range page.Items {
					if !yield(key{string(n.Sandbox), string(n.Incarnation), n.Generation}, err) {
						return
					}
				}
				if after = page.Next; after == "" {
					return
				}
			}
		})
	})

	b.Run("sqlite", func(b *testing.B) {
		db := fleetOnSQLite(b, fleetRow)
		benchSweep(b, db.Sessions(), db.Leases(), func(yield func(key, error) bool) {
			rows, err := db.SQL().QueryContext(b.Context(), "SELECT id, incarnation, generation FROM bunkroom_sandboxes")
			if err != nil {
				yield(key{}, err)
				return
			}
			defer rows.Close()
			for rows.Next() {
				var k key
				if err := rows.Scan(&k.id, &k.incarnation, &k.generation); !yield(k, err) {
					return
				}
			}
			if err := rows.Err(); err != nil {
				yield(key{}, err)
			}
		})
	})
}

// fleetOnSQLite is a database in which all changes of a fleet are written.
func fleetOnSQLite(b *testing.B, change func(i int) session.Change) *sqlite.DB {
	b.Helper()
	db, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "b.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	if err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	tx, err := db.SQL().BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range fleet {
		if _, err := db.In(tx).Sessions().Commit(b.Context(), change(i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	return db
}

func benchSweep(b *testing.B, store session.Store, leases session.Leases, rows iter.Seq2[key, error]) {
	p := &roster{name: "a", n: fleet}
	svc, err := session.New(session.Config{Store: store, Leases: leases, Directory: newDirectory(), Sandboxes: []sandbox.Provider{p}, KeySecret: secret, Deployment: "bunkroom"})
	if err != nil {
		b.Fatal(err)
	}
	pass := func() {
		rep, err := svc.Sweep(b.Context(), session.SweepOptions{})
		if err != nil || rep.Providers[0].Named != fleet {
			b.Fatalf("%v, %+v", err, rep)
		}
	}
	peer := func() {
		if named, err := join(b.Context(), rows, p); err != nil || named != fleet {
			b.Fatalf("%v, %d named", err, named)
		}
	}
	took := func(f func()) time.Duration {
		begun := time.Now()
		f()
		return time.Since(begun)
	}
	grown := heapGrowth(pass)
	var passes, peers []time.Duration
	for b.Loop() {
		for range 5 { // in turn, so that both meet the same machine
			passes, peers = append(passes, took(pass)), append(peers, took(peer))
		}
	}
	slices.Sort(passes)
	slices.Sort(peers)
	median, of := passes[len(passes)/2], peers[len(peers)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(median.Milliseconds()), "pass-ms")
	b.ReportMetric(float64(of.Milliseconds()), "join-ms")
	b.ReportMetric(float64(median)/float64(of), "ratio")
	b.ReportMetric(fleet/median.Seconds(), "machines/s")
	b.ReportMetric(float64(grown)/(1<<20), "MiB")
}

// heapGrowth is by how much the heap grew at most while f ran. The collector
// is kept busy, so that what is dropped counts for little.
func heapGrowth(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	var at runtime.MemStats
	runtime.ReadMemStats(&at)
	before, most := at.HeapAlloc, at.HeapAlloc
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				runtime.ReadMemStats(&at)
				most = max(most, at.HeapAlloc)
			}
		}
	})
	f()
	close(stop)
	sampling.Wait()
	return most - before
}

// nobodysStore knows of no machine.
type nobodysStore struct{ session.Store }

func (nobodysStore) Known(_ context.Context, keys []sandbox.TombstoneKey) ([]session.Known, error) {
	return slices.Repeat([]session.Known{{Now: time.Unix(0, 0)}}, len(keys)), nil
}

// A sweep holds neither the list nor the rows, even where every machine is suspected.
func TestSweepMemory(t *testing.T) {
	db := memory.New(nil)
	svc, err := session.New(session.Config{
		Store: nobodysStore{db.Sessions()}, Leases: db.Leases(), Directory: newDirectory(),
		Sandboxes: []sandbox.Provider{&roster{name: "a", n: fleet}}, KeySecret: secret, Deployment: "bunkroom",
	})
	if err != nil {
		t.Fatal(err)
	}
	for pass := range 2 {
		grown := heapGrowth(func() {
			rep, err := svc.Sweep(t.Context(), session.SweepOptions{})
			if err != nil || rep.Providers[0].Suspected != fleet {
				t.Errorf("%v, %+v", err, rep.Providers)
			}
		})
		if mib := float64(grown) / (1 << 20); mib > 64 {
			t.Errorf("pass %d took %.1f MiB, want at most 64", pass+1, mib)
		}
	}
}
