//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/internal/changes"
	"github.com/bunkroom/bunkroom/sandbox"
)

// watch is a directory that is watched, by an inotify instance of its own.
//
// The kernel watches inodes. Each is reached by an open directory and names
// in it, never through a link, and handed over as what is open: so a link that is put there meanwhile leads nowhere.
type watch struct {
	h         *handle
	asked     string // the path as given
	told      string // what the paths of entries begin with
	place     *place
	elems     []string // the way to the directory from the place's root
	recursive bool
	queue     *changes.Queue
	inotify   *os.File

	// What follows is the one goroutine's that reads from inotify.

	root    *os.File
	dirs    map[int32]string   // what is watched, and its path below the root; "" is the root itself
	above   map[int32]string   // the directories above the root, and the next one in each: only that these stay matters
	machine int32              // the machine's directory, which likewise
	late    map[int32]struct{} // those of dirs in which one was not found by its path: with something above it, it has moved on
	waiting []event
}

// Watch tells of changes through this host's kernel, whichever process makes
// them. Each takes an instance of inotify, of which a user may have few (fs.inotify.max_user_instances),
// and a watch for each directory. A directory that may not be read is told and not looked into. Of a file that [sandbox.FS].Create has not finished nothing is told.
func (h *handle) Watch(ctx context.Context, name string, opts *sandbox.WatchOptions) (iter.Seq2[sandbox.Change, error], error) {
	if opts == nil {
		opts = &sandbox.WatchOptions{}
	}
	if opts.Buffer < 0 {
		return nil, pathError("watch", name, fmt.Errorf("%w: Buffer must not be negative", sandbox.ErrInvalid))
	}
	w := newWatch(h, name, *opts)
	err := h.check(ctx)
	if err == nil {
		err = w.begin(ctx)
	}
	if err != nil {
		if gone := h.check(ctx); gone != nil {
			err = gone // rather than what it left behind
		}
		return nil, pathError("watch", name, err)
	}
	go w.pump()
	forget := context.AfterFunc(ctx, func() { w.end(sandbox.ErrClosed, true) })
	return w.queue.All(ctx, func() {
		forget()
		w.end(sandbox.ErrClosed, true)
	}), nil
}

func newWatch(h *handle, name string, opts sandbox.WatchOptions) *watch {
	return &watch{
		h: h, asked: name, recursive: opts.Recursive, queue: changes.NewQueue(cmp.Or(opts.Buffer, sandbox.DefaultWatchBuffer)),
		dirs: map[int32]string{}, above: map[int32]string{}, late: map[int32]struct{}{},
	}
}

// begin watches all there is by now.
func (w *watch) begin(ctx context.Context) (err error) {
	if err := w.find(); err != nil {
		return err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return exhausted(os.NewSyscallError("inotify_init", err))
	}
	w.inotify = os.NewFile(uintptr(fd), "inotify")
	defer func() {
		if err != nil {
			w.inotify.Close()
			if w.root != nil {
				w.root.Close()
			}
		}
	}()
	if w.machine, err = w.addPath(w.h.m.dir, moves); err != nil {
		return err
	}
	if w.root, err = w.descend(); err != nil {
		return err
	}
	if err := w.enter(ctx, w.root, "", false); err != nil {
		return err
	}
	w.h.m.watches.add(w)
	if err := w.h.check(ctx); err != nil { // closed or destroyed since, and not told of
		w.h.m.watches.drop(w)
		return err
	}
	return nil
}

// find says where the directory lies, and how to come there from the place's root.
func (w *watch) find() error {
	abs, err := sandbox.ResolvePath(w.h.Workdir(), w.asked)
	if err != nil {
		return err
	}
	w.told = abs
	places := w.h.files.all()
	p, _, ok := at(places, abs)
	if !ok {
		return sandbox.ErrEscapes
	}
	real, err := follow(places, abs, followTail)
	switch {
	case errors.Is(err, p.outside):
		return sandbox.ErrEscapes
	case err != nil:
		return err
	}
	p, rel, ok := at(places, real)
	if !ok {
		return sandbox.ErrEscapes
	}
	w.place = p
	if rel != "." {
		w.elems = strings.Split(rel, "/")
	}
	return nil
}

// descend opens the directory, and watches that none of those above it moves.
func (w *watch) descend() (*os.File, error) {
	dir, err := w.place.root.Open(".")
	if err != nil {
		return nil, err
	}
	for _, elem := range w.elems {
		wd, err := w.add(dir, moves|unix.IN_DELETE)
		var next *os.File
		if err == nil {
			w.above[wd] = elem
			next, err = openWithin(dir, elem)
		}
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openWithin opens a directory in another, and nothing else.
func openWithin(dir *os.File, name string) (*os.File, error) {
	var fd int
	err := control(dir, func(parent int) (err error) {
		fd, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// control calls fn with the descriptor of an open file.
func control(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); e != nil {
		return e
	}
	return err
}

// exhausted is err as ErrTooManyWatches, where that is what it says.
func exhausted(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("%w: %w", sandbox.ErrTooManyWatches, err)
	}
	return err
}

// What is watched: of the machine's directory and those above the root, whether they stay; of the root that and all else.
// That it is removed the kernel tells of what nobody has open only: so of the root it is the directory above that tells.
const (
	moves   = unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_ONLYDIR
	entries = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
)

// add watches an open directory.
func (w *watch) add(dir *os.File, mask uint32) (wd int32, err error) {
	err = control(dir, func(fd int) (err error) {
		wd, err = w.addPath(fmt.Sprintf("/proc/self/fd/%d", fd), mask)
		return err
	})
	return wd, err
}

func (w *watch) addPath(name string, mask uint32) (int32, error) {
	var wd int
	err := control(w.inotify, func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, name, mask)
		return err
	})
	if err != nil {
		err = exhausted(os.NewSyscallError("inotify_add_watch", err))
	}
	return int32(wd), err
}

// mostDeep is how many directories may lie within one another below one that
// is watched: so many are open at a time as they are looked through.
const mostDeep = 200

// enter watches a directory and, where that is asked for, all below it. What
// is in a directory that was not known at this path is told, if tell is set.
func (w *watch) enter(ctx context.Context, dir *os.File, rel string, tell bool) error {
	mask := uint32(entries)
	if rel == "" {
		mask |= moves
	}
	wd, err := w.add(dir, mask)
	if err != nil {
		if rel != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			return nil
		}
		return err
	}
	was, known := w.dirs[wd]
	_, late := w.late[wd]
	w.dirs[wd] = rel
	delete(w.late, wd)
	if !w.recursive || known && was == rel && !late {
		return nil
	}
	if strings.Count(rel, "/") >= mostDeep {
		return fmt.Errorf("%w: more than %d within one another", sandbox.ErrTooManyWatches, mostDeep)
	}
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			below := path.Join(rel, name)
			if tell {
				w.tell(sandbox.ChangeCreated, below)
			}
			if err := w.enterChild(ctx, dir, name, below, tell); err != nil {
				return err
			}
		}
		if err != nil { // the end, or the directory is gone
			return nil
		}
	}
}

func (w *watch) enterChild(ctx context.Context, dir *os.File, name, rel string, tell bool) error {
	child, err := openWithin(dir, name)
	if err != nil { // no directory, or none any more: of that the kernel tells
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return exhausted(err)
		}
		return nil
	}
	defer child.Close()
	return w.enter(ctx, child, rel, tell)
}

// hidden reports whether a path is that of an unfinished file of ours.
func hidden(rel string) bool { return strings.HasPrefix(path.Base(rel), newFile) }

// tell tells of a change to what is at a path below the root.
func (w *watch) tell(kind sandbox.ChangeKind, rel string) {
	if !hidden(rel) {
		w.queue.Tell(sandbox.Change{Kind: kind, Path: path.Join(w.told, rel)})
	}
}

// end ends the sequence and gives up what is held for it, but for what its goroutine does as it ends.
func (w *watch) end(err error, atOnce bool) {
	w.queue.End(pathError("watch", w.asked, err), atOnce)
	w.h.m.watches.drop(w)
	w.inotify.Close()
}

// watches are those of a machine that are to end with something else.
type watches struct {
	mu  sync.Mutex
	all map[*watch]struct{}
}

func (s *watches) add(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*watch]struct{}{}
	}
	s.all[w] = struct{}{}
}

func (s *watches) drop(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, w)
}

// end ends some.
func (s *watches) end(which func(*watch) bool, err error) {
	s.mu.Lock()
	var some []*watch
	for w := range s.all {
		if which(w) {
			some = append(some, w)
		}
	}
	s.mu.Unlock()
	for _, w := range some {
		if why := w.h.check(context.Background()); why != nil {
			w.end(why, true)
		} else {
			w.end(err, false)
		}
	}
}
