//go:build linux

package local

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// event is what the kernel tells.
type event struct {
	wd     int32
	mask   uint32
	cookie uint32 // two with the same are a rename
	name   string // in the directory; empty of itself
}

func (e event) has(mask uint32) bool { return e.mask&mask != 0 }

// pump tells what the kernel tells, until inotify is closed.
func (w *watch) pump() {
	defer w.root.Close()
	buf := make([]byte, 64<<10)
	for w.more(buf, time.Time{}) {
		for len(w.waiting) > 0 {
			e := w.waiting[0]
			w.waiting = w.waiting[1:]
			over, err := w.take(e, buf)
			if err != nil {
				w.end(err, false)
				return
			}
			if over {
				return
			}
		}
	}
}

// more reads what there is, until a deadline if it is not zero. It reports whether more may come.
func (w *watch) more(buf []byte, until time.Time) bool {
	if w.inotify.SetReadDeadline(until) != nil {
		return false
	}
	n, err := w.inotify.Read(buf)
	if err != nil {
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		e := event{
			wd:     int32(binary.NativeEndian.Uint32(b)),
			mask:   binary.NativeEndian.Uint32(b[4:]),
			cookie: binary.NativeEndian.Uint32(b[8:]),
		}
		size := int(binary.NativeEndian.Uint32(b[12:]))
		e.name, _, _ = strings.Cut(string(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
		b = b[unix.SizeofInotifyEvent+size:]
		w.waiting = append(w.waiting, e)
	}
	return true
}

// take tells of one event. over says that nothing more is to be told: the sequence has ended.
func (w *watch) take(e event, buf []byte) (over bool, err error) {
	if e.has(unix.IN_Q_OVERFLOW) {
		return false, w.again()
	}
	rel, watched := w.dirs[e.wd]
	next, above := w.above[e.wd]
	const gone = unix.IN_MOVE_SELF | unix.IN_DELETE_SELF | unix.IN_UNMOUNT
	switch {
	case e.has(unix.IN_IGNORED):
		delete(w.dirs, e.wd)
		delete(w.late, e.wd)
		return false, nil
	case e.wd == w.machine:
		if err := w.h.check(context.Background()); err != nil {
			w.end(err, true)
			return true, nil
		}
		return false, nil
	case (above || watched && rel == "") && e.has(gone), above && e.has(unix.IN_DELETE) && e.name == next:
		return true, w.lost()
	case !watched || e.name == "":
		return false, nil
	}
	return false, w.change(e, path.Join(rel, e.name), buf)
}

// lost ends the sequence because the directory is not where it was, perhaps with its machine.
func (w *watch) lost() error {
	if err := w.h.check(context.Background()); err != nil {
		w.end(err, true)
		return nil
	}
	return fs.ErrNotExist
}

// change tells of a change to the entry at a path.
func (w *watch) change(e event, rel string, buf []byte) error {
	isDir, in := w.recursive && e.has(unix.IN_ISDIR), e.wd
	switch {
	case e.has(unix.IN_CREATE):
		w.tell(sandbox.ChangeCreated, rel)
	case e.has(unix.IN_MODIFY | unix.IN_ATTRIB): // a directory may have become one that can be read
		w.tell(sandbox.ChangeModified, rel)
	case e.has(unix.IN_DELETE):
		w.tell(sandbox.ChangeRemoved, rel)
		return nil
	case e.has(unix.IN_MOVED_TO): // from somewhere that is not watched
		w.tell(sandbox.ChangeRenamed, rel)
	case e.has(unix.IN_MOVED_FROM):
		to, found := w.pair(e.cookie, buf)
		if !found {
			w.tell(sandbox.ChangeRemoved, rel)
			if isDir {
				w.leave(rel)
			}
			return nil
		}
		from := rel
		rel, in = path.Join(w.dirs[to.wd], to.name), to.wd
		if w.back(e, to, buf) {
			return w.exchanged(from, e.wd, rel, to.wd)
		}
		w.renamed(from, rel)
		if isDir {
			return w.moved(from, rel, in)
		}
	}
	if isDir {
		return w.arrive(rel, in)
	}
	return nil
}

func (w *watch) renamed(from, to string) {
	switch {
	case hidden(to):
		w.tell(sandbox.ChangeRemoved, from)
	case hidden(from):
		w.tell(sandbox.ChangeRenamed, to)
	default:
		w.queue.Tell(sandbox.Change{Kind: sandbox.ChangeRenamed, Path: path.Join(w.told, to), From: path.Join(w.told, from)})
	}
}

// pairing is how long the other half of a rename may take to come. The kernel tells both one right after the other.
const pairing = 10 * time.Millisecond

// pair finds the other half of a rename, where that is watched, and takes it out of what waits.
func (w *watch) pair(cookie uint32, buf []byte) (event, bool) {
	if len(w.waiting) == 0 {
		w.more(buf, time.Now().Add(pairing))
	}
	for i, e := range w.waiting {
		if _, watched := w.dirs[e.wd]; watched && e.has(unix.IN_MOVED_TO) && e.cookie == cookie {
			w.waiting = append(w.waiting[:i:i], w.waiting[i+1:]...)
			return e, true
		}
	}
	return event{}, false
}

// back reports whether a rename is followed by the one that undoes it, and takes that out of what waits.
func (w *watch) back(from, to event, buf []byte) bool {
	if len(w.waiting) < 2 && from.has(unix.IN_ISDIR) {
		w.more(buf, time.Now().Add(pairing))
	}
	if len(w.waiting) < 2 {
		return false
	}
	a, b := w.waiting[0], w.waiting[1]
	is := a.cookie == b.cookie && a.has(unix.IN_MOVED_FROM) && b.has(unix.IN_MOVED_TO) &&
		a.wd == to.wd && a.name == to.name && b.wd == from.wd && b.name == from.name
	if is {
		w.waiting = w.waiting[2:]
	}
	return is
}

// exchanged tells that two may have changed places. The kernel tells it as a rename there and
// one back, which it may be as well: only by looking can the two be told apart.
func (w *watch) exchanged(a string, inA int32, b string, inB int32) error {
	for _, rel := range []string{a, b} {
		w.tell(sandbox.ChangeRemoved, rel)
		w.leave(rel)
	}
	if err := w.appear(a, inA); err != nil {
		return err
	}
	return w.appear(b, inB)
}

// appear tells that something is at a path, in the directory that is watched as in, if it is.
func (w *watch) appear(rel string, in int32) error {
	dir, err := w.walk(path.Dir(rel))
	if err != nil {
		return w.missed(in, err)
	}
	defer dir.Close()
	info, _, err := lookAt(dir, path.Base(rel))
	if err != nil {
		return w.missed(in, err)
	}
	w.tell(sandbox.ChangeCreated, rel)
	if w.recursive && info.IsDir() {
		return w.arrive(rel, in)
	}
	return nil
}

// walk opens the directory at a path, "." for the root.
func (w *watch) walk(rel string) (*os.File, error) {
	dir, err := openWithin(w.root, ".")
	for elem := range strings.SplitSeq(rel, "/") {
		if err != nil {
			return nil, err
		}
		above := dir
		dir, err = openWithin(above, elem)
		above.Close()
	}
	return dir, err
}

// arrive watches the directory at a path, in the one that is watched as in, if there is
// one by now, and tells what is in it already. What became of it since, the kernel is yet to
// tell; but if something above it was moved, nobody tells of it again, and so it is looked for then.
func (w *watch) arrive(rel string, in int32) error {
	dir, err := w.walk(rel)
	if err != nil {
		return w.missed(in, err)
	}
	defer dir.Close()
	return w.enter(context.Background(), dir, rel, true)
}

// missed says that something in a directory was not found, as is fine, or could not be looked for.
func (w *watch) missed(in int32, err error) error {
	if err = exhausted(err); errors.Is(err, sandbox.ErrTooManyWatches) {
		return err
	}
	w.late[in] = struct{}{}
	return nil
}

// moved says that a directory, and what is in it, has another path, in the one that is watched as in.
func (w *watch) moved(from, to string, in int32) error {
	var late []int32
	for wd, rel := range w.dirs {
		below, ok := sandbox.PathWithin(from, rel)
		if !ok {
			continue
		}
		w.dirs[wd] = path.Join(to, below)
		if _, is := w.late[wd]; is {
			late = append(late, wd)
		}
	}
	err := w.arrive(to, in)
	for _, wd := range late {
		if rel, watched := w.dirs[wd]; watched && err == nil {
			err = w.arrive(rel, wd)
		}
	}
	return err
}

// leave watches a directory no more, nor what is in it: it has gone elsewhere.
func (w *watch) leave(rel string) {
	for wd, at := range w.dirs {
		if _, ok := sandbox.PathWithin(rel, at); ok {
			w.remove(wd)
		}
	}
}

func (w *watch) remove(wd int32) {
	delete(w.dirs, wd)
	delete(w.late, wd)
	// An error says that the kernel has done it already.
	_ = control(w.inotify, func(fd int) error {
		_, err := unix.InotifyRmWatch(fd, uint32(wd))
		return err
	})
}

// stays reports whether the directory is still where it was found.
func (w *watch) stays() (bool, error) {
	if w.h.check(context.Background()) != nil {
		return false, nil
	}
	dir, err := w.place.root.Open(".")
	for _, elem := range w.elems {
		if err != nil {
			break
		}
		above := dir
		dir, err = openWithin(above, elem)
		above.Close()
	}
	if err = exhausted(err); errors.Is(err, sandbox.ErrTooManyWatches) {
		return false, err
	} else if err != nil {
		return false, nil
	}
	defer dir.Close()
	is, err := dir.Stat()
	was, e := w.root.Stat()
	return err == nil && e == nil && os.SameFile(is, was), nil
}

// again watches all there is, for the kernel has left something out, and then
// says so: whoever looks after that misses nothing.
func (w *watch) again() error {
	switch stays, err := w.stays(); {
	case err != nil:
		return err
	case !stays: // of which the kernel has told, and left it out
		return w.lost()
	}
	old := w.dirs
	w.dirs, w.late = map[int32]string{}, map[int32]struct{}{}
	root, err := openWithin(w.root, ".")
	if err != nil {
		return w.lost()
	}
	defer root.Close()
	if err := w.enter(context.Background(), root, "", false); err != nil {
		return err
	}
	for wd := range old {
		if _, still := w.dirs[wd]; !still {
			w.remove(wd)
		}
	}
	w.queue.Tell(sandbox.Change{Kind: sandbox.ChangeOverflow})
	return nil
}
