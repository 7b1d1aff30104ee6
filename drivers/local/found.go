//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// processRecord is what is stored of a Detached process, by which another
// process of the host finds it. It is removed by whoever sees that it has ended.
type processRecord struct {
	Boot     string    `json:"boot"` // which start of the host the next two belong to
	PID      int       `json:"pid"`  // as the host sees it
	Start    uint64    `json:"start"`
	Argv     []string  `json:"argv,omitempty"`
	Tag      string    `json:"tag,omitempty"`
	Terminal bool      `json:"terminal,omitempty"`
	Began    time.Time `json:"began"`
}

const (
	recordSuffix = ".json"
	unfinished   = ".new"
)

// record stores that p runs, if it is Detached. Its first process has not been waited for.
func (h *handle) record(p *process) {
	if !p.detached {
		return
	}
	s, err := h.p.host.stat(p.hostPID)
	if err == nil {
		var text []byte
		text, err = json.Marshal(processRecord{
			Boot: h.p.host.boot(), PID: s.pid, Start: s.start, Argv: p.argv, Tag: p.tag, Terminal: p.size != nil, Began: p.began,
		})
		if err == nil {
			err = h.m.keep(h.m.ofProcess(p.id, unfinished), text)
		}
		if err == nil { // so that nobody reads half of it
			err = os.Rename(h.m.ofProcess(p.id, unfinished), h.m.ofProcess(p.id, recordSuffix))
		}
	}
	if err != nil {
		h.m.log.Warn("a detached process would not be found again", "machine", h.m.name, "process", p.id, "error", err)
	}
}

// found is a process that another process of the host has started, perhaps
// one that is not there any more, and that runs on. It is no child of this
// one, and where it writes nobody here reads.
type found struct {
	id  string
	rec processRecord
	p   *Provider
	m   *machine
}

var _ sandbox.Process = (*found)(nil)

// found looks for a process with a record, nil where it does not run.
func (h *handle) found(id string) (*found, error) {
	if strings.ContainsRune(id, filepath.Separator) || hasNUL(id) {
		return nil, nil
	}
	path := h.m.ofProcess(id, recordSuffix)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG) {
		return nil, nil
	}
	f := &found{id: id, p: h.p, m: h.m}
	if err == nil {
		err = json.Unmarshal(text, &f.rec)
	}
	if err != nil {
		return nil, err
	}
	if f.rec.Boot != h.p.host.boot() || f.gone() {
		os.Remove(path)
		return nil, nil
	}
	return f, nil
}

// allFound looks for all processes with a record.
func (h *handle) allFound() ([]*found, error) {
	var all []*found
	err := names(filepath.Join(h.m.dir, processDir), func(entry string) (bool, error) {
		id, ok := strings.CutSuffix(entry, recordSuffix)
		if !ok {
			return true, nil
		}
		f, err := h.found(id)
		if f != nil {
			all = append(all, f)
		} else if err != nil { // as after a power failure, which is no reason not to find the rest
			h.m.log.Warn("a process can't be found again", "machine", h.m.name, "process", id, "error", err)
		}
		return true, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return all, err
}

// gone reports whether the first process has ended.
func (f *found) gone() bool {
	s, err := f.p.host.stat(f.rec.PID)
	return err != nil || s.start != f.rec.Start || s.dead()
}

func (f *found) info() sandbox.ProcessInfo {
	return sandbox.ProcessInfo{
		ID: f.id, Argv: f.rec.Argv, Tag: f.rec.Tag, StartedAt: f.rec.Began, Detached: true, Terminal: f.rec.Terminal, Running: true,
	}
}

func (f *found) ID() string { return f.id }

func (f *found) lost() error {
	return fmt.Errorf("%w: process %s was started by another process of the host", sandbox.ErrLost, f.id)
}

// Output has nothing: that it was lost, and not how much.
func (f *found) Output(_ context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		if from < 0 {
			yield(sandbox.Chunk{}, fmt.Errorf("%w: an offset must not be negative", sandbox.ErrInvalid))
			return
		}
		yield(sandbox.Chunk{Off: from}, f.lost())
	}
}

// Wait waits for the end, of which only its own parent learns more.
func (f *found) Wait(ctx context.Context) (sandbox.Exit, error) {
	fd, err := unix.PidfdOpen(f.rec.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		if f.gone() {
			err = f.lost()
		}
		return sandbox.Exit{}, err
	}
	ended := os.NewFile(uintptr(fd), "pidfd")
	defer ended.Close()
	if f.gone() {
		return sandbox.Exit{}, f.lost()
	}
	defer context.AfterFunc(ctx, func() { ended.SetReadDeadline(time.Unix(1, 0)) })()
	raw, err := ended.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}
	switch {
	case ctx.Err() != nil:
		return sandbox.Exit{}, ctx.Err()
	case err != nil:
		return sandbox.Exit{}, err
	}
	return sandbox.Exit{}, f.lost()
}

// Signal reaches all that is found by its marks.
func (f *found) Signal(ctx context.Context, s sandbox.Signal) error {
	sig, err := signalNumber(s)
	if err != nil {
		return err
	}
	if f.gone() {
		return nil
	}
	kin := &tree{fs: f.p.host, host: true, mark: []string{processVar + "=" + f.id}, pid: f.rec.PID, birth: f.rec.Began, reaped: f.gone}
	if f.p.confined {
		init, err := f.p.runningInit(f.m.dir)
		if err != nil || init == nil {
			return err
		}
		defer init.close()
		kin = &tree{fs: init.fs, mark: kin.mark, sealed: init.fs.sealed(func(id, _ string) bool { return id == f.id })}
	}
	if sig == syscall.SIGKILL {
		return killAll(ctx, kin.killAll)
	}
	kin.signal(sig)
	return nil
}

// Close gives it up.
func (f *found) Close() error { return nil }
