package geesefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockFile is held by the process whose directory it is in for as long as that
// lives, and in Dir itself by who makes or clears directories there.
const lockFile = "lock"

// house is the directory of this process below Config.Dir, with its lock.
type house struct {
	dir  string
	lock *os.File
}

// openHouse makes a directory for this process below dir, after clearing those
// of processes that have died with credentials in them.
func openHouse(dir string) (_ *house, leftovers error, _ error) {
	if err := os.MkdirAll(dir, privateDir); err != nil {
		return nil, nil, err
	}
	if err := os.Chmod(dir, privateDir); err != nil {
		return nil, nil, err
	}
	gate, err := locked(filepath.Join(dir, lockFile), syscall.LOCK_EX)
	if err != nil {
		return nil, nil, err
	}
	defer gate.Close()
	leftovers = clearDead(dir)
	own, err := os.MkdirTemp(dir, "host-")
	if err != nil {
		return nil, nil, err
	}
	lock, err := locked(filepath.Join(own, lockFile), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return nil, nil, errors.Join(err, os.Remove(own))
	}
	return &house{own, lock}, leftovers, nil
}

// locked opens a file and takes its lock, which ends when the file is closed
// or the process ends, however it does.
func locked(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, privateFile)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(os.NewSyscallError("flock", err), f.Close())
		}
	}
}

// clearDead removes the directories of processes that have died.
func clearDead(dir string) error {
	entries, err := os.ReadDir(dir)
	var all []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), "host-") {
			continue
		}
		dead := filepath.Join(dir, e.Name())
		lock, err := locked(filepath.Join(dead, lockFile), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			if !errors.Is(err, syscall.EWOULDBLOCK) {
				all = append(all, err)
			}
			continue // it lives
		}
		all = append(all, (&house{dead, lock}).remove())
	}
	return errors.Join(append(all, err)...)
}

// remove removes a directory and what runs have left in it.
func (h *house) remove() error {
	runs, err := os.ReadDir(h.dir)
	all := []error{err}
	for _, e := range runs {
		if e.IsDir() && strings.HasPrefix(e.Name(), "run-") {
			all = append(all, removePlace(filepath.Join(h.dir, e.Name())))
		}
	}
	all = append(all, os.Remove(filepath.Join(h.dir, lockFile)), os.Remove(h.dir), h.lock.Close())
	return errors.Join(all...)
}
