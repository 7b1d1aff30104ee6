package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

var writeChecks = []check{
	{"Parents", "missing parents are made", func(e *env) {
		b := e.box()
		b.write("a/b/c/file", "x")
		b.want("a/b/c/file", "x")
	}},
	{"AllAtOnce", "a file appears under its name when its writer is closed, and not before", func(e *env) {
		b := e.box()
		b.write("old", "old content")
		for _, name := range []string{"old", "new"} {
			w, err := b.FS().Create(e.deadline(), name, nil)
			e.ok(err, "create")
			if _, err := w.Write([]byte("half ")); err != nil {
				e.fatalf("write: %v", err)
			}
			if name == "old" {
				b.want("old", "old content")
			} else if b.has("new") {
				e.fatalf("%q is there before it is closed", name)
			}
			if _, err := w.Write([]byte("and half")); err != nil {
				e.fatalf("write: %v", err)
			}
			e.ok(w.Close(), "close")
			b.want(name, "half and half")
		}
	}},
	{"Abort", "after Abort the old content stands and nothing is left behind", func(e *env) {
		b := e.box()
		b.write("dir/old", "old")
		for _, name := range []string{"dir/old", "dir/new"} {
			w, err := b.FS().Create(e.deadline(), name, nil)
			e.ok(err, "create")
			if _, err := w.Write([]byte("dropped")); err != nil {
				e.fatalf("write: %v", err)
			}
			e.ok(w.Abort(), "abort")
		}
		b.want("dir/old", "old")
		if names := b.list("dir"); !slices.Equal(names, []string{"old"}) {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"Decided", "the first Close or Abort decides; a second call of either does nothing and returns nil", func(e *env) {
		b := e.box()
		create := func(name string) sandbox.Writer {
			w, err := b.FS().Create(e.deadline(), name, nil)
			e.ok(err, "create")
			if _, err := w.Write([]byte(name)); err != nil {
				e.fatalf("write: %v", err)
			}
			return w
		}
		w := create("closed")
		e.ok(w.Close(), "close")
		e.ok(w.Abort(), "abort after close")
		e.ok(w.Close(), "close after close")
		b.want("closed", "closed")
		w = create("aborted")
		e.ok(w.Abort(), "abort")
		e.ok(w.Close(), "close after abort")
		e.ok(w.Abort(), "abort after abort")
		if b.has("aborted") {
			e.fatalf("an aborted file is there")
		}
	}},
	{"NeverTorn", "whoever reads while a file is replaced, or renamed over, sees one whole content", func(e *env) {
		b := e.box()
		text := func(i int) []byte { return []byte(strings.Repeat(string(rune('a'+i)), 64<<10)) }
		b.write("file", string(text(0)))
		ctx, stop := context.WithCancel(e.deadline())
		var readers sync.WaitGroup
		var reads atomic.Int64
		for range 2 {
			readers.Go(func() {
				for ctx.Err() == nil {
					got, err := sandbox.ReadFile(e.deadline(), b.FS(), "file")
					if err != nil || len(got) != 64<<10 || strings.Trim(string(got), string(got[:1])) != "" {
						e.Errorf("read %s, %v\nThe rule: %s.", brief(string(got)), err, e.rule)
						return
					}
					reads.Add(1)
				}
			})
		}
		for i := range 40 {
			if err := sandbox.WriteFile(e.deadline(), b.FS(), "file", text(i%20), nil); err != nil {
				e.Errorf("write: %v", err)
			}
			if err := sandbox.WriteFile(e.deadline(), b.FS(), "other", text(i%20), nil); err != nil {
				e.Errorf("write: %v", err)
			}
			if err := b.FS().Rename(e.deadline(), "other", "file", nil); err != nil {
				e.Errorf("rename: %v", err)
			}
		}
		e.eventually("somebody has read", func() bool { return reads.Load() > 0 || e.Failed() })
		stop()
		readers.Wait()
	}},
	{"Mode", "a new file has the mode that was asked for, 0644 by default; a replaced one keeps its own", func(e *env) {
		b := e.box()
		for name, mode := range map[string]fs.FileMode{"default": 0, "private": 0o600, "program": 0o755} {
			want := mode
			if want == 0 {
				want = 0o644
			}
			for _, again := range []fs.FileMode{mode, 0o666} {
				e.ok(sandbox.WriteFile(e.deadline(), b.FS(), name, []byte("x"), &sandbox.CreateOptions{Mode: again}), "write")
				if info, err := b.FS().Stat(e.deadline(), name); err != nil || info.Mode != want {
					e.fatalf("%q has mode %v, %v, want %v (asked %v)", name, info.Mode, err, want, again)
				}
			}
		}
	}},
	{"Exclusive", "an exclusive Create refuses a name that is taken, with fs.ErrExist, and leaves what is there", func(e *env) {
		b := e.box()
		b.write("file", "old")
		b.mkdir("dir")
		exclusive := &sandbox.CreateOptions{Exclusive: true}
		for _, name := range []string{"file", "dir"} {
			e.pathIs(sandbox.WriteFile(e.deadline(), b.FS(), name, []byte("new"), exclusive), "create", name, fs.ErrExist)
		}
		b.want("file", "old")
		e.ok(sandbox.WriteFile(e.deadline(), b.FS(), "free", []byte("new"), exclusive), "create")
		b.want("free", "new")
		if names := b.list("."); !slices.Equal(names, []string{"dir", "file", "free"}) {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"ExclusiveRace", "of several exclusive Creates at once exactly one succeeds, with its own content", func(e *env) {
		b := e.box()
		text := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1000) }
		for range 10 {
			var won, lost atomic.Int64
			var winner atomic.Value
			writers := make([]sandbox.Writer, 8)
			errs := make([]error, len(writers))
			for i := range writers { // all of them before the first is closed
				if writers[i], errs[i] = b.FS().Create(e.deadline(), "dir/file", &sandbox.CreateOptions{Exclusive: true}); errs[i] == nil {
					_, errs[i] = writers[i].Write([]byte(text(i)))
				}
			}
			together(len(writers), func(i int) {
				err := errs[i]
				if err == nil {
					err = writers[i].Close()
				}
				switch {
				case err == nil:
					won.Add(1)
					winner.Store(text(i))
				case errors.Is(err, fs.ErrExist):
					lost.Add(1)
				default:
					e.Errorf("create: %v", err)
				}
			})
			if won.Load() != 1 || lost.Load() != 7 {
				e.fatalf("%d won and %d lost", won.Load(), lost.Load())
			}
			b.want("dir/file", winner.Load().(string))
			if names := b.list("dir"); len(names) != 1 {
				e.fatalf("the directory holds %q", names)
			}
			e.ok(b.FS().Remove(e.deadline(), "dir/file", nil), "remove")
		}
	}},
}
