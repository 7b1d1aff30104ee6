package sandboxtest_test

import (
	"context"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenRuns are providers that each break one promise of what runs: how it is
// read and typed to, what becomes of it, and what it leaves behind.
var brokenRuns = map[string]brokenProvider{
	"makes text of every chunk": {"Output/Runes", processes(func(p *process) {
		p.output = chunks(p.Process, func(c *sandbox.Chunk) {
			c.Data = []byte(strings.ToValidUTF8(string(c.Data[:len(c.Data)/2*2]), "\uFFFD"))
		})
	})},
	"writes over what is lent": {"Output/Lent", processes(func(p *process) {
		var lent []byte
		p.lend = chunks(p.Process, func(c *sandbox.Chunk) { lent = c.Data })
		p.wait = func(ctx context.Context) (sandbox.Exit, error) {
			defer func() { clear(lent) }()
			return p.Process.Wait(ctx)
		}
	})},
	"lends the same to all": {"Output/Lent", processes(func(p *process) {
		var lent []byte
		p.lend = chunks(p.Process, func(c *sandbox.Chunk) {
			lent = append(lent[:0], c.Data...)
			c.Data = lent
		})
	})},
	"hides gaps in what is lent": {"Output/Lent", processes(func(p *process) { p.lend = chunks(p.Process, func(c *sandbox.Chunk) { c.Lost = 0 }) })},
	"reads an input to its end first": {"Commands/StdinBlocks", commands(func(c *sandbox.Cmd) {
		c.Argv = append([]string{"sh", "-c", `"$@"; cat >/dev/null`, "sh"}, c.Argv...)
	})},
	"takes every script for right": {"Shell/Verdict", processes(func(p *process) { p.wait = invented(p.Process) })},
	"keeps a variable":             {"Shell/NoState", commands(func(c *sandbox.Cmd) { c.Env = append(c.Env, "X=1") })},
	"lets a script run on":         {"Shell/TimeoutForms", commands(func(c *sandbox.Cmd) { c.Timeout = 0 })},
	"leaves what is in the background": {"Shell/Background", commands(func(c *sandbox.Cmd) {
		inShell(c, func(script string) string {
			return strings.Replace(script, "while :;", "env -i PATH=\"$PATH\" setsid -f sh -c 'while :;", 1) + "'"
		})
	})},
	"says that all is out": {"Shell/Interleaved", processes(func(p *process) {
		p.output = chunks(p.Process, func(c *sandbox.Chunk) { c.Stream = sandbox.Stdout })
	})},
	"waits for whoever holds the output": {"Stops/HeldOutput", processes(func(p *process) { p.wait = lateBy(p.Process, 5*time.Second) })},
	"leaves zombies behind": {"Shell/Orphans", commands(func(c *sandbox.Cmd) {
		inShell(c, func(script string) string { // their parent goes on as a program that never asks after them
			if !strings.Contains(script, "./suite-orphan &") {
				return script
			}
			c.Detached = true
			// They end once it is that program, and this one once they are zombies.
			return `(i=0; while [ $i -lt 20 ]; do (while [ ! -e suite-gate ]; do sleep 0.05; done; exec ./suite-orphan) & i=$((i+1)); done; exec sleep 1000) >/dev/null 2>&1 &
				while read -r name <"/proc/$!/comm" && [ "$name" != sleep ]; do sleep 0.05; done
				: >suite-gate
				until [ "$(cat /proc/[0-9]*/stat 2>/dev/null | awk '$2 == "(suite-orphan)" && $3 == "Z" { n++ } END { print n + 0 }')" -gt 1 ]; do sleep 0.05; done
				echo 200`
		})
	})},
}

// inShell changes the script that a shell is started with.
func inShell(c *sandbox.Cmd, change func(string) string) {
	if len(c.Argv) == 3 && c.Argv[0] == "sh" {
		c.Argv = []string{"sh", "-c", change(c.Argv[2])}
	}
}

// lateBy tells of the end of p later than it was.
func lateBy(p sandbox.Process, d time.Duration) func(context.Context) (sandbox.Exit, error) {
	return func(ctx context.Context) (sandbox.Exit, error) {
		exit, err := p.Wait(ctx)
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return exit, err
	}
}
