//go:build linux

package local_test

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// 1 GiB of output, read to the end, against io.Copy from os/exec's pipe, and
// how much more memory the process has at most for it.
func BenchmarkOutputGiB(b *testing.B) {
	const size = 1 << 30
	p := open(b, true)
	sb := attach(b, p, create(b, p, "m-g1"))
	argv := []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}
	grown := uint64(0)
	ratio(b, func() {
		runtime.GC()
		before := memoryTotal()
		done := make(chan struct{})
		go func() {
			defer close(done)
			exit, err := sandbox.Run(context.Background(), sb, sandbox.Cmd{Argv: argv}, io.Discard, nil)
			if err != nil || exit.Stdout != size {
				b.Error(exit, err)
			}
		}()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-tick.C:
			}
			grown = max(grown, max(memoryTotal(), before)-before)
		}
	}, func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout = struct{ io.Writer }{io.Discard}
		must(b, cmd.Run())
	})
	b.ReportMetric(float64(grown)/(1<<20), "grown-MiB")
}

// memoryTotal is how much memory the runtime has of the system and has not given back.
func memoryTotal() uint64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

// Handles through which nothing runs: the memory of ten thousand of them, and
// the goroutines of each. Unconfined each is on a machine of its own, and keeps two directories
// open, so that there are fewer here than many a system lets a process have. Confined all are on one,
// for a machine that is attached has an init: two processes, and a goroutine here that waits for them.
func BenchmarkIdle(b *testing.B) {
	const n, asked = 2_000, 10_000
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		b.Run(name, func(b *testing.B) {
			p := open(b, unconfined)
			refs := make([]sandbox.Ref, n)
			for i := range refs {
				if refs[i] = refs[0]; unconfined || i == 0 {
					refs[i] = create(b, p, fmt.Sprintf("m%d-g1", i))
				}
			}
			attach(b, p, refs[0])
			var bytes, goroutines []float64
			for b.Loop() {
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				had := runtime.NumGoroutine()
				all := make([]sandbox.Sandbox, 0, n)
				for _, ref := range refs {
					sb, err := p.Attach(context.Background(), ref)
					must(b, err)
					all = append(all, sb)
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				bytes = append(bytes, float64(after.HeapInuse+after.StackInuse)-float64(before.HeapInuse+before.StackInuse))
				goroutines = append(goroutines, float64(runtime.NumGoroutine()-had))
				for _, sb := range all {
					must(b, sb.Close())
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(slices.Max(bytes)/n*asked/(1<<20), "MiB/10k")
			b.ReportMetric(slices.Max(bytes)/n, "bytes/session")
			b.ReportMetric(slices.Max(goroutines)/n, "goroutines/session")
		})
	}
}
