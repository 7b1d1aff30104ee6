package sandbox

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Sandbox is a handle on one machine. It is had from [Provider.Attach] (a host
// gets it from session.Runner.Open) and is good until it is closed; each
// handle has its own binds.
//
// A handle is bound to one incarnation. When that is destroyed or replaced,
// its methods return ErrGone or ErrStale and never work on another machine.
// After Close every method of the handle, of its FS and of what [As] found
// through it returns ErrClosed. All methods may be called concurrently.
type Sandbox interface {
	// Ref says which machine this is.
	Ref() Ref
	// Workdir is the absolute path of the working directory, as processes in
	// the sandbox see it. Relative paths start there.
	Workdir() string
	// FS is the files of the sandbox.
	FS() FS
	// Start starts a process and returns once it runs. ErrNotStarted: it did
	// not, and the error says why (no such program, no such directory).
	// ErrInvalid names a bad field of c. When ctx ends, the process is
	// stopped as by c.Timeout, unless c.Detached.
	Start(ctx context.Context, c Cmd) (Process, error)
	// Close gives the handle up: processes that are not Detached are stopped,
	// binds are undone. It never destroys the machine. Closing twice succeeds.
	Close() error
}

// FS is the files of a sandbox: the working directory, and what was bound
// through the same handle.
//
// Paths are slash-separated; a relative one starts at the working directory.
// "." and ".." are resolved in the text before anything is looked up, nothing
// is ever decoded, and a path that leaves the files of the sandbox, in the
// text or through a symbolic link, is ErrEscapes. An empty path, a NUL byte or invalid UTF-8 is
// ErrInvalid. Errors are [*fs.PathError]s that carry the path as given, and
// match fs.ErrNotExist, fs.ErrExist and fs.ErrPermission as well as the sentinels of this package.
type FS interface {
	// Open opens a file for reading, all of it or the part that opts asks for.
	// ErrIsDir for a directory. The caller closes it. A nil opts is all defaults.
	Open(ctx context.Context, path string, opts *OpenOptions) (io.ReadCloser, error)
	// Create writes a file that appears under its name all at once: Close
	// puts it there, replacing a file (never a directory: ErrIsDir) and
	// keeping its mode; Abort drops it. Until then, and if the process dies,
	// the old content stands. Missing parents are made. A link at the end of
	// the path is followed, as far as that stays inside. A nil opts is all defaults.
	Create(ctx context.Context, path string, opts *CreateOptions) (Writer, error)
	// Stat describes what path leads to, following links.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// Lstat describes what is at path: a link itself, not what it leads to.
	Lstat(ctx context.Context, path string) (FileInfo, error)
	// ReadDir streams the entries of a directory in no order, without "." and
	// "..", however many there are. Links are described, not followed.
	// ErrNotDir for a file. After an error the stream ends.
	ReadDir(ctx context.Context, path string) iter.Seq2[FileInfo, error]
	// Mkdir makes a directory and its missing parents. An existing directory is fine; ErrNotDir where a file is in the way.
	Mkdir(ctx context.Context, path string) error
	// Remove removes a file, a link (never what it leads to) or an empty
	// directory; ErrNotEmpty for a full one unless opts.Recursive;
	// fs.ErrNotExist for what isn't there unless opts.MissingOK. The working
	// directory itself is refused with ErrInvalid. A nil opts is all defaults.
	Remove(ctx context.Context, path string, opts *RemoveOptions) error
	// Rename moves a file or directory, replacing a file at the new name all
	// at once; fs.ErrExist where a directory is in the way. ErrCrossDevice
	// where the two lie in different binds. Its errors carry from. A nil opts is all defaults.
	Rename(ctx context.Context, from, to string, opts *RenameOptions) error
}

// Writer receives the content of a file. Exactly one of Close and Abort
// decides; a second call of either does nothing and returns nil.
type Writer interface {
	io.Writer
	// Close puts the file under its name. After an error the old content stands. ErrClosed: the
	// handle was closed first, which drops what is being written.
	Close() error
	// Abort drops what was written.
	Abort() error
}

// OpenOptions are the options of [FS.Open].
type OpenOptions struct {
	// Offset is where reading begins, in bytes. Behind the end of the file there is nothing to read.
	Offset int64
	// Limit is how many bytes are read at most; 0 = to the end.
	Limit int64
}

// CreateOptions are the options of [FS.Create].
type CreateOptions struct {
	// Exclusive refuses, with fs.ErrExist, a name that is taken, be it by a
	// link that leads nowhere; of several callers at once exactly one succeeds.
	Exclusive bool
	// Mode is the mode of a new file, permission bits only; 0 means 0644. A replaced file keeps its own.
	Mode fs.FileMode
	// IfMatch is the [FileInfo].ETag that the file must have: where it has
	// another by now, or is not there, Close fails with ErrPrecondition and the
	// old content stands; Create may do so at once. So what was read is not
	// overwritten with somebody else's changes in it. Of several callers at
	// once, through this interface, that name one ETag exactly one succeeds. Not together with Exclusive.
	IfMatch string
}

// RemoveOptions are the options of [FS.Remove].
type RemoveOptions struct {
	Recursive bool
	MissingOK bool
}

// RenameOptions are the options of [FS.Rename].
type RenameOptions struct {
	// NoReplace refuses, with fs.ErrExist, a name that is taken; of several callers at once exactly one succeeds.
	NoReplace bool
}

// FileKind is what a directory entry is.
type FileKind uint8

// The kinds.
const (
	KindUnknown FileKind = iota
	KindFile
	KindDir
	KindSymlink
	KindOther // a device, socket or pipe
)

// FileInfo describes a file.
type FileInfo struct {
	Name    string // the last element of the path
	Kind    FileKind
	Size    int64       // bytes; of a file only
	Mode    fs.FileMode // permission bits
	ModTime time.Time
	// ETag changes whenever the content of a file does, and may change without
	// that. Empty where the provider can't tell, and of anything but a file.
	ETag string
}

// IsDir reports whether it is a directory.
func (i FileInfo) IsDir() bool { return i.Kind == KindDir }
