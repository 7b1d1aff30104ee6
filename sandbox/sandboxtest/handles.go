package sandboxtest

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

var handleChecks = []check{
	{"Ref", "a handle knows its machine and an absolute working directory, in which there is nothing at first", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		if b.Ref() != m.Ref {
			e.fatalf("Ref is %+v, was made as %+v", b.Ref(), m.Ref)
		}
		if w := b.Workdir(); !path.IsAbs(w) || path.Clean(w) != w || w == "/" {
			e.fatalf("Workdir is %q", w)
		}
		if names := b.list("."); len(names) != 0 {
			e.fatalf("a new machine holds %q", names)
		}
	}},
	{"Close", "to close a handle twice succeeds, and never destroys the machine", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.write("kept", "x")
		e.ok(b.Close(), "close")
		e.ok(b.Close(), "close again")
		e.attach(m.Ref).want("kept", "x")
	}},
	{"Closed", "after Close every method of the handle, its FS and its powers returns ErrClosed", func(e *env) {
		b := e.box()
		b.write("f", "x")
		uses := e.uses(b, "f")
		e.ok(b.Close(), "close")
		for name, use := range uses {
			e.is(use(), name+" after Close", sandbox.ErrClosed)
		}
	}},
	{"ClosedWriter", "what is being written when its handle is closed never appears, and Close of its writer says so", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.write("f", "old")
		w, err := b.FS().Create(e.deadline(), "f", nil)
		e.ok(err, "create")
		if _, err := w.Write([]byte("new")); err != nil {
			e.fatalf("write: %v", err)
		}
		e.ok(b.Close(), "close the handle")
		e.pathIs(w.Close(), "create", "f", sandbox.ErrClosed)
		e.ok(w.Close(), "close again")
		again := e.attach(m.Ref)
		again.want("f", "old")
		if names := again.list("."); len(names) != 1 {
			e.fatalf("the directory holds %q", names)
		}
	}},
	{"Destroyed", "once its machine is destroyed a handle answers ErrGone or ErrStale", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.write("f", "x")
		uses := e.uses(b, "f")
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		for name, use := range uses {
			e.is(use(), name+" after Destroy", sandbox.ErrGone, sandbox.ErrStale)
		}
		e.ok(b.Close(), "close")
	}},
	{"Replaced", "a handle never works on another machine, even one that has its name", func(e *env) {
		m := e.create(e.newName())
		old := e.attach(m.Ref)
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		fresh := e.attach(e.create(m.Ref.Name).Ref)
		fresh.write("f", "new")
		for name, use := range e.uses(old, "f") {
			e.is(use(), name+" on the old handle", sandbox.ErrGone, sandbox.ErrStale)
		}
		if names := fresh.list("."); len(names) != 1 {
			e.fatalf("the new machine holds %q", names)
		}
		fresh.want("f", "new")
	}},
	{"Powers", "As finds the powers that the options declare, and no others", func(e *env) {
		b := e.box()
		if _, ok := sandbox.As[sandbox.Binder](b.Sandbox); ok != e.opts.Binds {
			e.fatalf("is a Binder: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.Symlinker](b.Sandbox); ok != e.opts.Links {
			e.fatalf("is a Symlinker: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.AttrSetter](b.Sandbox); ok != e.opts.Attrs {
			e.fatalf("is an AttrSetter: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.ProcessLister](b.Sandbox); ok != e.opts.Processes {
			e.fatalf("is a ProcessLister: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.TerminalStarter](b.Sandbox); ok != e.opts.Terminals {
			e.fatalf("is a TerminalStarter: %v", ok)
		}
		if _, ok := sandbox.As[sandbox.Watcher](b.Sandbox); ok != e.opts.Watches {
			e.fatalf("is a Watcher: %v", ok)
		}
	}},
	{"Concurrent", "all methods may be called concurrently", func(e *env) {
		b := e.box()
		together(8, func(i int) {
			dir := fmt.Sprintf("dir-%d", i)
			for n := range 10 {
				file, text := fmt.Sprintf("%s/f-%d", dir, n), fmt.Sprintf("%d-%d", i, n)
				if err := sandbox.WriteFile(e.deadline(), b.FS(), file, []byte(text), nil); err != nil {
					e.Errorf("write: %v", err)
				}
				if got, err := sandbox.ReadFile(e.deadline(), b.FS(), file); err != nil || string(got) != text {
					e.Errorf("read: %q, %v", got, err)
				}
				if err := b.FS().Rename(e.deadline(), file, file+"-moved", nil); err != nil {
					e.Errorf("rename: %v", err)
				}
			}
			if err := drain(e.deadline(), b.FS(), dir); err != nil {
				e.Errorf("readdir: %v", err)
			}
		})
		if names := b.list("."); len(names) != 8 {
			e.fatalf("the directory holds %q", names)
		}
	}},
}

// uses are all ways to use a handle on which there is the file name.
func (e *env) uses(b *box, name string) map[string]func() error {
	ctx := context.Background()
	f := b.FS()
	uses := map[string]func() error{
		"FS.Open":    func() error { _, err := f.Open(ctx, name, nil); return err },
		"FS.Create":  func() error { return sandbox.WriteFile(ctx, f, name+"-made", []byte("x"), nil) },
		"FS.Stat":    func() error { _, err := f.Stat(ctx, name); return err },
		"FS.Lstat":   func() error { _, err := f.Lstat(ctx, name); return err },
		"FS.ReadDir": func() error { return drain(ctx, f, ".") },
		"FS.Mkdir":   func() error { return f.Mkdir(ctx, name+"-dir") },
		"FS.Remove":  func() error { return f.Remove(ctx, name, nil) },
		"FS.Rename":  func() error { return f.Rename(ctx, name, name+"-moved", nil) },
		"b.FS.Stat":  func() error { _, err := b.FS().Stat(ctx, name); return err },
	}
	if c := e.opts.Commands; c.Echo != nil {
		uses["Start"] = func() error { return b.starts(sandbox.Cmd{Argv: c.Echo("x")}) }
	}
	if l, ok := sandbox.As[sandbox.Symlinker](b.Sandbox); ok {
		uses["Symlink"] = func() error { return l.Symlink(ctx, "x", name+"-link") }
		uses["Readlink"] = func() error { _, err := l.Readlink(ctx, name); return err }
	}
	if l, ok := sandbox.As[sandbox.AttrSetter](b.Sandbox); ok {
		uses["Chmod"] = func() error { return l.Chmod(ctx, name, 0o600) }
		uses["Chtimes"] = func() error { return l.Chtimes(ctx, name, time.Unix(1, 0)) }
	}
	if l, ok := sandbox.As[sandbox.ProcessLister](b.Sandbox); ok {
		uses["Processes"] = func() error {
			for _, err := range l.Processes(ctx) {
				return err
			}
			return nil
		}
		uses["Process"] = func() error { _, err := l.Process(ctx, "x"); return err }
	}
	if s, ok := sandbox.As[sandbox.TerminalStarter](b.Sandbox); ok {
		uses["StartTerminal"] = func() error {
			t, err := s.StartTerminal(ctx, sandbox.Cmd{Argv: e.script("true")}, sandbox.TerminalSize{Columns: 80, Rows: 24})
			if err == nil {
				t.Close()
			}
			return err
		}
	}
	if w, ok := sandbox.As[sandbox.Watcher](b.Sandbox); ok {
		uses["Watch"] = func() error { _, err := w.Watch(ctx, ".", nil); return err }
	}
	if l, ok := sandbox.As[sandbox.Binder](b.Sandbox); ok {
		dir, at := e.TempDir(), sandbox.BindRoot(b)+"/late"
		uses["Bind"] = func() error { _, err := l.Bind(ctx, dir, at); return err }
	}
	return uses
}

// starts is the error of Start.
func (b *box) starts(c sandbox.Cmd) error {
	p, err := b.Start(b.e.deadline(), c)
	if err == nil {
		p.Close()
	}
	return err
}
