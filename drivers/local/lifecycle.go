//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Create makes the directory of a machine; nothing runs in it before it is
// attached. Every error of this provider's Create is ErrNotSent: the last
// step either happens or does not.
func (p *Provider) Create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	m, err := p.create(ctx, r)
	if err != nil {
		return sandbox.Machine{}, fmt.Errorf("%w: machine %q: %w", sandbox.ErrNotSent, r.Name, err)
	}
	return m, nil
}

func (p *Provider) create(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
	machine := func(rec record, adopted bool) sandbox.Machine {
		return sandbox.Machine{Ref: sandbox.Ref{Provider: name, Name: r.Name, Incarnation: rec.Incarnation, Host: p.hostID}, Adopted: adopted}
	}
	if err := p.usable(ctx); err != nil {
		return sandbox.Machine{}, err
	}
	if err := checkName(r.Name); err != nil {
		return sandbox.Machine{}, err
	}
	if r.Spec.Image != "" {
		return sandbox.Machine{}, fmt.Errorf("%w: Spec.Image: there are no images here", sandbox.ErrUnsupported)
	}
	if err := sandbox.CheckSpec(r.Spec, p.limits.held()); err != nil {
		return sandbox.Machine{}, err
	}
	if err := checkEnv(r.Spec.Env); err != nil {
		return sandbox.Machine{}, err
	}
	final := p.dir(r.Name)
	if rec, err := readRecord(final); err == nil {
		return machine(rec, true), nil
	}
	dir, rec, err := p.build(r)
	if err != nil {
		return sandbox.Machine{}, err
	}
	if err := os.Rename(dir, final); err != nil {
		os.RemoveAll(dir)
		if rec, e := readRecord(final); e == nil { // somebody was faster
			return machine(rec, true), nil
		}
		return sandbox.Machine{}, err
	}
	syncDir(filepath.Dir(final))
	return machine(rec, false), nil
}

// Inspect reads what is on disk, and where a machine is confined looks whether
// its init runs. One that Destroy has begun with is StatusFailed until all of it is gone.
func (p *Provider) Inspect(ctx context.Context, ref sandbox.Ref) ([]sandbox.Found, error) {
	if err := p.check(ctx, ref); err != nil {
		return nil, err
	}
	rec, err := p.find(ref.Name)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return nil, err
	}
	found, err := p.doomed(ref) // afterwards, for that is the way machines go
	if err != nil || absent || ref.Incarnation != "" && ref.Incarnation != rec.Incarnation {
		return found, err
	}
	status, err := p.status(p.dir(ref.Name))
	if err != nil {
		return nil, err
	}
	return append(found, sandbox.Found{Incarnation: rec.Incarnation, Status: status}), nil
}

// status says whether the machine in dir runs. Unconfined there is nothing that could sleep.
func (p *Provider) status(dir string) (sandbox.Status, error) {
	if !p.confined {
		return sandbox.StatusRunning, nil
	}
	i, err := readInit(p.host, dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return sandbox.StatusUnknown, err
	case i == nil:
		return sandbox.StatusStopped, nil
	}
	return sandbox.StatusRunning, nil
}

// doomed lists the machines of ref that are not wholly destroyed yet.
func (p *Provider) doomed(ref sandbox.Ref) (found []sandbox.Found, err error) {
	entries, err := os.ReadDir(filepath.Join(p.root, trashDir))
	for _, e := range entries {
		name, incarnation, _ := strings.Cut(e.Name(), "@")
		if i := sandbox.Incarnation(incarnation); name == ref.Name && (ref.Incarnation == "" || ref.Incarnation == i) {
			found = append(found, sandbox.Found{Incarnation: i, Status: sandbox.StatusFailed})
		}
	}
	return found, err
}

// find reads the record of the machine name; fs.ErrNotExist says that there
// is none, which is known only while the root directory is what it was.
func (p *Provider) find(name string) (record, error) {
	rec, err := readRecord(p.dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		if e := p.intact(); e != nil {
			return rec, e
		}
	}
	return rec, err
}

// intact reports an error where the root directory is not what it was: then what is not there proves nothing.
func (p *Provider) intact() error {
	if id, err := os.ReadFile(filepath.Join(p.root, "host")); err != nil || string(id) != p.hostID {
		return fmt.Errorf("local: the root directory %s is not what it was", p.root)
	}
	return nil
}

// Attach returns a handle. A confined machine sleeps on until a process is
// started in it, which begins its init; what would forbid that is told at once.
func (p *Provider) Attach(ctx context.Context, ref sandbox.Ref) (sandbox.Sandbox, error) {
	if err := p.check(ctx, ref); err != nil {
		return nil, err
	}
	if ref.Incarnation == "" {
		return nil, fmt.Errorf("%w: attach %s: the incarnation must be named", sandbox.ErrInvalid, ref.Name)
	}
	rec, err := p.find(ref.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s", sandbox.ErrGone, ref.Name)
	case err != nil:
		return nil, err
	case rec.Incarnation != ref.Incarnation:
		return nil, fmt.Errorf("%w: %s is %s by now", sandbox.ErrStale, ref.Name, rec.Incarnation)
	}
	m, err := p.use(ref.Name, rec)
	if err != nil {
		return nil, err
	}
	h, err := newHandle(p, m)
	if err == nil && p.confined {
		err = p.ready(m)
	}
	if err == nil {
		err = m.standing()
	}
	if err != nil {
		if h != nil {
			h.Close()
		} else {
			m.exit()
		}
		return nil, err
	}
	return h, nil
}
