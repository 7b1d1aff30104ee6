package sandboxtest

import (
	"fmt"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

var scriptChecks = []check{
	{"Text", "a script arrives as it stands, with here-documents, quotes and odd text, and so does the next one", func(e *env) { // cases 3, 4
		b := e.box()
		for range 2 {
			r := b.run(sandbox.Cmd{Script: "cat <<'EOF'\n$HOME `id` \"quoted\" 'q' \\n\n\nEOF\ncat <<END\n\tindented $((1 + 2))\nEND"})
			if want := "$HOME `id` \"quoted\" 'q' \\n\n\n\tindented 3\n"; r.stdout != want || r.exit.Code != 0 || r.exit.Reason != sandbox.Exited {
				e.fatalf("wrote %q and %q, %+v, want %q", r.stdout, r.stderr, r.exit, want)
			}
			if r := b.run(sandbox.Cmd{Script: "# nothing but a comment"}); r.stdout+r.stderr != "" || r.exit.Code != 0 {
				e.fatalf("a comment: %+v", r)
			}
			if r := b.run(sandbox.Cmd{Script: "cat <<EOF\nnever closed"}); r.stdout != "never closed" && r.stdout != "never closed\n" {
				e.fatalf("a here-document that is never closed: %+v", r)
			}
		}
	}},
	{"Parameters", "Argv are the script's parameters, each as it stands, and may be none", func(e *env) {
		b := e.box()
		for _, argv := range [][]string{nil, {"one"}, {"-x", "--", "a  b", "", "$HOME", "'\"`", "*", "Grüße\n"}} {
			want := fmt.Sprintf("%d", len(argv))
			for _, a := range argv {
				want += "|" + a
			}
			r := b.run(sandbox.Cmd{Script: `printf %s $#; for a in "$@"; do printf "|%s" "$a"; done`, Argv: argv})
			if r.stdout != want || r.stderr != "" || r.exit.Code != 0 {
				e.fatalf("with %q: %+v, want %q", argv, r, want)
			}
		}
	}},
	{"Place", "a script starts in Dir, and with the variables of Env", func(e *env) {
		b := e.box()
		b.mkdir("dir")
		r := b.run(sandbox.Cmd{Script: `printf %s "$(pwd -P) $SUITE_CMD"`, Dir: "dir", Env: []string{"SUITE_CMD=a=b c", "PATH=/nowhere"}})
		if r.stdout != b.Workdir()+"/dir a=b c" || r.exit.Code != 0 {
			e.fatalf("%+v", r)
		}
	}},
	{"Stdin", "a script leaves its input to what it runs; without one it has ended already", func(e *env) { // case 8
		b := e.box()
		input := "first\nsecond\nthird, without a newline"
		r := b.run(sandbox.Cmd{Script: "read -r a\necho \"a: $a\"\ncat\nread -r b\necho \"; $? $b\"", Stdin: strings.NewReader(input)})
		if want := "a: first\nsecond\nthird, without a newline; 1 \n"; r.stdout != want || r.exit.Code != 0 {
			e.fatalf("%+v, want %q", r, want)
		}
		if r := b.run(sandbox.Cmd{Script: "cat\necho done\n"}); r.stdout != "done\n" {
			e.fatalf("without input: %+v", r)
		}
	}},
	{"Large", "a script may be long, and so may a line of it", func(e *env) {
		const n = 1 << 20
		b := e.box()
		long := strings.Repeat("世界 ", n/7)
		if r := b.run(sandbox.Cmd{Script: "cat <<'EOF'\n" + long + "\nEOF\necho end"}); r.exit.Stdout != int64(len(long))+1+4 || !strings.HasSuffix(r.stdout, "\nend\n") {
			e.fatalf("a long line: %s and %q, %+v", brief(r.stdout), r.stderr, r.exit)
		}
		if r := b.run(sandbox.Cmd{Script: strings.Repeat(": # a line\n", n/11) + "echo end"}); r.stdout != "end\n" || r.exit.Code != 0 {
			e.fatalf("many lines: %+v", r)
		}
	}},
	{"Verdict", "what a script ends with is the result; what the shell can't read is told by the shell, after what comes before it has run", func(e *env) { // case 6
		b := e.box()
		for script, code := range map[string]int{"exit 7": 7, "false": 1, "exec sh -c 'exit 9'": 9, "no-such-command-here": 127, "set -e; false; exit 3": 1} {
			if r := b.run(sandbox.Cmd{Script: script}); r.exit.Code != code || r.exit.Reason != sandbox.Exited {
				e.fatalf("%q: %+v", script, r)
			}
		}
		for _, bad := range []string{"if true; then", "echo 'unclosed", ")", "case x in", "for"} {
			r := b.run(sandbox.Cmd{Script: "echo before\n" + bad + "\n"})
			if r.exit.Code == 0 || r.exit.Code > 125 || r.exit.Reason != sandbox.Exited || r.stdout != "before\n" || r.stderr == "" {
				e.fatalf("%q: %+v", bad, r)
			}
		}
		if r := b.run(sandbox.Cmd{Script: "echo '1 2\n3 4' | awk '\n{\n  s += $1 * $2 # a comment with \"quotes\n}\nEND { print s }\n'"}); r.stdout != "14\n" {
			e.fatalf("a program in several lines: %+v", r)
		}
	}},
	{"Stopped", "a script is stopped as any process is, also one that has put another program in its place", func(e *env) { // case 4
		b := e.box()
		for _, script := range []string{"echo x; sleep 1000; true", "echo x; exec sleep 1000"} {
			p := b.start(sandbox.Cmd{Script: script, Timeout: soon, KillGrace: grace})
			e.within(soon+grace, "the end", func() {
				if exit := e.wait(p); exit.Reason != sandbox.TimedOut || exit.Stdout != 2 {
					e.fatalf("%q: %+v", script, exit)
				}
			})
		}
	}},
	{"NUL", "a script that holds a NUL byte is ErrInvalid, and the error names the field", func(e *env) {
		err := e.box().starts(sandbox.Cmd{Script: "echo a\x00b"})
		e.is(err, "start", sandbox.ErrInvalid)
		if !strings.Contains(err.Error(), "Script") {
			e.fatalf("error %q does not name Script", err)
		}
	}},
}

var environmentChecks = []check{
	{"Cleared", "with ClearEnv a command has its own variables and none of the Spec, of the sandbox or of the host", func(e *env) {
		c := e.opts.Commands
		e.Setenv("BUNKROOM_SUITE_HOST", "the host's")
		r := e.request(e.newName())
		r.Spec.Env = append(append([]string{}, r.Spec.Env...), "SUITE_SPEC=spec", "SUITE_BOTH=spec")
		m, err := e.Create(e.deadline(), r)
		e.ok(err, "create")
		e.Cleanup(func() { e.Destroy(e.deadline(), m.Ref) })
		b := e.attach(m.Ref)
		for name, want := range map[string]string{
			"SUITE_SPEC": "", "HOME": "", "LANG": "", "TMPDIR": "", "BUNKROOM_SUITE_HOST": "", "SUITE_BOTH": "cmd", "SUITE_TWICE": "2", "SUITE_CMD": "a=b c\n$d",
		} {
			r := b.run(sandbox.Cmd{Argv: c.Env(name), ClearEnv: true, Env: []string{"SUITE_BOTH=cmd", "SUITE_TWICE=1", "SUITE_TWICE=2", "SUITE_CMD=a=b c\n$d"}})
			if r.stdout != want || r.exit.Code != 0 {
				e.fatalf("%s is %q, want %q (%+v)", name, r.stdout, want, r.exit)
			}
		}
		if r := b.run(sandbox.Cmd{Argv: c.Env("SUITE_SPEC")}); r.stdout != "spec" {
			e.fatalf("the next command, which has nothing cleared: %+v", r)
		}
	}},
	{"Whole", "with ClearEnv there is nothing else, but what says where it starts or by what it is found again", func(e *env) {
		if e.opts.Shell == nil {
			return
		}
		b := e.box()
		for _, env := range [][]string{nil, {"SUITE_A=1", "SUITE_B="}} {
			r := b.run(sandbox.Cmd{Argv: []string{"env"}, ClearEnv: true, Env: env})
			left := map[string]bool{}
			for line := range strings.Lines(r.stdout) {
				if name, _, _ := strings.Cut(line, "="); name != "PWD" && !strings.HasPrefix(name, "BUNKROOM_") {
					left[strings.TrimSuffix(line, "\n")] = true
				}
			}
			for _, v := range env {
				if !left[v] {
					e.fatalf("%s is missing in %q", v, r.stdout)
				}
			}
			if len(left) != len(env) || r.exit.Code != 0 {
				e.fatalf("with %q there is %q, %+v", env, r.stdout, r.exit)
			}
		}
	}},
	{"Escaped", "a process whose environment was cleared is stopped with all that it has started", func(e *env) { // case 12
		c := e.opts.Commands
		if c.Escape == nil || !e.opts.ProcessesSeeFiles {
			return
		}
		m := e.create(e.newName())
		b, watch := e.attach(m.Ref), e.attach(m.Ref)
		p := b.start(sandbox.Cmd{Argv: c.Escape("alive"), ClearEnv: true, KillGrace: grace})
		e.said(p, "ready")
		e.within(grace, "close", func() { e.ok(p.Close(), "close") })
		e.ok(watch.FS().Remove(e.deadline(), "alive", &sandbox.RemoveOptions{MissingOK: true}), "remove")
		e.never("an escaped child still writes", func() bool { return watch.has("alive") })
	}},
}
