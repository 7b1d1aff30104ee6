//go:build linux

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// List reads the records of all machines below the root, of this process and
// others, and looks as Inspect does whether they run. One that Destroy has
// begun with is StatusFailed, until not even its record is left. A machine
// whose record can't be read is left out, and the log told.
func (p *Provider) List(ctx context.Context, deployment string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) {
		err := p.usable(ctx)
		if err == nil {
			err = p.intact()
		}
		if err != nil {
			yield(sandbox.Listed{}, fmt.Errorf("local: list: %w", err))
			return
		}
		p.cgroups.sweep("")
		seen := map[sandbox.Incarnation]bool{}
		for _, dir := range []string{machinesDir, trashDir} { // in this order, for that is the way machines go
			err := names(filepath.Join(p.root, dir), func(entry string) (bool, error) {
				if err := p.usable(ctx); err != nil {
					return false, err
				}
				l, ok := p.listed(dir, entry)
				if its, has := l.Labels[sandbox.LabelDeployment]; !ok || !has || its != deployment || seen[l.Ref.Incarnation] {
					return true, nil
				}
				seen[l.Ref.Incarnation] = true
				return yield(l, nil), nil
			})
			if err == errStop {
				return
			}
			if err != nil {
				yield(sandbox.Listed{}, fmt.Errorf("local: list: %w", err))
				return
			}
		}
	}
}

// listed describes the machine whose directory is entry in dir; false where that is none.
func (p *Provider) listed(dir, entry string) (sandbox.Listed, bool) {
	path := filepath.Join(p.root, dir, entry)
	rec, err := readRecord(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Warn("a machine can't be listed", "machine", entry, "error", err)
		}
		return sandbox.Listed{}, false
	}
	machine, _, _ := strings.Cut(entry, "@")
	status := sandbox.StatusFailed
	if dir == machinesDir {
		if status, err = p.status(path); err != nil {
			status = sandbox.StatusUnknown
		}
	}
	return sandbox.Listed{
		Ref:    sandbox.Ref{Provider: name, Name: machine, Incarnation: rec.Incarnation, Host: p.hostID},
		Labels: rec.Labels, Status: status, CreatedAt: rec.Created,
	}, true
}

// errStop says that whoever was asked wants no more.
var errStop = errors.New("enough")

// names calls fn with the names in a directory, a few hundred at a time, until it returns false: errStop.
func names(dir string, fn func(name string) (more bool, err error)) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		batch, err := f.Readdirnames(256)
		for _, name := range batch {
			if more, err := fn(name); err != nil {
				return err
			} else if !more {
				return errStop
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
