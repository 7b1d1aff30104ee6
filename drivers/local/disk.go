//go:build linux

package local

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// build makes the directory of a machine where it is not yet seen.
func (p *Provider) build(r sandbox.CreateRequest) (dir string, rec record, err error) {
	rec = record{Incarnation: sandbox.Incarnation(newID()), Spec: r.Spec, Labels: r.Labels, Created: time.Now().UTC()}
	if dir, err = os.MkdirTemp(filepath.Join(p.root, newDir), "machine-"); err != nil {
		return "", rec, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	for _, file := range []string{lockFile, useFile} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			return dir, rec, err
		}
	}
	for _, d := range []string{workDir, tempDir, bindDir} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return dir, rec, err
		}
	}
	if err := os.Chmod(filepath.Join(dir, tempDir), 0o777|fs.ModeSticky); err != nil {
		return dir, rec, err
	}
	if p.confined {
		if err := spareInit(dir); err != nil {
			return dir, rec, err
		}
	}
	return dir, rec, writeJSON(filepath.Join(dir, recordFile), rec)
}

// hostID returns the id of the host, which is made by whoever comes first.
func hostID(root string) (string, error) {
	path := filepath.Join(root, "host")
	id, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var f *os.File
		if f, err = os.CreateTemp(filepath.Join(root, newDir), "host-"); err != nil {
			return "", err
		}
		defer os.Remove(f.Name())
		if _, err = f.WriteString(newID()); err == nil {
			err = f.Sync()
		}
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			return "", err
		}
		if err = os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		id, err = os.ReadFile(path)
	}
	return string(id), err
}

// newID returns a name that nobody else has.
func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// writeJSON writes a file that is there whole or not at all, even after a power failure.
func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
