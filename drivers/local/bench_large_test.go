//go:build linux

package local_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
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

// Machines that are attached and in which nothing runs: the memory of ten
// thousand of them, and what each has of goroutines, processes and open files. Where the system
// lets a process have fewer files than they need there are fewer of them.
func BenchmarkIdle(b *testing.B) {
	const asked = 10_000
	n := asked
	var files syscall.Rlimit
	must(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if most := (int(files.Cur) - 500) / 2; most < n {
		n = most
	}
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		b.Run(name, func(b *testing.B) {
			p := open(b, unconfined)
			refs := make([]sandbox.Ref, n)
			for i := range refs {
				refs[i] = create(b, p, fmt.Sprintf("m%d-g1", i))
			}
			attach(b, p, refs[0])
			var bytes, goroutines, kids, opened []float64
			for b.Loop() {
				runtime.GC()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				had, hadKids, hadOpened := runtime.NumGoroutine(), children(b), openFiles(b)
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
				kids = append(kids, float64(children(b)-hadKids))
				opened = append(opened, float64(openFiles(b)-hadOpened))
				for _, sb := range all {
					must(b, sb.Close())
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(n), "machines")
			b.ReportMetric(slices.Max(bytes)/float64(n)*asked/(1<<20), "MiB/10k")
			b.ReportMetric(slices.Max(goroutines)/float64(n), "goroutines/machine")
			b.ReportMetric(slices.Max(kids)/float64(n), "processes/machine")
			b.ReportMetric(slices.Max(opened)/float64(n), "files/machine")
		})
	}
}

// children is how many children this process has.
func children(b *testing.B) (n int) {
	b.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	must(b, err)
	for _, path := range lists {
		text, _ := os.ReadFile(path) // the thread may have ended
		n += len(strings.Fields(string(text)))
	}
	return n
}

func openFiles(b *testing.B) int {
	b.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(b, err)
	return len(entries)
}
