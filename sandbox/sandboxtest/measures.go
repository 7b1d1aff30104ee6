package sandboxtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	portion = 1 << 20   // a file that no directory is as large as
	crumbs  = 256 << 10 // what directories, links and the ends of blocks may take
)

// measures returns the provider's power to measure.
func (e *env) measures() sandbox.Measurer {
	e.Helper()
	m, ok := sandbox.As[sandbox.Measurer](e.Provider)
	if !ok {
		e.fatalf("the provider is no Measurer, though Options.Measures says so")
	}
	return m
}

func (e *env) measure(ref sandbox.Ref) int64 {
	e.Helper()
	n, err := e.measures().Measure(e.deadline(), ref)
	e.ok(err, "measure %s", ref.Name)
	return n
}

// takes ends the check where the machine does not take n bytes more than before.
func (e *env) takes(ref sandbox.Ref, before, n int64, what string) {
	e.Helper()
	e.eventually(fmt.Sprintf("%s take %d bytes", what, n), func() bool { return e.measure(ref) >= before+n })
	e.noMore(ref, before, n, what)
}

// noMore ends the check where the machine takes well over n bytes more than before.
func (e *env) noMore(ref sandbox.Ref, before, n int64, what string) {
	e.Helper()
	if now := e.measure(ref); now > before+n+crumbs {
		e.fatalf("it took %d bytes, and takes %d, though %s take %d", before, now, what, n)
	}
}

// noise is text that can't be stored in less than its length.
func noise(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return string(b)
}

// gone ends the check where ref can be measured, or is anything but gone.
func (e *env) gone(ref sandbox.Ref, what string) {
	e.Helper()
	_, err := e.measures().Measure(e.deadline(), ref)
	e.is(err, "measure "+what, sandbox.ErrGone)
}

var measureChecks = []check{
	{"Grows", "what a machine takes grows with what is written, and shrinks with what is removed", func(e *env) {
		b := e.box()
		before := e.measure(b.Ref())
		if before < 0 || before > 64<<20 {
			e.fatalf("an empty machine takes %d bytes", before)
		}
		shrinks := func(n int64) {
			e.Helper()
			e.eventually("it takes less", func() bool { return e.measure(b.Ref()) <= before+n+crumbs })
		}
		b.write("a", noise(portion))
		e.takes(b.Ref(), before, portion, "one file")
		b.write("b", noise(2*portion))
		e.takes(b.Ref(), before, 3*portion, "two files")
		b.write("b", "x")
		shrinks(portion)
		e.ok(b.FS().Remove(e.deadline(), "a", nil), "remove")
		shrinks(0)
	}},
	{"Whole", "every file counts, however deep it lies, whatever its name and its size", func(e *env) {
		b := e.box()
		before := e.measure(b.Ref())
		b.write(".hidden/a/b/c/d/e/f/ü \n", noise(portion))
		e.takes(b.Ref(), before, portion, "the file")
		for i := range 64 {
			b.write(fmt.Sprintf("small/%d/%d", i%8, i), noise(portion/64))
		}
		e.eventually("many small files count like a large one", func() bool { return e.measure(b.Ref()) >= before+2*portion })
	}},
	{"Apart", "a machine's files are its own: those of other machines don't count", func(e *env) {
		m, other := e.create(e.newName()), e.create(e.newName())
		b := e.attach(m.Ref)
		b.list(".")
		before := e.measure(m.Ref)
		e.attach(other.Ref).write("f", noise(portion))
		e.noMore(m.Ref, before, 0, "the files of another")
	}},
	{"Holes", "what counts is what is allocated: a hole takes nothing", func(e *env) {
		if e.opts.Shell == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		before := e.measure(b.Ref())
		if r := b.run(sandbox.Cmd{Argv: e.script(`dd if=/dev/null of=holes bs=1 count=0 seek=16777216`)}); r.exit.Code != 0 {
			e.fatalf("dd: %s", r.stderr)
		}
		if info, err := b.FS().Stat(e.deadline(), "holes"); err != nil || info.Size != 16<<20 {
			e.fatalf("the file with a hole: %+v, %v", info, err)
		}
		e.noMore(b.Ref(), before, 0, "holes")
	}},
	{"HardLinks", "a file with several names counts once, for as long as it has one", func(e *env) {
		if e.opts.Shell == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		before := e.measure(b.Ref())
		b.write("a", noise(portion))
		if r := b.run(sandbox.Cmd{Argv: e.script(`mkdir d && ln a b && ln a d/c`)}); r.exit.Code != 0 {
			e.fatalf("ln: %s", r.stderr)
		}
		e.takes(b.Ref(), before, portion, "three names of one file")
		e.ok(b.FS().Remove(e.deadline(), "a", nil), "remove")
		e.takes(b.Ref(), before, portion, "two names of one file")
	}},
	{"Symlinks", "a symbolic link takes what it is, not what it leads to, wherever that is", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		before := e.measure(b.Ref())
		b.write("dir/f", noise(portion))
		outside := e.TempDir()
		e.ok(os.WriteFile(filepath.Join(outside, "f"), []byte(noise(portion)), 0o644), "write")
		for link, target := range map[string]string{
			"to-file": "dir/f", "to-dir": "dir", "loop": ".", "dir/up": "..", "dangling": "nothing", "out": outside, "file-out": outside + "/f",
		} {
			b.link(target, link)
		}
		e.takes(b.Ref(), before, portion, "a file and links")
	}},
	{"Binds", "what is bound is the host's, and does not count", func(e *env) {
		if !e.opts.Binds {
			return
		}
		b := e.box()
		before := e.measure(b.Ref())
		dir := e.TempDir()
		e.ok(os.WriteFile(filepath.Join(dir, "f"), []byte(noise(portion)), 0o644), "write")
		binder, _ := sandbox.As[sandbox.Binder](b.Sandbox)
		_, err := binder.Bind(e.deadline(), dir, sandbox.BindRoot(b)+"/dir")
		e.ok(err, "bind")
		b.write(sandbox.BindRoot(b)+"/dir/g", noise(portion))
		e.noMore(b.Ref(), before, 0, "bound files")
	}},
	{"Busy", "what comes and goes while it is measured is no error, and what stays counts", func(e *env) {
		b := e.box()
		b.write("stays/f", noise(portion))
		e.eventually("the file counts", func() bool { return e.measure(b.Ref()) >= portion })
		ctx, stop := context.WithCancel(context.Background())
		var churn sync.WaitGroup
		var gone atomic.Int64
		defer churn.Wait()
		defer stop()
		for i := range 2 {
			churn.Go(func() {
				dir := fmt.Sprintf("comes/%d", i)
				for ctx.Err() == nil {
					for n := range 20 {
						if err := sandbox.WriteFile(context.Background(), b.FS(), fmt.Sprintf("%s/%d/f", dir, n), []byte("x"), nil); err != nil {
							e.Errorf("write: %v", err)
							return
						}
					}
					if err := b.FS().Remove(context.Background(), dir, &sandbox.RemoveOptions{Recursive: true, MissingOK: true}); err != nil {
						e.Errorf("remove: %v", err)
						return
					}
					gone.Add(1)
				}
			})
		}
		// Each comes often enough for one to meet the other, whichever takes longer.
		for n := 0; (n < 50 || gone.Load() < 50) && !e.Failed(); n++ {
			if n := e.measure(b.Ref()); n < portion {
				e.fatalf("%d bytes, though a file of %d stays", n, portion)
			}
		}
	}},
	{"Gone", "of a machine that is not there, and where the name is another incarnation's, the answer is ErrGone, and not what it took", func(e *env) {
		m := e.create(e.newName())
		e.gone(e.absent(), "what never was")
		e.gone(e.other(m.Ref), "another incarnation")
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		e.gone(m.Ref, "what was destroyed")
	}},
	{"Replaced", "a measurement is of the incarnation that is named, and never of the one that has its name by now", func(e *env) { // T-67
		old := e.create(e.newName())
		e.ok(e.Destroy(e.deadline(), old.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(old.Ref) == 0 })
		fresh := e.create(old.Ref.Name)
		e.attach(fresh.Ref).write("f", noise(portion))
		e.gone(old.Ref, "the old one")
		e.eventually("the new one is measured", func() bool { return e.measure(fresh.Ref) >= portion })
	}},
	{"NeverWakes", "Measure never wakes a machine; where it would have to, it answers ErrAsleep", func(e *env) { // T-68
		m := e.create(e.newName())
		first, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect")
		for range 3 {
			if _, err := e.measures().Measure(e.deadline(), m.Ref); err != nil {
				e.is(err, "measure", sandbox.ErrAsleep)
			}
		}
		again, err := e.Inspect(e.deadline(), m.Ref)
		e.ok(err, "inspect again")
		if len(first) == 1 && first[0].Status == sandbox.StatusStopped && (len(again) != 1 || again[0] != first[0]) {
			e.fatalf("was %+v, is %+v", first, again)
		}
	}},
	{"Still", "Measure changes nothing: no file comes, goes or is touched", func(e *env) {
		b := e.box()
		b.write("dir/f", "x")
		look := func() (all []sandbox.FileInfo) {
			for _, dir := range []string{".", "dir"} {
				info, err := b.FS().Stat(e.deadline(), dir)
				e.ok(err, "stat %s", dir)
				all = append(all, info)
				for info, err := range b.FS().ReadDir(e.deadline(), dir) {
					e.ok(err, "readdir %s", dir)
					all = append(all, info)
				}
			}
			return all
		}
		before := look()
		e.measure(b.Ref())
		if after := look(); !slices.EqualFunc(before, after, same) {
			e.fatalf("there was %+v, there is %+v", before, after)
		}
	}},
	{"Context", "a measurement that is given up is an error, and not what was counted so far", func(e *env) {
		b := e.box()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if n, err := e.measures().Measure(ctx, b.Ref()); err == nil {
			e.fatalf("%d bytes, though the context had ended", n)
		}
	}},
	{"WrongHost", "only the host that a machine is bound to can measure it", func(e *env) {
		if !e.Info().Caps.HostBound {
			return
		}
		elsewhere := e.create(e.newName()).Ref
		elsewhere.Host = "another-host"
		_, err := e.measures().Measure(e.deadline(), elsewhere)
		e.is(err, "measure elsewhere", sandbox.ErrWrongHost)
	}},
}
