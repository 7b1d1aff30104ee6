//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// putDown ends the init of a machine in which nothing has run for a while, and
// gives up the machine if it has no handles either.
func (p *Provider) putDown(m *machine) {
	if !m.rest() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users > 0 || p.machines[m.rec.Incarnation] != m {
		return
	}
	m.initMu.Lock()
	defer m.initMu.Unlock()
	if m.init != nil { // something has run meanwhile, and has set the timer
		return
	}
	delete(p.machines, m.rec.Incarnation)
	m.opened.Close()
}

// rest ends the machine's init, unless something runs or another process of
// the host uses it: then it is tried again later. It reports whether there is none any more.
func (m *machine) rest() bool {
	m.mu.Lock()
	if len(m.procs) > 0 { // the last one sets the timer
		m.mu.Unlock()
		return false
	}
	m.initMu.Lock() // nobody has it for long: only who starts a process starts an init
	m.mu.Unlock()
	used := m.init != nil && m.init.hold != nil && !m.init.unused(m.dir)
	if !used {
		m.closeInit()
	}
	m.initMu.Unlock()
	if used {
		m.mu.Lock()
		m.linger()
		m.mu.Unlock()
	}
	return !used
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
		endRecord(dir)
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
		err := p.withInit(m, func(i *initProc, n *network) (err error) {
			if i == nil {
				m.init, err = p.startInit(m.dir, p.ref(m), n)
			} else if err = i.open(p.host, m.dir, p.bwrap); err == nil {
				m.init = i
			} else {
				i.close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return fn(m.init)
}

// ready finds out whether the machine's init could be started, without which
// there are no processes. That it starts at all New has tried.
func (p *Provider) ready(m *machine) error {
	return p.withInit(m, func(i *initProc, _ *network) (err error) {
		if i == nil {
			_, err = p.uidOf(m.dir, m.rec.Incarnation)
		}
		return err
	})
}

// withInit calls fn with the init that runs in the machine, nil where none
// does, and the rules that it has or is to have. Meanwhile nobody else starts one.
func (p *Provider) withInit(m *machine, fn func(*initProc, *network) error) error {
	unlock, err := lock(m.dir, lockFile, syscall.LOCK_EX)
	if err != nil {
		if gone := m.standing(); gone != nil {
			return gone
		}
		return err
	}
	defer unlock()
	if err := m.standing(); err != nil {
		return err
	}
	n, err := readNetwork(m.dir)
	if err != nil {
		return err
	}
	// A Restrict that was broken off has left one with other rules.
	if err := p.endOther(m.dir, n.token()); err != nil {
		return err
	}
	i, err := readInit(p.host, m.dir)
	if err != nil {
		return err
	}
	return fn(i, n)
}
