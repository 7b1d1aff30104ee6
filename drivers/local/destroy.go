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
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Destroy takes the machine's name away from it, ends all of its processes,
// whoever started them, and deletes its files. What is bound, and what links
// lead to, stays. Where it fails in the middle the error says so, Inspect
// still sees the machine, and another Destroy or the next New goes on with it.
func (p *Provider) Destroy(ctx context.Context, ref sandbox.Ref) error {
	if err := p.check(ctx, ref); err != nil {
		return err
	}
	if ref.Incarnation == "" {
		return fmt.Errorf("%w: destroy %s: the incarnation must be named", sandbox.ErrInvalid, ref.Name)
	}
	if strings.ContainsRune(string(ref.Incarnation), filepath.Separator) {
		return nil // not one of ours
	}
	doomed := p.doomedDir(ref)
	if err := p.condemn(ref, doomed); err != nil {
		return err
	}
	return p.bury(doomed)
}

// doomedDir is where the machine's directory is while it is being removed.
func (p *Provider) doomedDir(ref sandbox.Ref) string {
	return filepath.Join(p.root, trashDir, ref.Name+"@"+string(ref.Incarnation))
}

// condemn moves the machine's directory to doomed, if it is there and that incarnation.
func (p *Provider) condemn(ref sandbox.Ref, doomed string) error {
	dir := p.dir(ref.Name)
	unlock, err := lock(dir, lockFile, syscall.LOCK_EX)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = p.find(ref.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := p.find(ref.Name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Incarnation != ref.Incarnation {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Rename(dir, doomed); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// bury ends what runs in the machine whose directory is at path, and removes
// that. It succeeds where nothing is left.
func (p *Provider) bury(path string) error {
	rec, err := readRecord(path)
	if errors.Is(err, fs.ErrNotExist) { // the record goes last, so nothing runs any more
		return removeTree(path)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	m := p.machines[rec.Incarnation]
	delete(p.machines, rec.Incarnation)
	p.mu.Unlock()
	var ours []*process
	if m != nil {
		ours = m.end()
	}
	if p.confined {
		i, err := readInit(p.host, path)
		if err == nil && i != nil {
			err = i.kill(p.host)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	} else if all := p.ofMachine(path, rec.Incarnation); !all.kill(time.Now().Add(5 * time.Second)) {
		return fmt.Errorf("local: processes of machine %s survive being killed", filepath.Base(path))
	}
	if m != nil {
		stopAll(ours, sandbox.SandboxEnded)
		p.release(m)
		m.forget()
	}
	p.cgroups.sweep(rec.Incarnation)
	p.giveBack(rec.Incarnation)
	p.past.drop(rec.Incarnation)
	for _, e := range list(path) {
		dir := filepath.Join(path, e.Name())
		if !e.IsDir() {
			continue
		}
		if removeDeep(dir) == nil {
			continue
		}
		if err := removeTree(dir); err != nil {
			return err
		}
	}
	return removeTree(path)
}

// sweep finishes what was left half made or half removed.
func (p *Provider) sweep() {
	trash := filepath.Join(p.root, trashDir)
	for _, e := range list(trash) {
		if err := p.bury(filepath.Join(trash, e.Name())); err != nil {
			p.log.Warn("a destroyed machine is still there", "machine", e.Name(), "error", err)
		}
	}
	p.cgroups.sweep("")
	p.sweepUIDs()
	fresh := filepath.Join(p.root, newDir)
	for _, e := range list(fresh) {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
			removeTree(filepath.Join(fresh, e.Name()))
		}
	}
}

func list(dir string) []fs.DirEntry {
	entries, _ := os.ReadDir(dir)
	return entries
}

// removeTree removes path and all below it. It follows no link, and opens
// directories that were closed to their owner. That nothing is there is fine.
func removeTree(path string) error {
	var err error
	for range 10 { // somebody may still be writing
		if err = os.RemoveAll(path); err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrPermission) {
			unlockTree(path)
		} else {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return err
}

// unlockTree lets the owner back into every directory below path.
func unlockTree(path string) {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return
	}
	defer parent.Close()
	unlockDir(parent, filepath.Base(path))
}

func unlockDir(parent *os.Root, name string) {
	info, err := parent.Lstat(name)
	if err != nil || !info.IsDir() {
		return
	}
	if info.Mode()&0o700 != 0o700 {
		parent.Chmod(name, 0o700) // a link that was put in its place meanwhile can't lead out of parent
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, n := range names {
		unlockDir(dir, n)
	}
}
