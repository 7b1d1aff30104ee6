package mount

import (
	"context"
	"os"
)

// kernel is what a [Host] asks of the operating system. Calls that go to a
// mounted file system may block for as long as it does not answer: list always,
// unmount and abort where the kernel waits for it.
type kernel interface {
	// mountinfo is the text of what this process sees mounted.
	mountinfo() (string, error)
	// list reads the beginning of a directory, and says in which mount that was.
	list(dir string) (mountID string, err error)
	// unmount takes off what is mounted on top at dir, also where it is in
	// use. With force it first fails whatever waits for that file system.
	unmount(dir string, force bool) error
	// unmountFUSE does so for users who may not, by the program that may.
	unmountFUSE(ctx context.Context, dir string) error
	// abort fails whatever waits for a FUSE connection, for good.
	abort(minor string) error
	// private mounts dir onto itself, so that nothing that is mounted below
	// shows in other mount namespaces, and nothing can be written below but into such mounts.
	private(dir string) error

	// open opens a directory that inside then names things in, as they were
	// before anything was mounted at it.
	open(dir string) (*os.File, error)
	inside(dir *os.File, name string) string
	// lock makes or opens a file and locks it, without waiting: nil and
	// no error where another process has it locked.
	lock(path string) (*os.File, error)

	mkdir(path string) error // 0700
	rmdir(path string) error // removes an empty directory, and nothing else
	names(dir string) ([]string, error)
	rename(from, to string) error
}
