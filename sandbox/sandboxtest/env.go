package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// env is what one check has: a provider, the means to make machines with it,
// and the rule that every failure names.
type env struct {
	*testing.T
	sandbox.Provider
	opts *Options
	rule string
	// bound: every handle has an empty directory bound at its working directory, of one machine the same.
	bound bool
	dirs  map[sandbox.Incarnation]string
}

func (e *env) fatalf(format string, args ...any) {
	e.Helper()
	e.Fatalf("%s\nThe rule: %s.", fmt.Sprintf(format, args...), e.rule)
}

// ok ends the check where err is not nil.
func (e *env) ok(err error, format string, args ...any) {
	e.Helper()
	if err != nil {
		e.fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// is ends the check where err does not match one of targets.
func (e *env) is(err error, what string, targets ...error) {
	e.Helper()
	if err == nil || !slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) }) {
		e.fatalf("%s: error is %v, want %v", what, err, targets)
	}
}

// pathIs is is, for an error that must be a PathError with the path as given.
func (e *env) pathIs(err error, op, path string, targets ...error) {
	e.Helper()
	e.is(err, fmt.Sprintf("%s %q", op, path), targets...)
	var p *fs.PathError
	if !errors.As(err, &p) || p.Path != path {
		e.fatalf("%s %q: error %#v is no PathError that carries the path as given", op, path, err)
	}
}

// deadline is a context that ends when the suite's patience does.
func (e *env) deadline() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), e.opts.patience())
	e.Cleanup(cancel)
	return ctx
}

// eventually waits until cond holds.
func (e *env) eventually(what string, cond func() bool) {
	e.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(e.opts.patience()); !cond(); {
		select {
		case <-tick.C:
		case <-end:
			e.fatalf("still not: %s", what)
		}
	}
}

// never watches for a while that cond does not hold.
func (e *env) never(what string, cond func() bool) {
	e.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(300 * time.Millisecond); ; {
		if cond() {
			e.fatalf("%s", what)
		}
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// newName returns a machine name that was never used.
func (e *env) newName() string {
	e.Helper()
	key, err := sandbox.DeriveKey([]byte(rand.Text()+rand.Text()), "suite", sandbox.ID(rand.Text()))
	e.ok(err, "derive a key")
	return sandbox.Name(key, 1)
}

func (e *env) request(name string) sandbox.CreateRequest {
	return sandbox.CreateRequest{Name: name, Spec: e.opts.Spec, Labels: map[string]string{
		sandbox.LabelDeployment: "suite", sandbox.LabelSandbox: "suite", sandbox.LabelGeneration: "1",
	}}
}

// create makes a machine, which is destroyed when the check ends.
func (e *env) create(name string) sandbox.Machine {
	e.Helper()
	m, err := e.Create(e.deadline(), e.request(name))
	e.ok(err, "create %s", name)
	e.Cleanup(func() { e.Destroy(context.Background(), m.Ref) })
	return m
}

// box is a handle, with short forms of what checks do all the time.
type box struct {
	sandbox.Sandbox
	e *env
}

// attach returns a handle, which is closed when the check ends.
func (e *env) attach(ref sandbox.Ref) *box {
	e.Helper()
	sb, err := e.Attach(e.deadline(), ref)
	e.ok(err, "attach %s", ref.Name)
	e.Cleanup(func() { sb.Close() })
	b := &box{sb, e}
	if e.bound {
		dir, made := e.dirs[ref.Incarnation]
		if !made {
			dir = e.TempDir()
			e.dirs[ref.Incarnation] = dir
		}
		b.bindWorkdir(dir)
	}
	return b
}

// box returns a handle on a machine of its own.
func (e *env) box() *box {
	e.Helper()
	return e.attach(e.create(e.newName()).Ref)
}

func (b *box) write(path, text string) {
	b.e.Helper()
	b.e.ok(sandbox.WriteFile(b.e.deadline(), b.FS(), path, []byte(text), nil), "write %q", path)
}

func (b *box) read(path string) string {
	b.e.Helper()
	data, err := sandbox.ReadFile(b.e.deadline(), b.FS(), path)
	b.e.ok(err, "read %q", path)
	return string(data)
}

func (b *box) want(path, text string) {
	b.e.Helper()
	if got := b.read(path); got != text {
		b.e.fatalf("%q holds %s, want %s", path, brief(got), brief(text))
	}
}

func (b *box) has(path string) bool {
	_, err := b.FS().Stat(b.e.deadline(), path)
	return err == nil
}

func (b *box) mkdir(path string) {
	b.e.Helper()
	b.e.ok(b.FS().Mkdir(b.e.deadline(), path), "mkdir %q", path)
}

func (b *box) link(target, link string) {
	b.e.Helper()
	s, ok := sandbox.As[sandbox.Symlinker](b.Sandbox)
	if !ok {
		b.e.fatalf("the sandbox is no Symlinker, though Options.Links says so")
	}
	b.e.ok(s.Symlink(b.e.deadline(), target, link), "symlink %q to %q", link, target)
}

// list returns the names in a directory, sorted.
func (b *box) list(path string) []string {
	b.e.Helper()
	names := []string{}
	for info, err := range b.FS().ReadDir(b.e.deadline(), path) {
		b.e.ok(err, "readdir %q", path)
		names = append(names, info.Name)
	}
	slices.Sort(names)
	return names
}

// drain reads a directory to its end, or its error.
func drain(ctx context.Context, f sandbox.FS, path string) error {
	for _, err := range f.ReadDir(ctx, path) {
		if err != nil {
			return err
		}
	}
	return nil
}

// result is what became of a command.
type result struct {
	exit           sandbox.Exit
	stdout, stderr string
}

func (b *box) start(c sandbox.Cmd) sandbox.Process {
	b.e.Helper()
	p, err := b.Start(context.Background(), c)
	b.e.ok(err, "start %q", c.Argv)
	b.e.Cleanup(func() { p.Close() })
	return p
}

// run runs a command to its end.
func (b *box) run(c sandbox.Cmd) result {
	b.e.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	exit, err := sandbox.Run(b.e.deadline(), b.Sandbox, c, &stdout, &stderr)
	b.e.ok(err, "run %q", c.Argv)
	r.exit, r.stdout, r.stderr = exit, stdout.String(), stderr.String()
	return r
}

// wait waits for the end of p.
func (e *env) wait(p sandbox.Process) sandbox.Exit {
	e.Helper()
	exit, err := p.Wait(e.deadline())
	e.ok(err, "wait")
	return exit
}

// said waits until p has written text.
func (e *env) said(p sandbox.Process, text string) {
	e.Helper()
	var got []byte
	for c, err := range p.Output(e.deadline(), 0) {
		e.ok(err, "output while waiting for %q, after %q", text, got)
		if got = append(got, c.Data...); strings.Contains(string(got), text) {
			return
		}
	}
	e.fatalf("output ended with %q, before %q", got, text)
}

// together runs n functions at once and waits for all.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { fn(i) })
	}
	wg.Wait()
}

// brief shows a text, of which there may be much.
func brief(s string) string {
	if len(s) <= 80 {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q… (%d bytes)", s[:60], len(s))
}
