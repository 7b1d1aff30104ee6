package sandboxtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/sandbox"
)

// bind binds a directory of the host, and returns where and how to undo it.
func (b *box) bind(hostDir, name string) (at string, unbind func(context.Context) error) {
	b.e.Helper()
	l, ok := sandbox.As[sandbox.Binder](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no Binder, though Options.Binds says so")
	}
	at = sandbox.BindRoot(b) + "/" + name
	unbind, err := l.Bind(b.e.deadline(), hostDir, at)
	b.e.ok(err, "bind at %s", at)
	return at, unbind
}

// reads reports whether a process can read path, and what it reads.
func (b *box) reads(path string) (text string, ok bool) {
	b.e.Helper()
	r := b.run(sandbox.Cmd{Argv: b.e.opts.Commands.ReadFile(path)})
	return r.stdout, r.exit.Code == 0
}

// processes reports whether processes can be asked what they see.
func (e *env) processes() bool { return e.opts.Commands.ReadFile != nil && e.opts.ProcessesSeeFiles }

var bindChecks = []check{
	{"Appears", "a directory that is bound appears for the FS and for processes, and what is written there lands in it", func(e *env) {
		b := e.box()
		dir := e.outside()
		at, _ := b.bind(dir, "some/where")
		b.want(at+"/file", "outside")
		b.want(at+"/dir/x", "outside")
		b.write(at+"/new/file", "by the FS")
		if got, err := os.ReadFile(filepath.Join(dir, "new/file")); err != nil || string(got) != "by the FS" {
			e.fatalf("on the host: %q, %v", got, err)
		}
		if e.processes() {
			if text, ok := b.reads(at + "/file"); !ok || text != "outside" {
				e.fatalf("a process reads %q, %v", text, ok)
			}
			if c := e.opts.Commands; c.WriteFile != nil {
				b.run(sandbox.Cmd{Argv: c.WriteFile(at+"/by-process", "by a process")})
				b.want(at+"/by-process", "by a process")
			}
		}
	}},
	{"Refused", "a path that is not below the directory beside the working directory is ErrInvalid, and so is the working directory unless the Caps say that it can be bound at", func(e *env) {
		b := e.box()
		if e.Info().Caps.BindsWorkdir != e.opts.BindsWorkdir {
			e.fatalf("Caps.BindsWorkdir is %v", e.Info().Caps.BindsWorkdir)
		}
		l, _ := sandbox.As[sandbox.Binder](b.Sandbox)
		root := sandbox.BindRoot(b)
		refused := []string{"", ".", "relative", b.Workdir() + "/inside", root, root + "/", root + "/..", root + "/../x", root + "foo/x", "/etc", "/", root + "/nul\x00"}
		if !e.opts.BindsWorkdir {
			refused = append(refused, b.Workdir())
		}
		for _, at := range refused {
			_, err := l.Bind(e.deadline(), e.TempDir(), at)
			e.is(err, "bind at "+at, sandbox.ErrInvalid)
		}
	}},
	{"Apart", "several handles bind different directories at once, and each FS has only its own", func(e *env) {
		m := e.create(e.newName())
		one, two := e.attach(m.Ref), e.attach(m.Ref)
		a, b := e.TempDir(), e.TempDir()
		e.put(a, "of one")
		e.put(b, "of two")
		atOne, _ := one.bind(a, "one")
		atTwo, _ := two.bind(b, "two")
		one.want(atOne+"/file", "of one")
		two.want(atTwo+"/file", "of two")
		_, err := one.FS().Stat(e.deadline(), atTwo+"/file")
		e.is(err, "the other's file", sandbox.ErrEscapes)
		if e.processes() && e.Info().Caps.BindsPerProcess {
			if text, ok := one.reads(atOne + "/file"); !ok || text != "of one" {
				e.fatalf("a process reads %q, %v", text, ok)
			}
			if text, ok := one.reads(atTwo + "/file"); ok {
				e.fatalf("a process of one handle reads %q from what the other has bound", text)
			}
		}
	}},
	{"Unbind", "unbind undoes it for the FS and for processes that start later, twice succeeds, and nothing is removed", func(e *env) {
		b := e.box()
		dir := e.outside()
		at, unbind := b.bind(dir, "folder")
		b.want(at+"/file", "outside")
		e.ok(unbind(e.deadline()), "unbind")
		e.ok(unbind(e.deadline()), "unbind again")
		_, err := b.FS().Stat(e.deadline(), at+"/file")
		e.is(err, "stat", sandbox.ErrEscapes)
		if e.processes() {
			if text, ok := b.reads(at + "/file"); ok {
				e.fatalf("a process still reads %q", text)
			}
		}
		e.untouched(dir)
		again, _ := b.bind(dir, "folder")
		b.want(again+"/file", "outside")
	}},
	{"CloseHandle", "the handle's Close undoes its binds, and nothing is removed", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		dir := e.outside()
		at, unbind := b.bind(dir, "folder")
		e.ok(b.Close(), "close")
		e.ok(unbind(e.deadline()), "unbind after close")
		if e.processes() {
			if text, ok := e.attach(m.Ref).reads(at + "/file"); ok {
				e.fatalf("a process still reads %q", text)
			}
		}
		e.untouched(dir)
	}},
	{"NeverRemoved", "nothing below a bound directory is removed with the machine, the working directory or the directory beside it", func(e *env) {
		m := e.create(e.newName())
		b := e.attach(m.Ref)
		dir := e.outside()
		at, _ := b.bind(dir, "folder")
		b.write("own", "x")
		if e.opts.Links {
			b.link(at, "to-folder")
		}
		all := &sandbox.RemoveOptions{Recursive: true, MissingOK: true}
		for _, path := range []string{sandbox.BindRoot(b), at, b.Workdir(), at + "/.."} {
			if err := b.FS().Remove(e.deadline(), path, all); err == nil {
				e.fatalf("remove %q succeeded", path)
			}
		}
		for _, name := range b.list(".") {
			e.ok(b.FS().Remove(e.deadline(), name, all), "remove %q", name)
		}
		e.untouched(dir)
		e.ok(e.Destroy(e.deadline(), m.Ref), "destroy")
		e.eventually("the machine is gone", func() bool { return e.count(m.Ref) == 0 })
		e.untouched(dir)
	}},
	{"CrossDevice", "to rename between two binds, or a bind and the working directory, is ErrCrossDevice", func(e *env) {
		b := e.box()
		dir := e.outside()
		at, _ := b.bind(dir, "folder")
		b.write("own", "x")
		for from, to := range map[string]string{"own": at + "/own", at + "/file": "file"} {
			e.is(b.FS().Rename(e.deadline(), from, to, nil), "rename "+from, sandbox.ErrCrossDevice)
		}
		b.want("own", "x")
		e.untouched(dir)
	}},
	{"Links", "a link that leads from the working directory to what is bound is followed; one that leads out of a bind is not", func(e *env) {
		if !e.opts.Links {
			return
		}
		b := e.box()
		dir := e.outside()
		at, _ := b.bind(dir, "agent/folder")
		b.link(sandbox.BindRoot(b), "agent-files")
		b.want("agent-files/agent/folder/file", "outside")
		b.link(at+"/dir", "shortcut")
		b.want("shortcut/x", "outside")
		b.write("own", "x")
		b.link(b.Workdir()+"/own", at+"/back") // in the sandbox's files all the same; but a folder need not lead there
		if got, err := sandbox.ReadFile(e.deadline(), b.FS(), at+"/back"); err == nil && string(got) != "x" || err != nil && !errors.Is(err, sandbox.ErrEscapes) {
			e.fatalf("a link back: %q, %v", got, err)
		}
		b.link("/etc", at+"/etc")
		b.link("..", at+"/up")
		for _, path := range []string{at + "/etc/passwd", at + "/up/x", "agent-files/x"} {
			_, err := b.FS().Open(e.deadline(), path, nil)
			e.is(err, "open "+path, sandbox.ErrEscapes)
		}
	}},
}
