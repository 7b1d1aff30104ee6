package sandbox

import (
	"context"
	"fmt"
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
	// Open opens a file for reading. ErrIsDir for a directory. The caller closes it.
	Open(ctx context.Context, path string) (io.ReadCloser, error)
	// Create writes a file that appears under its name all at once: Close
	// puts it there, replacing a file (never a directory: ErrIsDir) and
	// keeping its mode; Abort drops it. Until then, and if the process dies,
	// the old content stands. Missing parents are made. A link at the end of
	// the path is followed, as far as that stays inside. A nil opts is all defaults.
	Create(ctx context.Context, path string, opts *CreateOptions) (Writer, error)
	// Stat describes what path leads to, following links.
	Stat(ctx context.Context, path string) (FileInfo, error)
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
	// where the two lie in different binds. Its errors carry from.
	Rename(ctx context.Context, from, to string) error
}

// Writer receives the content of a file. Exactly one of Close and Abort
// decides; a second call of either does nothing and returns nil.
type Writer interface {
	io.Writer
	// Close puts the file under its name. After an error the old content stands.
	Close() error
	// Abort drops what was written.
	Abort() error
}

// CreateOptions are the options of [FS.Create].
type CreateOptions struct {
	// Exclusive refuses, with fs.ErrExist, a name that is taken, be it by a
	// link that leads nowhere; of several callers at once exactly one succeeds.
	Exclusive bool
	// Mode is the mode of a new file; 0 means 0644. A replaced file keeps its own.
	Mode fs.FileMode
}

// RemoveOptions are the options of [FS.Remove].
type RemoveOptions struct {
	Recursive bool
	MissingOK bool
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
}

// IsDir reports whether it is a directory.
func (i FileInfo) IsDir() bool { return i.Kind == KindDir }

// Cmd says what to start.
type Cmd struct {
	// Argv is the program and its arguments, never read by a shell. For a
	// shell ask for one: {"sh", "-c", script}. Required.
	Argv []string
	// Dir is where it starts; empty is the working directory, a relative path starts there.
	Dir string
	// Env are variables, "NAME=value", beside those the sandbox gives every
	// process. A later one wins. The host's own environment is never passed on.
	Env []string
	// Stdin is read until it ends; nil is an empty input, already ended.
	Stdin io.Reader
	// Timeout stops the process after this long; 0 = no limit of its own.
	Timeout time.Duration
	// KillGrace is how long a process that is being stopped has between the
	// request to end and the kill; 0 means [DefaultKillGrace].
	KillGrace time.Duration
	// OutputLimit is how many bytes of output are kept for replay; older ones
	// are dropped and reported as a gap. 0 means [DefaultOutputLimit]. A
	// process is never held up by output that nobody reads.
	OutputLimit int64
	// Detached: the process outlives ctx and this handle, at most until the
	// machine is destroyed. Where a provider can't, ErrUnsupported.
	Detached bool
	// Tag names whom the process, with all that it starts, belongs to, for a
	// [Reaper]; empty is nobody. Letters, digits, '-', '_' and '.', at most 64 of them.
	Tag string
}

// CheckTag refuses, with ErrInvalid, what can't be a [Cmd].Tag. No tag can.
func CheckTag(tag string) error {
	ok := len(tag) <= 64
	for _, c := range []byte(tag) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return fmt.Errorf("%w: Tag %q must be at most 64 letters, digits, dashes, underscores or dots", ErrInvalid, tag)
	}
	return nil
}

// Defaults of Cmd.
const (
	DefaultKillGrace   = 2 * time.Second
	DefaultOutputLimit = 1 << 20
)

// Process is one started process with all that it has started in turn.
type Process interface {
	// ID identifies the process within its machine.
	ID() string
	// Output replays the output from byte offset from (both streams count as
	// one, in the order they arrived) and then follows it until it ends. What
	// was dropped shows as Chunk.Lost. Chunks are the caller's to keep. Each
	// call has its own position; ctx ends only this reading.
	Output(ctx context.Context, from int64) iter.Seq2[Chunk, error]
	// Wait returns how the process ended, once it has ended and its output is
	// complete. A child that holds the output open delays that by no more
	// than [DrainLimit]. Any number of callers may wait, before and after. An error means that the outcome is not known:
	// ErrLost, or ctx's own error where only the waiting was given up.
	Wait(ctx context.Context) (Exit, error)
	// Signal asks the process and all it has started to end (SignalTerm,
	// SignalInt), or ends them (SignalKill). After its end it does nothing and returns nil.
	Signal(ctx context.Context, s Signal) error
	// Close gives the process up: unless Detached it and all it has started
	// are stopped. It returns once that is done. Closing twice succeeds.
	Close() error
}

// DrainLimit is how long after a process has ended its output may stay open.
const DrainLimit = 2 * time.Second

// Chunk is a piece of output.
type Chunk struct {
	Stream Stream
	Data   []byte
	// Off is the offset of Data's first byte among all output of the process.
	Off int64
	// Lost is how many bytes just before Off were dropped.
	Lost int64
}

// Stream says where output was written.
type Stream uint8

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Signal is what a process can be sent.
type Signal uint8

// The signals.
const (
	SignalTerm Signal = 1
	SignalInt  Signal = 2
	SignalKill Signal = 3
)

// Exit is how a process ended. A failing command is an Exit, not an error.
type Exit struct {
	// Code is the exit code where Reason is Exited; 128 + the signal's number
	// where it was ended by one.
	Code int
	// Reason says why it ended.
	Reason ExitReason
	// Duration is how long it ran.
	Duration time.Duration
	// Stdout and Stderr are how many bytes it wrote, dropped ones included.
	Stdout, Stderr int64
}

// ExitReason says why a process ended.
type ExitReason uint8

// The reasons.
const (
	ExitUnknown  ExitReason = iota
	Exited                  // by itself, with a code
	Signalled               // by a signal that was not ours
	TimedOut                // its Timeout passed
	Cancelled               // ctx, Signal, Process.Close or Sandbox.Close ended it
	SandboxEnded            // the machine was destroyed under it
)

func (r ExitReason) String() string {
	switch r {
	case Exited:
		return "exited"
	case Signalled:
		return "signalled"
	case TimedOut:
		return "timed out"
	case Cancelled:
		return "cancelled"
	case SandboxEnded:
		return "sandbox ended"
	}
	return "unknown"
}
