//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	reapLimit   = 10 * time.Second       // how long processes that are killed may take to be gone
	launchLimit = 500 * time.Millisecond // how long a bubblewrap may still be about to start one
)

// Reap kills the processes that were started with tag, whoever has started
// them, by marks that the kernel keeps; see the package comment. Those of
// this process end as Cancelled, those of others as Signalled. Where there are
// some that the kernel could not mark, it kills those it finds and returns an error.
func (p *Provider) Reap(ctx context.Context, ref sandbox.Ref, tag string) error {
	if err := p.check(ctx, ref); err != nil {
		return err
	}
	err := sandbox.CheckTag(tag)
	switch {
	case tag == "":
		return fmt.Errorf("%w: reap in %s: the Tag must be named", sandbox.ErrInvalid, ref.Name)
	case err != nil:
		return err
	case ref.Incarnation == "":
		return fmt.Errorf("%w: reap in %s: the incarnation must be named", sandbox.ErrInvalid, ref.Name)
	}
	dir, err := p.whereabouts(ref)
	if err != nil || dir == "" {
		return err
	}
	ours := p.startedHere(ref.Incarnation, tag)
	for _, proc := range ours {
		proc.hurried.Do(func() { close(proc.hurry) })
		proc.stop(sandbox.Cancelled)
	}
	if p.confined {
		err = p.reapConfined(ctx, dir, ref.Incarnation, tag)
	} else {
		err = p.reapPlain(ctx, dir, ref.Incarnation, tag)
	}
	stopAll(ours, sandbox.Cancelled)
	if err != nil {
		return fmt.Errorf("local: reap %s in %s: %w", tag, ref.Name, err)
	}
	return nil
}

// whereabouts is the directory of the machine, or what Destroy has left of it; empty where there is none.
func (p *Provider) whereabouts(ref sandbox.Ref) (dir string, err error) {
	if strings.ContainsRune(string(ref.Incarnation), filepath.Separator) {
		return "", nil // not one of ours
	}
	rec, err := p.find(ref.Name)
	if err == nil && rec.Incarnation == ref.Incarnation {
		return p.dir(ref.Name), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	half := p.doomedDir(ref)
	if _, err := os.Lstat(half); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return half, nil
}

// startedHere lists what this process has started with tag in the machine.
// What is being started is waited for.
func (p *Provider) startedHere(incarnation sandbox.Incarnation, tag string) []*process {
	p.mu.Lock()
	m := p.machines[incarnation]
	p.mu.Unlock()
	if m == nil {
		return nil
	}
	m.gate.Lock()
	defer m.gate.Unlock()
	return slices.DeleteFunc(m.running(), func(proc *process) bool { return proc.tag != tag })
}

// reapConfined kills what has the tag in its seal, in the machine's own
// /proc. Its init stays: it has no seal.
func (p *Provider) reapConfined(ctx context.Context, dir string, incarnation sandbox.Incarnation, tag string) error {
	init, err := p.runningInit(dir)
	if err != nil || init == nil {
		return err
	}
	defer init.close()
	machine := init.fs
	// Until it is sealed a process has, in its environment, what bubblewrap was started with.
	marks := []string{machineVar + "=" + string(incarnation), tagVar + "=" + tag}
	inside := &tree{fs: machine, mark: marks, sealed: machine.sealed(func(_, its string) bool { return its == tag })}
	outside := &tree{fs: p.host, host: true, mark: marks}
	began := time.Now()
	return killAll(ctx, func() (int, error) {
		if init.gone(p.host) { // and everything with it
			return 0, nil
		}
		// The bubblewraps outside first: those that are not there any more start nothing that is then missed.
		launching, err := outside.look()
		if err != nil {
			return 0, err
		}
		launching = slices.DeleteFunc(launching, func(s stat) bool { return p.host.nested(s.pid) })
		n, err := inside.killAll()
		if n == 0 && time.Since(began) > launchLimit {
			p.host.kill(launching)
		}
		return n + len(launching), err
	})
}

// runningInit returns the machine's init with its /proc, for looking only, or
// nil where none runs. One that is about to end is waited for.
func (p *Provider) runningInit(dir string) (*initProc, error) {
	i, err := recordedInit(p.host, dir)
	if i == nil || err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(reapLimit); !i.alive(p.host); time.Sleep(time.Millisecond) {
		if i.gone(p.host) {
			return nil, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("init %d does not end", i.pid)
		}
	}
	i.fs, err = openProcfs(fmt.Sprintf("/proc/%d/root/proc", i.pid))
	if i.gone(p.host) {
		i.close()
		return nil, nil // it has ended meanwhile
	}
	if err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// reapPlain kills what has the limit of the tag, or the tag in its environment.
func (p *Provider) reapPlain(ctx context.Context, dir string, incarnation sandbox.Incarnation, tag string) error {
	limit := lockLimit(incarnation, tag)
	all := &tree{
		fs: p.host, host: true, mark: []string{machineVar + "=" + string(incarnation), tagVar + "=" + tag},
		sealed: func(s stat) (is, known bool) {
			its, ok := p.host.lockLimit(s.pid)
			return true, ok && its == limit
		},
	}
	if err := killAll(ctx, all.killAll); err != nil {
		return err
	}
	if unmarked(dir, tag) {
		return errors.New("some could not be marked when they were started, and may still run")
	}
	return nil
}

// killAll kills every process of the tree and reports how many there were.
func (t *tree) killAll() (int, error) {
	living, err := t.look()
	t.fs.kill(living)
	return len(living), err
}

// killAll calls kill, which tells how many processes there still were, until it tells of none.
func killAll(ctx context.Context, kill func() (int, error)) error {
	deadline := time.Now().Add(reapLimit)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		n, err := kill()
		if n == 0 && err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return cmp.Or(err, fmt.Errorf("%d processes survive being killed", n))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes may still run: %w", n, ctx.Err())
		case <-time.After(pause):
		}
	}
}
