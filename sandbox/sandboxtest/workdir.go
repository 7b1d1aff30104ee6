package sandboxtest

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/sandbox"
)

// bindWorkdir binds a directory of the host at the working directory, and returns how to undo it.
func (b *box) bindWorkdir(hostDir string) (unbind func(context.Context) error) {
	b.e.Helper()
	l, ok := sandbox.As[sandbox.Binder](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no Binder, though Options.BindsWorkdir says so")
	}
	unbind, err := l.Bind(b.e.deadline(), hostDir, b.Workdir())
	b.e.ok(err, "bind at the working directory")
	return unbind
}

// inBoundWorkdir are checks as they are, done in a working directory that something is bound at.
func inBoundWorkdir(checks []check) []check {
	bound := make([]check, len(checks))
	for i, c := range checks {
		bound[i] = check{c.name, c.rule + ", also where something is bound at the working directory", func(e *env) {
			e.bound, e.dirs = true, map[sandbox.Incarnation]string{}
			c.run(e)
		}}
	}
	return bound
}

var workdirChecks = []check{
	{"Appears", "what is bound at the working directory is the working directory, for the FS and for processes, and what is written there lands in it", func(e *env) {
		b := e.box()
		dir := e.outside()
		b.bindWorkdir(dir)
		b.want("file", "outside")
		b.want(b.Workdir()+"/dir/x", "outside")
		b.write("new/file", "by the FS")
		if got, err := os.ReadFile(filepath.Join(dir, "new/file")); err != nil || string(got) != "by the FS" {
			e.fatalf("on the host: %q, %v", got, err)
		}
		if !e.processes() {
			return
		}
		for _, path := range []string{"file", b.Workdir() + "/file"} {
			if text, ok := b.reads(path); !ok || text != "outside" {
				e.fatalf("a process reads %q from %s, %v", text, path, ok)
			}
		}
		if c := e.opts.Commands; c.WriteFile != nil {
			b.run(sandbox.Cmd{Argv: c.WriteFile("by-process", "by a process")})
			if got, err := os.ReadFile(filepath.Join(dir, "by-process")); err != nil || string(got) != "by a process" {
				e.fatalf("on the host: %q, %v", got, err)
			}
		}
	}},
	{"Hides", "what the machine has in its working directory is hidden, not changed, and seen again once nothing is bound there", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		b.write("own", "the machine's")
		dir := e.outside()
		unbind := b.bindWorkdir(dir)
		if b.has("own") {
			e.fatalf("the machine's own file shows through")
		}
		b.write("own", "the folder's")
		e.ok(unbind(e.deadline()), "unbind")
		e.ok(unbind(e.deadline()), "unbind again")
		b.want("own", "the machine's")
		if b.has("file") {
			e.fatalf("what is not bound any more still shows")
		}
		if e.processes() {
			if text, ok := b.reads("own"); !ok || text != "the machine's" {
				e.fatalf("a process reads %q, %v", text, ok)
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "own")); err != nil || string(got) != "the folder's" {
			e.fatalf("on the host: %q, %v", got, err)
		}
		e.ok(os.Remove(filepath.Join(dir, "own")), "remove on the host")
		e.untouched(dir)
	}},
	{"Stays", "what is bound can't be removed nor moved as a whole, and neither Close nor Destroy removes anything in it", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		dir := e.outside()
		unbind := b.bindWorkdir(dir)
		all := &sandbox.RemoveOptions{Recursive: true, MissingOK: true}
		for _, path := range []string{".", b.Workdir(), "dir/.."} {
			e.is(b.FS().Remove(e.deadline(), path, all), "remove "+path, sandbox.ErrInvalid)
		}
		if err := b.FS().Rename(e.deadline(), ".", b.Workdir()+"/dir/moved", nil); err == nil {
			e.fatalf("the working directory was moved into itself")
		}
		e.untouched(dir)
		e.ok(b.Close(), "close")
		e.ok(unbind(e.deadline()), "unbind after close")
		e.untouched(dir)
		e.attach(m.Ref).bindWorkdir(dir)
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		e.untouched(dir)
	}},
	{"Beside", "something else can be bound beside it at the same time, links lead from one to the other, and to rename between them is ErrCrossDevice", func(e *env) {
		b := e.box()
		work, folder := e.outside(), e.outside()
		at, _ := b.bind(folder, "agent/folder")
		b.bindWorkdir(work)
		b.write("own", "x")
		for from, to := range map[string]string{"own": at + "/own", at + "/file": "moved"} {
			e.is(b.FS().Rename(e.deadline(), from, to, nil), "rename "+from, sandbox.ErrCrossDevice)
		}
		if e.opts.Links {
			b.link(sandbox.BindRoot(b), "agent-files")
			b.want("agent-files/agent/folder/file", "outside")
		}
		b.want("own", "x")
		e.untouched(folder)
	}},
	{"Escapes", "a link in it that leads out of the sandbox is not followed", func(e *env) {
		b := e.box()
		dir, secret := e.outside(), e.outside()
		b.bindWorkdir(dir)
		for name, target := range map[string]string{"abs": secret, "up": "..", "etc": "/etc", "far": "../../../../../../../etc"} {
			e.ok(os.Symlink(target, filepath.Join(dir, name)), "symlink")
		}
		for _, path := range []string{"abs/file", "up/x", "etc/passwd", "far/passwd"} {
			_, err := b.FS().Open(e.deadline(), path, nil)
			e.is(err, "open "+path, sandbox.ErrEscapes)
		}
		e.untouched(secret)
	}},
	{"Measured", "what is bound there takes nothing of the machine's disk", func(e *env) {
		if !e.opts.Measures {
			return
		}
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		before := e.measure(m.Ref)
		b.bindWorkdir(e.TempDir())
		b.write("much", noise(4*portion))
		e.noMore(m.Ref, before, 0, "files that lie elsewhere")
	}},
	{"Handles", "handles that bind different directories there each have their own where binds are per process; else the second is refused with fs.ErrExist", func(e *env) {
		m := e.create(e.newName())
		one, two := e.attach(m.Ref), e.attach(m.Ref)
		a, b := e.TempDir(), e.TempDir()
		e.put(a, "of one")
		e.put(b, "of two")
		undo := one.bindWorkdir(a)
		if !e.Info().Caps.BindsPerProcess {
			l, _ := sandbox.As[sandbox.Binder](two.Sandbox)
			_, err := l.Bind(e.deadline(), b, two.Workdir())
			e.is(err, "bind another there", fs.ErrExist)
			two.bindWorkdir(a)
			e.ok(undo(e.deadline()), "unbind")
			two.want("file", "of one")
			return
		}
		two.bindWorkdir(b)
		one.want("file", "of one")
		two.want("file", "of two")
		if e.processes() {
			if text, ok := one.reads("file"); !ok || text != "of one" {
				e.fatalf("a process reads %q, %v", text, ok)
			}
		}
		e.ok(undo(e.deadline()), "unbind")
		two.want("file", "of two")
	}},
}
