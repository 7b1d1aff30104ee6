//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/bunkroom/bunkroom/sandbox"
)

// use returns the machine as this process has it, with one user more.
func (p *Provider) use(name string, rec record) (*machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: the provider was closed", sandbox.ErrClosed)
	}
	if m := p.machines[rec.Incarnation]; m != nil {
		m.enter()
		return m, nil
	}
	m, err := openMachine(p.dir(name), name, rec, p.log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", sandbox.ErrGone, name)
	}
	if err != nil {
		return nil, err
	}
	m.put = func() { p.putDown(m) }
	m.past = func(ended *process) { p.past.add(rec.Incarnation, ended) }
	m.enter()
	p.machines[rec.Incarnation] = m
	return m, nil
}

// ref says which machine m is.
func (p *Provider) ref(m *machine) sandbox.Ref {
	return sandbox.Ref{Provider: name, Name: m.name, Incarnation: m.rec.Incarnation, Host: p.hostID}
}

// ofInit is how many processes of a machine are its init's own.
const ofInit = 2

// putDown gives up a machine that nobody has used for a while: its init ends,
// unless another process of the host still uses it.
func (p *Provider) putDown(m *machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users > 0 || p.machines[m.rec.Incarnation] != m {
		return
	}
	m.initMu.Lock()
	defer m.initMu.Unlock()
	if i := m.init; i != nil && i.hold != nil && !i.unused(m.dir) {
		m.idle.Reset(lingering)
		return
	}
	delete(p.machines, m.rec.Incarnation)
	m.closeInit()
	m.opened.Close()
}

// unused reports whether nothing runs in the machine and no other process of
// the host uses its init.
func (i *initProc) unused(dir string) bool {
	if pids, err := i.fs.pids(); err == nil && len(pids) > ofInit {
		return false
	}
	unlock, err := lock(dir, lockFile, syscall.LOCK_EX) // so that nobody joins meanwhile
	if err != nil {
		return true
	}
	defer unlock()
	i.unuse()
	alone, err := lock(dir, useFile, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		alone()
		os.Remove(filepath.Join(dir, initFile))
		i.unuse = func() {}
		return true
	}
	if i.unuse, err = lock(dir, useFile, syscall.LOCK_SH); err != nil {
		i.unuse = func() {}
	}
	return false
}

// release ends the machine's init, if this process started it, and gives up
// what is held of it.
func (p *Provider) release(m *machine) {
	m.initMu.Lock()
	defer m.initMu.Unlock()
	if i := m.init; i != nil && i.hold != nil {
		if err := i.kill(p.host); err != nil {
			p.log.Warn("init", "machine", m.name, "error", err)
		}
	}
	m.closeInit()
}

// closeInit gives up what is held of the init. m.initMu is held.
func (m *machine) closeInit() {
	i := m.init
	if i == nil {
		return
	}
	m.init = nil
	i.close()
	if i.exited != nil {
		<-i.exited
	}
}

// forget ends what is watched, stops the machine's timer and closes its directory.
func (m *machine) forget() {
	m.watches.end(func(*watch) bool { return true }, sandbox.ErrClosed)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle != nil {
		m.idle.Stop()
	}
	m.put = func() {}
	m.opened.Close()
}

// joined calls fn with the machine's init, which runs and is held for so
// long. One that doesn't run is found, or started.
func (p *Provider) joined(ctx context.Context, m *machine, fn func(*initProc) error) error {
	m.initMu.Lock()
	defer m.initMu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.init != nil && !m.init.alive(p.host) {
		m.closeInit()
	}
	if m.init == nil {
		i, err := p.findInit(m)
		if err != nil {
			return err
		}
		m.init = i
	}
	return fn(m.init)
}

// findInit finds the machine's init, or starts it.
func (p *Provider) findInit(m *machine) (*initProc, error) {
	unlock, err := lock(m.dir, lockFile, syscall.LOCK_EX)
	if err != nil {
		if gone := m.standing(); gone != nil {
			return nil, gone
		}
		return nil, err
	}
	defer unlock()
	if err := m.standing(); err != nil {
		return nil, err
	}
	n, err := readNetwork(m.dir)
	if err != nil {
		return nil, err
	}
	// A Restrict that was broken off has left one with other rules.
	if err := p.endOther(m.dir, n.token()); err != nil {
		return nil, err
	}
	i, err := readInit(p.host, m.dir)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return p.startInit(m.dir, p.ref(m), n)
	}
	if err := i.open(p.host, m.dir, p.bwrap); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}
