package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/bunkroom/bunkroom/sandbox"
)

// refresh has what serves the folder forget what it has cached. It is not
// waited for longer than its time, also where it does not look at its context.
func (c *carriage) refresh(ctx context.Context) {
	r, ok := c.served.(Refresher)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- panicked(p)
			}
		}()
		done <- r.Refresh(ctx)
	}()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.log.WarnContext(ctx, "agent's folder may show what is old", "session", c.request.Session, "mount", c.outcome.Row.ID, "cause", err)
	}
}

// bringHome moves what is in dir, which stands where the link belongs, into
// the agent's folder: it was written by somebody who thought to write there.
// What is called as the agent's folder is, is what the folder shows under the link; what is called
// as the folder of another who works here is left for when that one comes.
//
// Each file is moved by itself and where its name is free; nothing is
// overwritten, and what can't be moved stays where it is. What was copied already, by a run
// that was cut off, is not copied twice. The error says what stays.
func (c *carriage) bringHome(ctx context.Context, dir string) error {
	m := mover{fsys: c.sb.FS()}
	m.links, _ = sandbox.As[sandbox.Symlinker](c.sb)
	own, root := path.Base(c.outcome.Path), path.Dir(c.outcome.Path)
	entries, err := m.entries(ctx, dir)
	failed := []error{err}
	for _, e := range entries {
		from, to := path.Join(dir, e.Name), path.Join(c.outcome.Path, e.Name)
		switch {
		case e.Name == own && e.IsDir():
			to = c.outcome.Path
		case c.taken(place{c.place.machine, path.Join(root, e.Name)}):
			failed = append(failed, fmt.Errorf("%s is another agent's", from))
			continue
		}
		failed = append(failed, m.move(ctx, from, to, e))
	}
	return errors.Join(failed...)
}

// taken reports whether a mount stands at a place.
func (m *Manager) taken(p place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.places[p] != nil
}

// mover moves files between storages, and so by copying.
type mover struct {
	fsys  sandbox.FS
	links sandbox.Symlinker
}

func (m mover) entries(ctx context.Context, dir string) ([]sandbox.FileInfo, error) {
	var all []sandbox.FileInfo
	for e, err := range m.fsys.ReadDir(ctx, dir) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func (m mover) move(ctx context.Context, from, to string, e sandbox.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch e.Kind {
	case sandbox.KindDir:
		return m.moveDir(ctx, from, to)
	case sandbox.KindFile:
		return m.moveFile(ctx, from, to, e)
	case sandbox.KindSymlink:
		return m.moveLink(ctx, from, to)
	}
	return fmt.Errorf("%s is no file, directory or link", from)
}

// moveDir moves what is in a directory into one of the same name, where that is a directory or free.
func (m mover) moveDir(ctx context.Context, from, to string) error {
	if err := m.fsys.Mkdir(ctx, to); err != nil {
		return err
	}
	entries, err := m.entries(ctx, from)
	failed := []error{err}
	for _, e := range entries {
		failed = append(failed, m.move(ctx, path.Join(from, e.Name), path.Join(to, e.Name), e))
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return m.fsys.Remove(ctx, from, nil)
}

// moveFile removes the original once the copy is there, and only if nobody has
// written to it meanwhile.
func (m mover) moveFile(ctx context.Context, from, to string, e sandbox.FileInfo) error {
	err := m.copy(ctx, from, to, e)
	if errors.Is(err, fs.ErrExist) {
		var same bool
		if same, err = m.same(ctx, from, to); err == nil && !same {
			err = fmt.Errorf("%w: %s, so that %s stays", fs.ErrExist, to, from)
		}
	}
	if err != nil {
		return err
	}
	now, err := m.fsys.Stat(ctx, from)
	if err != nil {
		return err
	}
	if now.Size != e.Size || !now.ModTime.Equal(e.ModTime) {
		return fmt.Errorf("%s is being written to", from)
	}
	return m.fsys.Remove(ctx, from, nil)
}

func (m mover) copy(ctx context.Context, from, to string, e sandbox.FileInfo) error {
	r, err := m.fsys.Open(ctx, from, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := m.fsys.Create(ctx, to, &sandbox.CreateOptions{Exclusive: true, Mode: e.Mode})
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Close()
}

// same reports whether two files hold the same.
func (m mover) same(ctx context.Context, a, b string) (bool, error) {
	x, err := m.fsys.Open(ctx, a, nil)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := m.fsys.Open(ctx, b, nil)
	if errors.Is(err, sandbox.ErrIsDir) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer y.Close()
	var p, q [32 << 10]byte
	for {
		n, errX := io.ReadFull(x, p[:])
		k, errY := io.ReadFull(y, q[:])
		if !bytes.Equal(p[:n], q[:k]) {
			return false, nil
		}
		if errX != nil || errY != nil {
			return atEnd(errX) && atEnd(errY), errors.Join(unlessEnd(errX), unlessEnd(errY))
		}
	}
}

func atEnd(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

func unlessEnd(err error) error {
	if atEnd(err) {
		return nil
	}
	return err
}

func (m mover) moveLink(ctx context.Context, from, to string) error {
	text, err := m.links.Readlink(ctx, from)
	if err != nil {
		return err
	}
	err = m.links.Symlink(ctx, text, to)
	if errors.Is(err, fs.ErrExist) {
		if there, again := m.links.Readlink(ctx, to); again == nil && there == text {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return m.fsys.Remove(ctx, from, nil)
}
