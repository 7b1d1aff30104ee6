package sandboxtest

import (
	"io"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// any reports whether there is a command at all.
func (c Commands) any() bool {
	return c.Echo != nil || c.EchoErr != nil || c.Cat != nil || c.Exit != nil || c.KillSelf != nil || c.Env != nil || c.Dir != nil ||
		c.WriteFile != nil || c.ReadFile != nil || c.Block != nil || c.Stubborn != nil || c.Flood != nil || c.HoldOutput != nil || c.Escape != nil
}

var commandChecks = []check{
	{"None", "a sandbox without processes answers ErrUnsupported to Start", func(e *env) {
		if !e.opts.Commands.any() && e.opts.Shell == nil {
			e.is(e.box().starts(sandbox.Cmd{Argv: []string{"true"}}), "start", sandbox.ErrUnsupported)
		}
	}},
	{"NoScript", "where no shell reads it, a Script is ErrUnsupported, with parameters or without", func(e *env) {
		if !e.opts.Scripts {
			b := e.box()
			e.is(b.starts(sandbox.Cmd{Script: "true"}), "start", sandbox.ErrUnsupported)
			e.is(b.starts(sandbox.Cmd{Script: "true", Argv: []string{"true"}}), "start with parameters", sandbox.ErrUnsupported)
		}
	}},
	{"Streams", "what a command writes arrives exactly, on the stream it was written to, and is counted", func(e *env) {
		c := e.opts.Commands
		b := e.box()
		for _, text := range []string{"", "plain", "two\nlines\n", "Grüße, 世界", strings.Repeat("long ", 10_000)} {
			if c.Echo != nil {
				if r := b.run(sandbox.Cmd{Argv: c.Echo(text)}); r.stdout != text || r.stderr != "" || r.exit.Stdout != int64(len(text)) || r.exit.Stderr != 0 {
					e.fatalf("wrote %s, arrived %s and %s, %+v", brief(text), brief(r.stdout), brief(r.stderr), r.exit)
				}
			}
			if c.EchoErr != nil {
				if r := b.run(sandbox.Cmd{Argv: c.EchoErr(text)}); r.stderr != text || r.stdout != "" || r.exit.Stderr != int64(len(text)) || r.exit.Stdout != 0 {
					e.fatalf("wrote %s to stderr, arrived %s and %s, %+v", brief(text), brief(r.stdout), brief(r.stderr), r.exit)
				}
			}
		}
	}},
	{"ExitCode", "a failing command is a result with its code, never an error", func(e *env) {
		if c := e.opts.Commands; c.Exit != nil {
			b := e.box()
			for _, code := range []int{0, 1, 2, 42, 126, 127} {
				if r := b.run(sandbox.Cmd{Argv: c.Exit(code)}); r.exit.Code != code || r.exit.Reason != sandbox.Exited || r.exit.Duration < 0 {
					e.fatalf("exit %d: %+v", code, r.exit)
				}
			}
		}
	}},
	{"Signalled", "a process that is ended by a signal has the code 128 + its number", func(e *env) {
		if c := e.opts.Commands; c.KillSelf != nil {
			if r := e.box().run(sandbox.Cmd{Argv: c.KillSelf()}); r.exit.Code != 137 || r.exit.Reason != sandbox.Signalled {
				e.fatalf("killed by itself: %+v", r.exit)
			}
		}
	}},
	{"NotStarted", "a missing program or directory is ErrNotStarted, and not a result", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		b := e.box()
		for _, argv := range [][]string{{"bunkroom-no-such-program"}, {"./no-such-program", "x"}, {"/no/such/program"}, {b.Workdir() + "/no-such-program"}} {
			e.is(b.starts(sandbox.Cmd{Argv: argv}), "start "+argv[0], sandbox.ErrNotStarted)
		}
		for _, dir := range []string{"no-such-dir", b.Workdir() + "/no-such-dir"} {
			e.is(b.starts(sandbox.Cmd{Argv: c.Echo("x"), Dir: dir}), "start in "+dir, sandbox.ErrNotStarted)
		}
		if r := b.run(sandbox.Cmd{Argv: c.Echo("still fine")}); r.stdout != "still fine" {
			e.fatalf("the next command: %+v", r)
		}
	}},
	{"Invalid", "ErrInvalid names the field that is bad, and nothing is started", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		b := e.box()
		good := c.Echo("x")
		for _, bad := range []struct {
			field string
			cmd   sandbox.Cmd
		}{
			{"Argv", sandbox.Cmd{}},
			{"Argv", sandbox.Cmd{Argv: []string{""}}},
			{"Argv", sandbox.Cmd{Argv: append(append([]string{}, good...), "nul\x00")}},
			{"Dir", sandbox.Cmd{Argv: good, Dir: "nul\x00"}},
			{"Env", sandbox.Cmd{Argv: good, Env: []string{"A=1", "no equals sign"}}},
			{"Env", sandbox.Cmd{Argv: good, Env: []string{"=no name"}}},
			{"Env", sandbox.Cmd{Argv: good, Env: []string{"A=nul\x00"}}},
			{"Tag", sandbox.Cmd{Argv: good, Tag: "a b"}},
			{"Tag", sandbox.Cmd{Argv: good, Tag: "a/b"}},
			{"Tag", sandbox.Cmd{Argv: good, Tag: "nul\x00"}},
			{"Tag", sandbox.Cmd{Argv: good, Tag: "ü"}},
			{"Tag", sandbox.Cmd{Argv: good, Tag: strings.Repeat("x", 65)}},
		} {
			err := b.starts(bad.cmd)
			e.is(err, "start with a bad "+bad.field, sandbox.ErrInvalid)
			if !strings.Contains(err.Error(), bad.field) {
				e.fatalf("error %q does not name %s", err, bad.field)
			}
		}
	}},
	{"Tag", "a process may have a tag, up to 64 letters, digits and signs long", func(e *env) {
		if c := e.opts.Commands; c.Echo != nil {
			b := e.box()
			for _, tag := range []string{"t", "A-z_0.9", strings.Repeat("x", 64)} {
				if r := b.run(sandbox.Cmd{Argv: c.Echo(tag), Tag: tag}); r.stdout != tag || r.exit.Code != 0 {
					e.fatalf("tagged %s: %+v", tag, r)
				}
			}
		}
	}},
	{"Argv", "arguments are never read by a shell", func(e *env) {
		if c := e.opts.Commands; c.Echo != nil {
			b := e.box()
			for _, text := range []string{"$HOME", "a  b", "*", "'", `"`, "`id`", "$(id)", "; exit 9", "a\nb", `\n\t\0`, "-n", "%s%d", "&& x", "#", "~", "{a,b}"} {
				if r := b.run(sandbox.Cmd{Argv: c.Echo(text)}); r.stdout != text || r.exit.Code != 0 {
					e.fatalf("argument %q arrived as %q, %+v", text, r.stdout, r.exit)
				}
			}
		}
	}},
	{"Dir", "a command starts in the working directory, or in Dir, which is relative to that", func(e *env) {
		if c := e.opts.Commands; c.Dir != nil {
			b := e.box()
			b.mkdir("dir/sub")
			for dir, want := range map[string]string{"": "", ".": "", "dir": "/dir", "dir/../dir/sub": "/dir/sub", b.Workdir() + "/dir": "/dir"} {
				if r := b.run(sandbox.Cmd{Argv: c.Dir(), Dir: dir}); r.stdout != b.Workdir()+want {
					e.fatalf("started in %q it runs in %q, want %q", dir, r.stdout, b.Workdir()+want)
				}
			}
		}
	}},
	{"Env", "a command sees the variables of the Spec and of its own, the later wins, and never the host's", func(e *env) {
		c := e.opts.Commands
		if c.Env == nil {
			return
		}
		e.Setenv("BUNKROOM_SUITE_HOST", "the host's")
		r := e.request(e.newName())
		r.Spec.Env = append(append([]string{}, r.Spec.Env...), "SUITE_SPEC=spec", "SUITE_BOTH=spec")
		m, err := e.Create(e.deadline(), r)
		e.ok(err, "create")
		e.Cleanup(func() { e.Destroy(e.deadline(), m.Ref) })
		b := e.attach(m.Ref)
		for name, want := range map[string]string{
			"SUITE_SPEC": "spec", "SUITE_BOTH": "cmd", "SUITE_CMD": "a=b c\n$d", "SUITE_TWICE": "2", "SUITE_EMPTY": "", "BUNKROOM_SUITE_HOST": "",
		} {
			r := b.run(sandbox.Cmd{Argv: c.Env(name), Env: []string{"SUITE_CMD=a=b c\n$d", "SUITE_BOTH=cmd", "SUITE_TWICE=1", "SUITE_TWICE=2", "SUITE_EMPTY="}})
			if r.stdout != want || r.exit.Code != 0 {
				e.fatalf("%s is %q, want %q (%+v)", name, r.stdout, want, r.exit)
			}
		}
		if r := b.run(sandbox.Cmd{Argv: c.Env("SUITE_CMD")}); r.stdout != "" {
			e.fatalf("a variable of another command is still there: %q", r.stdout)
		}
	}},
	{"Stdin", "the input arrives exactly; without one it has ended already", func(e *env) { // case 8
		if c := e.opts.Commands; c.Cat != nil {
			b := e.box()
			if r := b.run(sandbox.Cmd{Argv: c.Cat()}); r.stdout != "" || r.exit.Code != 0 {
				e.fatalf("without input: %+v", r)
			}
			for _, text := range []string{"", "no newline", strings.Repeat("0123456789abcde\n", 1<<14), strings.Repeat("世", 50<<10)} { // case 16
				if r := b.run(sandbox.Cmd{Argv: c.Cat(), Stdin: strings.NewReader(text)}); r.stdout != text || r.exit.Code != 0 {
					e.fatalf("%s became %s, %+v", brief(text), brief(r.stdout), r.exit)
				}
			}
		}
	}},
	{"StdinBlocks", "an input that never ends holds nobody up who doesn't read it", func(e *env) { // case 8
		if c := e.opts.Commands; c.Echo != nil {
			r, w := io.Pipe()
			e.Cleanup(func() { w.Close() })
			if r := e.box().run(sandbox.Cmd{Argv: c.Echo("done"), Stdin: r}); r.stdout != "done" || r.exit.Reason != sandbox.Exited {
				e.fatalf("%+v", r)
			}
		}
	}},
	{"Files", "processes and the FS see the same files", func(e *env) {
		c := e.opts.Commands
		if c.ReadFile == nil || c.WriteFile == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		b.write("dir/from-fs", "by the FS")
		for _, path := range []string{"dir/from-fs", b.Workdir() + "/dir/from-fs"} {
			if r := b.run(sandbox.Cmd{Argv: c.ReadFile(path)}); r.stdout != "by the FS" {
				e.fatalf("a process reads %+v from %q", r, path)
			}
		}
		b.run(sandbox.Cmd{Argv: c.WriteFile("dir/from-process", "by a process")})
		b.want("dir/from-process", "by a process")
		if r := b.run(sandbox.Cmd{Argv: c.ReadFile("missing")}); r.exit.Code == 0 || r.exit.Reason != sandbox.Exited {
			e.fatalf("a missing file: %+v", r)
		}
	}},
	{"ID", "each process has an id of its own", func(e *env) {
		if c := e.opts.Commands; c.Echo != nil {
			b := e.box()
			seen := map[string]bool{}
			for range 5 {
				p := b.start(sandbox.Cmd{Argv: c.Echo("x")})
				if id := p.ID(); id == "" || seen[id] || id != p.ID() {
					e.fatalf("id %q after %v", id, seen)
				}
				seen[p.ID()] = true
				e.wait(p)
			}
		}
	}},
}
