//go:build unix

package dir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync"
	"syscall"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// locks is the directory of the files that are locked: no scope's segment begins with a dot.
const locks = ".locks"

var _ mount.Locker = (*Mounter)(nil)

// record is what the file of a lock holds.
type record struct {
	Epoch int64  `json:"epoch"`
	Owner string `json:"owner"`
}

// Lock locks a file that stands for the folder, for as long as this process
// lives or until it is released: it is never lost, and needs no renewing. It
// keeps out every other process that uses the root, and every other caller in this
// one, on as many hosts as the root's file system has its locks on; where that has
// none, the error is sandbox.ErrUnsupported. The files of locks stay.
func (m *Mounter) Lock(ctx context.Context, row mount.Row, owner string) (mount.Hold, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := place(row)
	if err != nil {
		return nil, err
	}
	f, err := m.openLock(path.Join(locks, rel))
	if err != nil {
		return nil, fmt.Errorf("%w: lock of mount %s: %w", mount.ErrUnavailable, row.ID, err)
	}
	h, err := take(f, row.ID, owner)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return h, nil
}

func (m *Mounter) openLock(rel string) (*os.File, error) {
	root, err := os.OpenRoot(m.root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(rel), private); err != nil {
		return nil, err
	}
	return root.OpenFile(rel, os.O_RDWR|os.O_CREATE, 0o600)
}

// take locks an open file and notes who has it.
func take(f *os.File, id mount.ID, owner string) (mount.Hold, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			was, _ := read(f) // its holder may be writing it: then it is not told who that is
			return nil, &mount.InUseError{Mount: id, Holder: was.Owner}
		case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOTSUP), errors.Is(err, syscall.ENOLCK):
			return nil, fmt.Errorf("%w: lock of mount %s: %w", sandbox.ErrUnsupported, id, err)
		default:
			return nil, fmt.Errorf("%w: lock of mount %s: %w", mount.ErrUnavailable, id, err)
		}
		break
	}
	was, err := read(f)
	if err == nil {
		was = record{Epoch: was.Epoch + 1, Owner: owner}
		err = write(f, was)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: lock of mount %s: %w", mount.ErrUnavailable, id, err)
	}
	return &hold{file: f, epoch: was.Epoch, done: make(chan struct{})}, nil
}

// read is what the file says; an empty one says that nobody had it ever.
func read(f *os.File) (r record, err error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<16))
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return record{}, err
	}
	return r, json.Unmarshal(text, &r)
}

// write replaces what the file says, at once: whoever reads meanwhile, without the lock, is told too little and not something wrong.
func write(f *os.File, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	// Spaces cover what was longer, so that the epoch is never away from the file.
	text = append(text, bytes.Repeat([]byte(" "), max(0, int(info.Size())-len(text)))...)
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Sync()
}

// hold is a file that is locked.
type hold struct {
	epoch int64
	done  chan struct{}

	mu   sync.Mutex
	file *os.File // nil once it is released
}

func (h *hold) Epoch() int64          { return h.epoch }
func (h *hold) Done() <-chan struct{} { return h.done }
func (h *hold) Err() error            { return nil }

func (h *hold) Release(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return nil
	}
	// A child that is just being started may have the file too, and would keep it locked.
	if err := syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN); err != nil {
		return fmt.Errorf("dir: release lock: %w", err)
	}
	close(h.done)
	h.file.Close() // which has nothing left to write
	h.file = nil
	return nil
}
