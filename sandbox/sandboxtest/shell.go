package sandboxtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// script is a script for the shell, with nothing between it and the shell.
func (e *env) script(text string) []string {
	return append(slices.Clone(e.opts.Shell), text)
}

var shellChecks = []check{
	{"Heredoc", "a script with here-documents, quotes and odd text works, and so does the next one", func(e *env) { // cases 3, 4
		b := e.box()
		for range 2 {
			r := b.run(sandbox.Cmd{Argv: e.script("cat <<'EOF'\n$HOME `id` \"quoted\" 'q' \\n\nEOF\ncat <<END\n\tindented $((1 + 2))\nEND\n")})
			if want := "$HOME `id` \"quoted\" 'q' \\n\n\tindented 3\n"; r.stdout != want || r.stderr != "" || r.exit.Code != 0 {
				e.fatalf("wrote %q and %q, %+v, want %q", r.stdout, r.stderr, r.exit, want)
			}
			b.run(sandbox.Cmd{Argv: e.script("cat <<EOF\nnever closed")})
			if r := b.run(sandbox.Cmd{Argv: e.script("echo fine")}); r.stdout != "fine\n" {
				e.fatalf("the next command: %+v", r)
			}
		}
	}},
	{"Verdict", "the shell's own verdict on a script is the result, with its text", func(e *env) { // case 6
		b := e.box()
		for _, bad := range []string{"if true; then", "echo 'unclosed", "for", ")", "case x in"} {
			if r := b.run(sandbox.Cmd{Argv: e.script(bad)}); r.exit.Code == 0 || r.exit.Reason != sandbox.Exited || r.stderr == "" {
				e.fatalf("%q: %+v", bad, r)
			}
		}
		for script, want := range map[string]string{
			"echo '1 2\n3 4' | awk '\n{\n  s += $1 * $2 # a comment with \"quotes\n}\nEND { print s }\n'": "14\n",
			"x=1\nif [ \"$x\" = 1 ]\nthen\n\techo one\nfi\n":                                              "one\n",
			"echo a;\necho b # comment ' \"\n\n\n":                                                        "a\nb\n",
			"no-such-command-here 2>/dev/null; echo $?":                                                   "127\n",
		} {
			if r := b.run(sandbox.Cmd{Argv: e.script(script)}); r.stdout != want || r.exit.Code != 0 {
				e.fatalf("%q: %+v, want %q", script, r, want)
			}
		}
	}},
	{"NoState", "nothing is carried from one command to the next but files", func(e *env) {
		b := e.box()
		b.run(sandbox.Cmd{Argv: e.script("cd / && X=1 && export X && umask 777 && alias echo=false")})
		if r := b.run(sandbox.Cmd{Argv: e.script(`echo "$(pwd -P) ${X-unset}"; echo x >made; cat made`)}); r.stdout != b.Workdir()+" unset\nx\n" {
			e.fatalf("%+v", r)
		}
	}},
	{"TimeoutForms", "a Timeout stops a script whatever its form, with all that it has started", func(e *env) { // cases 4, 13
		b := e.box()
		forms := []string{
			"sleep 20", "sleep 20; true", "(sleep 20)", "sleep 20 | cat", "sleep 20 & wait", "exec sleep 20", "{ sleep 20; }",
			"echo $(sleep 20)", "while :; do sleep 20; done", "trap '' TERM; sleep 20; sleep 20", "cat <<EOF\n$(sleep 20)\nEOF", "set -m; sleep 20 & wait",
		}
		errs := make([]string, len(forms))
		began := time.Now()
		together(len(forms), func(i int) {
			p, err := b.Start(e.deadline(), sandbox.Cmd{Argv: e.script("echo begun; " + forms[i]), Timeout: 2 * soon, KillGrace: grace})
			if err != nil {
				errs[i] = fmt.Sprint(err)
				return
			}
			defer p.Close()
			exit, err := p.Wait(e.deadline())
			if err != nil || exit.Reason != sandbox.TimedOut || exit.Stdout < int64(len("begun\n")) {
				errs[i] = fmt.Sprintf("%+v, %v", exit, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				errs[i] = fmt.Sprintf("took %v", took)
			}
		})
		for i, err := range errs {
			if err != "" {
				e.fatalf("%q: %s", forms[i], err)
			}
		}
	}},
	{"Background", "what a script leaves in the background lives until its process is closed, and no longer", func(e *env) { // case 11
		b := e.box()
		p := b.start(sandbox.Cmd{Argv: e.script("while :; do echo x >alive; sleep 0.05; done >/dev/null 2>&1 & echo started"), KillGrace: grace})
		if exit := e.wait(p); exit.Code != 0 || exit.Reason != sandbox.Exited {
			e.fatalf("%+v", exit)
		}
		if !e.opts.ProcessesSeeFiles {
			return
		}
		for range 2 {
			e.eventually("the file is there", func() bool { return b.has("alive") })
			e.ok(b.FS().Remove(e.deadline(), "alive", nil), "remove")
		}
		e.within(grace, "close", func() { e.ok(p.Close(), "close") })
		e.ok(b.FS().Remove(e.deadline(), "alive", &sandbox.RemoveOptions{MissingOK: true}), "remove")
		e.never("what was in the background still writes", func() bool { return b.has("alive") })
	}},
	{"Orphans", "what loses its parent leaves no zombies behind: after hundreds there is at most one", func(e *env) { // case 15
		if !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		w, err := b.FS().Create(e.deadline(), "suite-orphan", &sandbox.CreateOptions{Mode: 0o755}) // by whose name they are known
		e.ok(err, "create")
		_, err = w.Write([]byte("#!/bin/sh\n:\n"))
		e.ok(err, "write")
		e.ok(w.Close(), "close")
		const n = 200
		r := b.run(sandbox.Cmd{Argv: e.script(fmt.Sprintf("i=0; while [ $i -lt %d ]; do (./suite-orphan &); i=$((i+1)); done; echo $i", n))})
		if r.stdout != fmt.Sprintf("%d\n", n) || r.stderr != "" {
			e.fatalf("%+v", r)
		}
		e.eventually("there is at most one zombie", func() bool {
			r := b.run(sandbox.Cmd{Argv: e.script(`for f in /proc/[0-9]*/stat; do read -r a <"$f" && echo "$a"; done 2>/dev/null | awk '$2 == "(suite-orphan)" && $3 == "Z" { n++ } END { print n + 0 }'`)})
			return r.stdout == "0\n" || r.stdout == "1\n"
		})
	}},
	{"Interleaved", "both streams are one sequence, in which each keeps its order", func(e *env) {
		p := e.box().start(sandbox.Cmd{Argv: e.script("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done")})
		var out, err strings.Builder
		for c, e2 := range p.Output(e.deadline(), 0) {
			e.ok(e2, "output")
			if c.Stream == sandbox.Stderr {
				err.Write(c.Data)
			} else {
				out.Write(c.Data)
			}
		}
		if want := "out 1\nout 2\nout 3\nout 4\nout 5\n"; out.String() != want || err.String() != strings.ReplaceAll(want, "out", "err") {
			e.fatalf("arrived %q and %q", out.String(), err.String())
		}
	}},
}
