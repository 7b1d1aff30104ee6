//go:build linux

package local

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// usage is how many bytes are allocated for the directories of top that are
// named and for all below them, on the file system of the first. A file with
// several names counts once. What can't be read, and what goes while it is
// looked for, is left out.
func usage(ctx context.Context, top *os.File, names ...string) (bytes int64, err error) {
	w := &usageWalk{top: int(top.Fd()), seen: map[inode]struct{}{}, buf: make([]byte, 64<<10)}
	var st unix.Stat_t
	if err := unix.Fstat(w.top, &st); err != nil {
		return 0, err
	}
	w.way = []level{{id: inode{st.Dev, st.Ino}}}
	if err := unix.Fstatat(w.top, names[0], &st, unix.AT_SYMLINK_NOFOLLOW); short(err) {
		return 0, err
	}
	w.dev = st.Dev // of top, where the first is not there
	if w.cur, err = openDir(w.top, "."); err != nil {
		return 0, err
	}
	defer func() { unix.Close(w.cur) }()
	for _, name := range names {
		if err := w.note(name, &w.way[0]); err != nil {
			return 0, err
		}
	}
	err = w.walk(ctx)
	return w.bytes, err
}

// inode is what a file is, whatever its names.
type inode struct{ dev, ino uint64 }

// usageWalk goes through directories that others change meanwhile. What runs
// in a machine can nest them as deep as it likes, so no more than two are open
// below the top, and names are never put together to a path. It can also move them, and put
// links in their place, so the way back is taken only where it leads to what was left.
type usageWalk struct {
	top   int // the directory it began in
	dev   uint64
	seen  map[inode]struct{} // directories that were read, and files with several names
	bytes int64

	cur int     // the directory it is in
	way []level // from top to cur
	buf []byte
}

// level is a directory on the way.
type level struct {
	name string
	id   inode
	todo []string // the directories in it that are not yet read
}

func (w *usageWalk) walk(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var err error
		here := &w.way[len(w.way)-1]
		if n := len(here.todo); n > 0 {
			name := here.todo[n-1]
			here.todo = here.todo[:n-1]
			err = w.down(ctx, name)
		} else if len(w.way) == 1 {
			return nil
		} else {
			w.way = w.way[:len(w.way)-1]
			err = w.up(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// note counts what has this name in the directory it is in, which is at. A
// directory is to be read, if it is on the file system that counts.
func (w *usageWalk) note(name string, at *level) error {
	var st unix.Stat_t
	if err := unix.Fstatat(w.cur, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return leftOut(err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if st.Dev != w.dev {
			return nil
		}
		at.todo = append(at.todo, name)
	} else if st.Nlink > 1 && !w.first(inode{st.Dev, st.Ino}) { // by its own device: overlays have several
		return nil
	}
	w.bytes += st.Blocks * 512
	return nil
}

// first reports whether this was not seen before.
func (w *usageWalk) first(id inode) bool {
	_, again := w.seen[id]
	w.seen[id] = struct{}{}
	return !again
}

// down goes into a directory and counts what is in it.
func (w *usageWalk) down(ctx context.Context, name string) error {
	fd, err := openDir(w.cur, name)
	if err != nil {
		return leftOut(err)
	}
	id, err := identify(fd)
	if err != nil || id.dev != w.dev || !w.first(id) { // it was moved, or something else put there
		unix.Close(fd)
		return leftOut(err)
	}
	unix.Close(w.cur)
	w.cur = fd
	w.way = append(w.way, level{name: name, id: id})
	here := &w.way[len(w.way)-1]
	var names []string
	for {
		n, err := unix.ReadDirent(w.cur, w.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n <= 0:
			return leftOut(err)
		}
		_, _, names = unix.ParseDirent(w.buf[:n], -1, names[:0])
		for _, name := range names {
			if err := w.note(name, here); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// up goes back to the last directory of the way. Where what it is in was
// moved it comes from the top again, as far as the way is what it was.
func (w *usageWalk) up(ctx context.Context) error {
	if fd, err := w.openLevel(w.cur, "..", len(w.way)-1); err == nil {
		unix.Close(w.cur)
		w.cur = fd
		return nil
	} else if short(err) {
		return err
	}
	fd, err := openDir(w.top, ".")
	if err != nil {
		return err
	}
	unix.Close(w.cur)
	w.cur = fd
	for i := 1; i < len(w.way); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := w.openLevel(w.cur, w.way[i].name, i)
		if err != nil {
			w.way = w.way[:i]
			return leftOut(err)
		}
		unix.Close(w.cur)
		w.cur = next
	}
	return nil
}

// openLevel opens what has this name, if it is the i-th directory of the way; else it is ESTALE.
func (w *usageWalk) openLevel(dir int, name string, i int) (int, error) {
	fd, err := openDir(dir, name)
	if err != nil {
		return -1, err
	}
	id, err := identify(fd)
	if err == nil && id != w.way[i].id {
		err = unix.ESTALE
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func identify(fd int) (inode, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return inode{st.Dev, st.Ino}, err
}

// openDir opens a directory for reading, and no link to one.
func openDir(dir int, name string) (fd int, err error) {
	for {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// short reports whether err says that this process, or its host, has run out
// of something. That says nothing of the file.
func short(err error) bool {
	return err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM
}

// leftOut is nil, for what can't be read is left out, unless it could be at another time.
func leftOut(err error) error {
	if short(err) {
		return err
	}
	return nil
}
