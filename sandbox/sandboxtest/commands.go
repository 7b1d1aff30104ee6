package sandboxtest

import (
	"fmt"
	"slices"
	"strconv"
)

// Commands are argument vectors by what they do. A real machine answers with
// its usual programs, a scripted one with functions registered under names.
// Paths they are given are absolute or start at the working directory.
type Commands struct {
	// Echo writes text to its output, exactly, and ends with code 0.
	Echo func(text string) []string
	// EchoErr writes text to its error output, exactly, and ends with code 0.
	EchoErr func(text string) []string
	// Cat copies its input to its output until the input ends, then ends with code 0.
	Cat func() []string
	// Exit ends with this code, 0 to 127.
	Exit func(code int) []string
	// KillSelf ends by SIGKILL that it sends itself.
	KillSelf func() []string
	// Env writes the value of a variable, exactly; nothing where it is not set. It ends with code 0.
	Env func(name string) []string
	// Dir writes the absolute path of the directory it runs in, without a newline.
	Dir func() []string
	// WriteFile writes text to a file and ends with code 0.
	WriteFile func(path, text string) []string
	// ReadFile writes the content of a file to its output and ends with code
	// 0; with another code where it can't be read.
	ReadFile func(path string) []string
	// Block writes text to its output and then runs until it is asked to end.
	Block func(text string) []string
	// Stubborn writes text to its output and then runs on, deaf to every request to end; only a kill ends it.
	Stubborn func(text string) []string
	// Flood writes n bytes to its output, the letters a to z over and over, and ends with code 0.
	Flood func(n int64) []string
	// HoldOutput starts a child that holds its output open for a minute, and ends at once with code 0.
	HoldOutput func() []string
	// Escape starts a child that leaves its process group and session, is
	// orphaned, and writes the file at path anew several times a second for
	// as long as it lives. Once the file is there, the command writes "ready" to its output and then
	// runs until it is asked to end.
	Escape func(path string) []string
	// Reach connects to a host, as for HTTPS, and ends with code 0 where it was
	// let through and another where it was not. The hosts are below
	// example.com and example.org; the driver's test sees to it that there is somebody to be reached.
	Reach func(host string) []string
	// Reaching does what Reach does over and over, several times a second,
	// and writes the file at path anew whenever it was let through. It runs until it is asked to end.
	Reaching func(host, path string) []string
}

// ShellCommands are the commands as scripts for a POSIX shell, which shell
// puts before a script and its arguments, such as {"sh", "-c"}. They use cat,
// sleep, yes, tr, head and setsid.
func ShellCommands(shell ...string) Commands {
	script := func(text string, args ...string) []string {
		return append(slices.Concat(shell, []string{text, "sh"}), args...)
	}
	return Commands{
		Echo:      func(text string) []string { return script(`printf %s "$1"`, text) },
		EchoErr:   func(text string) []string { return script(`printf %s "$1" >&2`, text) },
		Cat:       func() []string { return []string{"cat"} },
		Exit:      func(code int) []string { return script(`exit "$1"`, strconv.Itoa(code)) },
		KillSelf:  func() []string { return script(`kill -9 $$`) },
		Env:       func(name string) []string { return script(fmt.Sprintf(`printf %%s "${%s-}"`, name)) },
		Dir:       func() []string { return script(`printf %s "$(pwd -P)"`) },
		WriteFile: func(path, text string) []string { return script(`printf %s "$2" >"$1"`, path, text) },
		ReadFile:  func(path string) []string { return []string{"cat", "--", path} },
		Block:     func(text string) []string { return script(`printf %s "$1"; exec sleep 1000`, text) },
		Stubborn: func(text string) []string {
			return script(`trap "" TERM INT HUP; printf %s "$1"; while :; do sleep 1000; done`, text)
		},
		Flood: func(n int64) []string {
			return script(`yes abcdefghijklmnopqrstuvwxyz | tr -d '\n' | head -c "$1"`, strconv.FormatInt(n, 10))
		},
		HoldOutput: func() []string { return script(`sleep 60 & exit 0`) },
		Escape: func(path string) []string {
			return script(`(setsid sh -c 'while :; do echo x >"$1"; sleep 0.05; done' sh "$1" >/dev/null 2>&1 &)
				until test -e "$1"; do sleep 0.01; done
				printf ready; exec sleep 1000`, path)
		},
	}
}
