package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// limit is a field of Limits.
type limit struct {
	name string
	is   sandbox.LimitSet
	of   func(n int64) sandbox.Limits // with n of its units: bytes, processes, seconds or thousandths
	much int64                        // more than a small command needs
}

var allLimits = []limit{
	{"ProcessCPUTime", sandbox.LimitProcessCPUTime, func(n int64) sandbox.Limits {
		return sandbox.Limits{ProcessCPUTime: time.Duration(n) * time.Second}
	}, 60},
	{"ProcessMemory", sandbox.LimitProcessMemory, func(n int64) sandbox.Limits { return sandbox.Limits{ProcessMemory: n} }, 1 << 30},
	{"ProcessFileSize", sandbox.LimitProcessFileSize, func(n int64) sandbox.Limits { return sandbox.Limits{ProcessFileSize: n} }, 1 << 20},
	{"TreeCPU", sandbox.LimitTreeCPU, func(n int64) sandbox.Limits { return sandbox.Limits{TreeCPU: n} }, 1000},
	{"TreeMemory", sandbox.LimitTreeMemory, func(n int64) sandbox.Limits { return sandbox.Limits{TreeMemory: n} }, 1 << 30},
	{"TreeProcesses", sandbox.LimitTreeProcesses, func(n int64) sandbox.Limits { return sandbox.Limits{TreeProcesses: n} }, 100},
	{"UserProcesses", sandbox.LimitUserProcesses, func(n int64) sandbox.Limits { return sandbox.Limits{UserProcesses: n} }, 1000},
}

// holds reports whether there is a shell, and the provider under test holds the limit.
func (e *env) holds(l sandbox.LimitSet) bool { return e.opts.Shell != nil && e.opts.Limits&l != 0 }

// crowd is a script that starts $1 processes beside itself, says "all" and
// waits to be ended. A shell that can't start one says so, and ends.
const crowd = `i=0; while test $i -lt "$1"; do sleep 1000 & i=$((i + 1)); done; echo all; wait`

func (e *env) crowd(n int, l sandbox.Limits) sandbox.Cmd {
	return sandbox.Cmd{Argv: append(e.script(crowd), "sh", fmt.Sprint(n)), Limits: l, KillGrace: grace}
}

// childrenTime reads, in what the shell's times writes, the processor time of its children.
func childrenTime(text string) (sum time.Duration, err error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, f := range strings.Fields(lines[len(lines)-1]) {
		d, err := time.ParseDuration(f)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// alone ends the check where a command can start n processes beside itself.
func (b *box) alone(n int, l sandbox.Limits, what string) {
	b.e.Helper()
	c := b.e.crowd(n, l)
	c.Timeout = b.e.opts.patience()
	if r := b.run(c); strings.Contains(r.stdout, "all") || r.exit.Reason == sandbox.TimedOut {
		b.e.fatalf("%s: %d processes run beside a shell with %+v: %+v", what, n, l, r)
	}
}

// fills writes half of what may be written, and ends the check where twice as much can be: neither
// through FS nor by a command.
func (e *env) fills(b *box, most int) {
	e.Helper()
	piece := make([]byte, most/4)
	for i := range piece {
		piece[i] = byte(i * i >> 7) // or a file system that compresses has room for more
	}
	write := func(i int) error {
		return sandbox.WriteFile(e.deadline(), b.FS(), fmt.Sprint(i), piece, nil)
	}
	e.ok(write(0), "write a quarter of what may be")
	e.ok(write(1), "write half of what may be")
	if e.opts.Shell != nil && e.opts.ProcessesSeeFiles {
		if r := b.run(sandbox.Cmd{Argv: e.script(`for i in a b c d e f; do cat 0 >"$i" || exit 9; done`)}); r.exit.Code != 9 {
			e.fatalf("a command writes twice as much as may be: %+v", r)
		}
		b.run(sandbox.Cmd{Argv: e.script("rm a b c d e f")})
	}
	for i := 2; i < 8; i++ {
		if write(i) != nil {
			return
		}
	}
	e.fatalf("twice as much was written as may be")
}

var limitChecks = []check{
	{"Caps", "Caps.Limits are the limits that are held, and no others", func(e *env) {
		if got := e.Info().Caps.Limits; got != e.opts.Limits {
			e.fatalf("Caps.Limits are %07b, Options.Limits %07b", got, e.opts.Limits)
		}
	}},
	{"Refused", "a limit that is not held is refused by its name, with ErrUnsupported, and nothing is started", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		b := e.box()
		for _, l := range allLimits {
			if e.opts.Limits&l.is != 0 {
				continue
			}
			argv := c.Echo("x")
			if c.WriteFile != nil && e.opts.ProcessesSeeFiles {
				argv = c.WriteFile("made", "x")
			}
			p, err := b.Start(e.deadline(), sandbox.Cmd{Argv: argv, Limits: l.of(l.much)})
			if err == nil {
				e.wait(p)
				p.Close()
			}
			e.is(err, "start with "+l.name, sandbox.ErrUnsupported)
			if named := (*sandbox.LimitError)(nil); !errors.As(err, &named) || named.Limit != l.name {
				e.fatalf("error %v is no LimitError of %s", err, l.name)
			}
			if b.has("made") {
				e.fatalf("%s was refused, and the command ran", l.name)
			}
		}
	}},
	{"Disk", "a bound of a machine's disk is of all that is written there; where that is not held, Create refuses it by its name, with ErrNotSent, and makes nothing", func(e *env) {
		const most = 8 << 20
		r := e.request(e.newName())
		r.Spec.MachineDisk = most
		m, err := e.Create(e.deadline(), r)
		if err == nil {
			e.Cleanup(func() { e.Destroy(context.Background(), m.Ref) })
		}
		if e.opts.Limits&sandbox.LimitMachineDisk != 0 {
			e.ok(err, "create")
			e.fills(e.attach(m.Ref), most)
			return
		}
		e.is(err, "create", sandbox.ErrUnsupported)
		e.is(err, "create", sandbox.ErrNotSent)
		if named := (*sandbox.LimitError)(nil); !errors.As(err, &named) || named.Limit != "MachineDisk" {
			e.fatalf("error %v is no LimitError of MachineDisk", err)
		}
		if n := e.count(sandbox.Ref{Provider: e.Info().Provider, Name: r.Name, Host: e.Info().Host}); n != 0 {
			e.fatalf("it was refused, and there are %d machines", n)
		}
		r.Spec.MachineDisk = -1
		_, err = e.Create(e.deadline(), r)
		e.is(err, "create with less than nothing", sandbox.ErrInvalid)
	}},
	{"Invalid", "a limit that is negative, and a processor time that is not whole seconds, is ErrInvalid and named", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil {
			return
		}
		b := e.box()
		bad := map[string]sandbox.Limits{}
		for _, l := range allLimits {
			bad[l.name] = l.of(-1)
		}
		for name, l := range bad {
			err := b.starts(sandbox.Cmd{Argv: c.Echo("x"), Limits: l})
			e.is(err, "start with a negative "+name, sandbox.ErrInvalid)
			if !strings.Contains(err.Error(), name) {
				e.fatalf("error %q does not name %s", err, name)
			}
		}
		if e.opts.Limits&sandbox.LimitProcessCPUTime != 0 {
			e.is(b.starts(sandbox.Cmd{Argv: c.Echo("x"), Limits: sandbox.Limits{ProcessCPUTime: 1500 * time.Millisecond}}), "one second and a half", sandbox.ErrInvalid)
		}
	}},
	{"Ample", "a command that stays below its limits ends as one without any", func(e *env) {
		c := e.opts.Commands
		if c.Echo == nil || c.Exit == nil {
			return
		}
		b := e.box()
		for _, l := range allLimits {
			if e.opts.Limits&l.is == 0 {
				continue
			}
			if r := b.run(sandbox.Cmd{Argv: c.Echo("fine"), Limits: l.of(l.much), Tag: "t"}); r.stdout != "fine" || r.exit.Code != 0 || r.exit.Reason != sandbox.Exited {
				e.fatalf("with %s: %+v", l.name, r)
			}
			if r := b.run(sandbox.Cmd{Argv: c.Exit(7), Limits: l.of(l.much)}); r.exit.Code != 7 || r.exit.Reason != sandbox.Exited {
				e.fatalf("with %s: %+v", l.name, r)
			}
		}
	}},
	{"CPUTime", "ProcessCPUTime ends a process that has used it up, as LimitReached, and what it has started just so, each by its own time", func(e *env) {
		if !e.holds(sandbox.LimitProcessCPUTime) {
			return
		}
		b := e.box()
		for what, script := range map[string]string{
			"the command itself":  "while :; do :; done",
			"what it has started": "sh -c 'while :; do :; done'; exit $?",
		} {
			r := b.run(sandbox.Cmd{Argv: e.script(script), Limits: sandbox.Limits{ProcessCPUTime: time.Second}, Timeout: e.opts.patience()})
			if r.exit.Reason != sandbox.LimitReached || r.exit.Code <= 128 {
				e.fatalf("%s ended as %+v", what, r.exit)
			}
		}
		idle := b.run(sandbox.Cmd{Argv: e.script("sleep 2; echo slept"), Limits: sandbox.Limits{ProcessCPUTime: time.Second}})
		if idle.stdout != "slept\n" || idle.exit.Reason != sandbox.Exited {
			e.fatalf("what does nothing for longer ended as %+v", idle)
		}
	}},
	{"Memory", "ProcessMemory refuses a process, and what it has started, more address space than that", func(e *env) {
		if !e.holds(sandbox.LimitProcessMemory) {
			return
		}
		b := e.box()
		const doubled = `awk 'BEGIN { s = "x"; for (i = 0; i < 27; i++) s = s s; print length(s) }'` // 128 MiB
		if r := b.run(sandbox.Cmd{Argv: e.script(doubled)}); r.stdout != "134217728\n" {
			e.fatalf("without a limit: %+v", r)
		}
		if r := b.run(sandbox.Cmd{Argv: e.script(doubled + " || exit 9"), Limits: sandbox.Limits{ProcessMemory: 64 << 20}}); r.exit.Code != 9 || r.stdout != "" {
			e.fatalf("with half as much: %+v", r)
		}
	}},
	{"FileSize", "no process makes a file larger than ProcessFileSize; one that tries is ended, as LimitReached, or is refused it", func(e *env) {
		if !e.holds(sandbox.LimitProcessFileSize) || !e.opts.ProcessesSeeFiles {
			return
		}
		b := e.box()
		const max = 64 << 10
		for name, script := range map[string]string{
			"itself":  "exec dd if=/dev/zero of=itself bs=1024 count=100 2>/dev/null",
			"started": "dd if=/dev/zero of=started bs=1024 count=100 2>/dev/null",
			"grown":   "for i in 1 2 3 4; do dd if=/dev/zero bs=1024 count=20 2>/dev/null >>grown || exit; done",
		} {
			r := b.run(sandbox.Cmd{Argv: e.script(script), Limits: sandbox.Limits{ProcessFileSize: max}})
			if r.exit.Reason != sandbox.LimitReached && !(r.exit.Reason == sandbox.Exited && r.exit.Code != 0) {
				e.fatalf("%s: ended as %+v", name, r.exit)
			}
			info, err := b.FS().Stat(e.deadline(), name)
			e.ok(err, "stat %s", name)
			if info.Size > max || info.Size < max/2 {
				e.fatalf("%s has %d bytes, of %d", name, info.Size, max)
			}
		}
		if r := b.run(sandbox.Cmd{Argv: e.script("for i in 1 2 3; do dd if=/dev/zero of=many$i bs=1024 count=60 2>/dev/null || exit 9; done"), Limits: sandbox.Limits{ProcessFileSize: max}}); r.exit.Code != 0 {
			e.fatalf("several files, each below: %+v", r)
		}
	}},
	{"TreeProcesses", "a command and all it has started are never more than TreeProcesses together, however they are related; others are not counted", func(e *env) {
		if !e.holds(sandbox.LimitTreeProcesses) {
			return
		}
		b := e.box()
		limits := sandbox.Limits{TreeProcesses: 12}
		e.said(b.start(e.crowd(15, sandbox.Limits{})), "all") // of the same user, in the same machine
		for range 2 {
			e.said(b.start(e.crowd(8, limits)), "all")
		}
		b.alone(15, limits, "one command")
		r := b.run(sandbox.Cmd{Limits: limits, Timeout: e.opts.patience(), KillGrace: grace, Argv: e.script(
			`i=0; while test $i -lt 15; do (setsid sleep 1000 </dev/null >/dev/null 2>&1 &) || exit 9; i=$((i + 1)); done; echo all`)})
		if strings.Contains(r.stdout, "all") || r.exit.Code == 0 {
			e.fatalf("what leaves its session is not counted: %+v", r)
		}
	}},
	{"TreeMemory", "a command and all it has started never have more than TreeMemory together: with more some are ended", func(e *env) {
		if !e.holds(sandbox.LimitTreeMemory) {
			return
		}
		b := e.box()
		const hold = `hold() { awk 'BEGIN { s = "x"; for (i = 0; i < 27; i++) s = s s; system("sleep 1"); print "kept" }'; }; ` // 128 MiB each, and as much again while it grows
		limits := sandbox.Limits{TreeMemory: 230 << 20}
		for range 2 {
			if r := b.run(sandbox.Cmd{Argv: e.script(hold + "hold"), Limits: limits}); r.stdout != "kept\n" {
				e.fatalf("one that stays below: %+v", r)
			}
		}
		if r := b.run(sandbox.Cmd{Argv: e.script(hold + "hold & hold & wait")}); r.stdout != "kept\nkept\n" {
			e.fatalf("two without a limit: %+v", r)
		}
		if r := b.run(sandbox.Cmd{Argv: e.script(hold + "hold & hold & wait"), Limits: limits}); strings.Count(r.stdout, "kept") > 1 {
			e.fatalf("two, each below: %+v", r)
		}
	}},
	{"TreeCPU", "a command and all it has started never use more than TreeCPU of processors at a time: it makes them slower, and ends nothing", func(e *env) {
		if !e.holds(sandbox.LimitTreeCPU) {
			return
		}
		r := e.box().run(sandbox.Cmd{Limits: sandbox.Limits{TreeCPU: 100}, Argv: e.script(
			`(while :; do :; done) & p=$!; (while :; do :; done) & q=$!; sleep 3; kill $p $q; wait; times`)})
		used, err := childrenTime(r.stdout)
		if err != nil || r.exit.Code != 0 {
			e.fatalf("%+v, %v", r, err)
		}
		if used > 600*time.Millisecond { // twice as much as in three seconds and nothing else
			e.fatalf("a tenth of a processor was %v in three seconds", used)
		}
	}},
	{"UserProcesses", "UserProcesses counts what the command's user runs in this sandbox, whatever has started it, and nothing elsewhere", func(e *env) {
		if !e.holds(sandbox.LimitUserProcesses) {
			return
		}
		b, other := e.box(), e.box()
		limits := sandbox.Limits{UserProcesses: 20}
		e.said(other.start(e.crowd(25, sandbox.Limits{})), "all")
		e.said(b.start(e.crowd(8, limits)), "all") // nothing of another sandbox counts
		e.said(b.start(e.crowd(8, sandbox.Limits{})), "all")
		b.alone(8, limits, "beside others of its sandbox")
	}},
	{"Fork", "a fork bomb ends at its limit, and the sandbox works on", func(e *env) {
		var limits sandbox.Limits
		switch {
		case e.holds(sandbox.LimitTreeProcesses):
			limits.TreeProcesses = 30
		case e.holds(sandbox.LimitUserProcesses):
			limits.UserProcesses = 60
		default:
			return
		}
		b := e.box()
		p := b.start(sandbox.Cmd{Argv: e.script(`echo begun; bomb() { bomb | bomb & }; bomb; sleep 1000`), Limits: limits, KillGrace: grace})
		e.said(p, "begun")
		if limits.TreeProcesses > 0 {
			if r := b.run(sandbox.Cmd{Argv: e.script("echo fine | cat")}); r.stdout != "fine\n" {
				e.fatalf("beside it: %+v", r)
			}
		}
		e.within(grace, "close", func() { e.ok(p.Close(), "close") })
		if r := b.run(sandbox.Cmd{Argv: e.script("echo fine | cat")}); r.stdout != "fine\n" {
			e.fatalf("after it: %+v", r)
		}
	}},
}
