//go:build linux

package local_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// ratio runs ours and peer in turn and reports the medians, and ours as a multiple of the peer's.
func ratio(b *testing.B, ours, peer func()) {
	ours() // what is made once only
	peer()
	var a, p []time.Duration
	for b.Loop() {
		began := time.Now()
		ours()
		a = append(a, time.Since(began))
		began = time.Now()
		peer()
		p = append(p, time.Since(began))
	}
	slices.Sort(a)
	slices.Sort(p)
	ma, mp := a[len(a)/2], p[len(p)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ma.Microseconds()), "ours-µs")
	b.ReportMetric(float64(mp.Microseconds()), "peer-µs")
	b.ReportMetric(float64(ma)/float64(mp), "ratio")
	b.ReportMetric(float64(a[len(a)*99/100])/float64(p[len(p)*99/100]), "ratio-p99")
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func runTrue(b *testing.B, sb sandbox.Sandbox) func() {
	return func() {
		_, err := sandbox.Run(context.Background(), sb, sandbox.Cmd{Argv: []string{"true"}}, nil, nil)
		must(b, err)
	}
}

// Exec of true, unconfined, against os/exec that collects the output.
func BenchmarkExecUnconfined(b *testing.B) {
	p := open(b, true)
	ratio(b, runTrue(b, attach(b, p, create(b, p, "m-g1"))), func() {
		_, err := exec.Command("true").CombinedOutput()
		must(b, err)
	})
}

// The same against os/exec that gives the program a session of its own too,
// as every process of a machine has: for that the kernel makes a group of the scheduler, which a
// busy host lets wait like everybody else.
func BenchmarkExecSession(b *testing.B) {
	p := open(b, true)
	ratio(b, runTrue(b, attach(b, p, create(b, p, "m-g1"))), func() {
		cmd := exec.Command("true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_, err := cmd.CombinedOutput()
		must(b, err)
	})
}

// Exec of true with a tag, unconfined, against without: to be marked it is traced for a moment.
func BenchmarkExecTagged(b *testing.B) {
	p := open(b, true)
	sb := attach(b, p, create(b, p, "m-g1"))
	ratio(b, func() {
		_, err := sandbox.Run(context.Background(), sb, sandbox.Cmd{Argv: []string{"true"}, Tag: "t"}, nil, nil)
		must(b, err)
	}, runTrue(b, sb))
}

// Reap of a tag that nobody has, confined, against an Inspect.
func BenchmarkReap(b *testing.B) {
	p := open(b, false)
	ref := create(b, p, "m-g1")
	attach(b, p, ref)
	ratio(b, func() { must(b, p.Reap(context.Background(), ref, "t")) }, func() {
		_, err := p.Inspect(context.Background(), ref)
		must(b, err)
	})
}

// Exec of true, confined, against bubblewrap that confines as much by itself.
func BenchmarkExecConfined(b *testing.B) {
	p := open(b, false)
	ratio(b, runTrue(b, attach(b, p, create(b, p, "m-g1"))), func() {
		_, err := exec.Command("bwrap", "--unshare-user", "--unshare-all", "--share-net", "--disable-userns", "--uid", "1000", "--ro-bind", "/", "/",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--", "true").CombinedOutput()
		must(b, err)
	})
}

// 64 MiB of output, read to the end, against io.Copy from os/exec's pipe.
func BenchmarkOutput(b *testing.B) {
	p := open(b, true)
	sb := attach(b, p, create(b, p, "m-g1"))
	argv := []string{"head", "-c", "67108864", "/dev/zero"}
	ratio(b, func() {
		exit, err := sandbox.Run(context.Background(), sb, sandbox.Cmd{Argv: argv}, io.Discard, nil)
		must(b, err)
		if exit.Stdout != 64<<20 {
			b.Fatal(exit)
		}
	}, func() {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout = struct{ io.Writer }{io.Discard}
		must(b, cmd.Run())
	})
}

// A file of 4 KiB written and read, against os.WriteFile beside it with a rename, and os.ReadFile.
func BenchmarkFile(b *testing.B) {
	p := open(b, true)
	sb := attach(b, p, create(b, p, "m-g1"))
	f, data, dir := sb.FS(), make([]byte, 4096), b.TempDir()
	must(b, sandbox.WriteFile(context.Background(), f, "file", data, nil))
	must(b, os.WriteFile(filepath.Join(dir, "file"), data, 0o644))
	b.Run("Write", func(b *testing.B) {
		ratio(b, func() {
			must(b, sandbox.WriteFile(context.Background(), f, "file", data, nil))
		}, func() {
			must(b, os.WriteFile(filepath.Join(dir, "temp"), data, 0o644))
			must(b, os.Rename(filepath.Join(dir, "temp"), filepath.Join(dir, "file")))
		})
	})
	b.Run("Read", func(b *testing.B) {
		ratio(b, func() {
			_, err := sandbox.ReadFile(context.Background(), f, "file")
			must(b, err)
		}, func() {
			_, err := os.ReadFile(filepath.Join(dir, "file"))
			must(b, err)
		})
	})
}
