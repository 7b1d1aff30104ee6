package files

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

// crowd is a folder with n objects, a hundred in each directory.
func crowd(b *testing.B, n int) *Folder {
	b.Helper()
	bucket := memblob.OpenBucket(&memblob.Options{NoMD5: true})
	b.Cleanup(func() { _ = bucket.Close() })
	d := open(b, Config{Bucket: bucket, SoleWriter: true})
	text := []byte(strings.Repeat("text of a file\n", 64))
	for i := range n {
		key := d.key(fmt.Sprintf("d%04d/f%02d.txt", i/100, i%100))
		if err := bucket.WriteAll(context.Background(), key, text, &blob.WriterOptions{ContentType: "text/plain"}); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

// BenchmarkLevel lists one directory of a folder with 100,000 objects.
func BenchmarkLevel(b *testing.B) {
	d := crowd(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		l, err := d.Level(b.Context(), "d0500", &LevelOptions{View: ViewGit})
		if err != nil || l.Total != 100 {
			b.Fatal(l.Total, err)
		}
	}
}

// BenchmarkCount counts what is in a folder with 100,000 objects, to the cap.
func BenchmarkCount(b *testing.B) {
	d := crowd(b, 100_000)
	for b.Loop() {
		if n, capped, err := d.Count(b.Context(), "", ViewAll); n != DefaultMaxCount || !capped || err != nil {
			b.Fatal(n, capped, err)
		}
	}
}

// BenchmarkZip writes an archive of 10,000 files, and reports by how much the
// heap was larger while it did.
func BenchmarkZip(b *testing.B) {
	d := crowd(b, 10_000)
	a, err := Export(b.Context(), []Source{{Folder: d}}, nil)
	if err != nil {
		b.Fatal(err)
	}
	var most uint64
	for b.Loop() {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		writes := 0
		out := writerFunc(func(p []byte) (int, error) {
			if writes++; writes%200 == 0 {
				runtime.GC() // what is reachable, not what waits to be collected
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
			}
			return len(p), nil
		})
		if done, err := a.WriteZip(b.Context(), out); err != nil || done.Files != 10_000 {
			b.Fatal(done.Files, err)
		}
	}
	b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
}

// BenchmarkRollUp decides about 10,000 files in 1,000 directories.
func BenchmarkRollUp(b *testing.B) {
	all := make([]Entry, 10_000)
	for i := range all {
		all[i] = Entry{Path: fmt.Sprintf("a%d/b%d/f%d", i%10, i%1000, i), ModTime: at(i)}
	}
	for b.Loop() {
		if len(rollUp(all)) == 0 {
			b.Fatal("nothing")
		}
	}
}
