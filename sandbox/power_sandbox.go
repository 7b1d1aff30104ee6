package sandbox

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"time"
)

// AttrSetter changes what a [Sandbox] knows of a file beside its content.
type AttrSetter interface {
	// Chmod sets the permission bits of what path leads to; other bits of mode are ErrInvalid.
	Chmod(ctx context.Context, path string, mode fs.FileMode) error
	// Chtimes sets when what path leads to was changed, as exactly as the file system keeps it.
	Chtimes(ctx context.Context, path string, modTime time.Time) error
}

// Watcher is a [Sandbox] that tells what changes in a directory.
type Watcher interface {
	// Watch tells of what changes in the directory path from the moment it
	// returns, whoever changes it; with opts.Recursive in all below it too,
	// be that made later. Links on the way to the directory are followed as Watch begins; those in it are told of and
	// not followed. Paths begin with the directory's as it was asked for, made absolute. Of the directory itself nothing is told. A nil opts is all defaults.
	//
	// Changes may be told more than once, and several as one. None is left out but where ChangeOverflow
	// tells that some were, by a reader that was too slow: it has to look for itself then, and misses nothing if it does.
	// What is made in a new directory is told, be it older than the watch on it. A file that is
	// written with [FS.Create] is told once it is there, as created, modified or renamed. Of a directory that is moved within what is
	// watched it is told, not of what is in it; of one that comes from elsewhere what is in it is told as created.
	//
	// The sequence is read once, by one reader. It ends with ctx, without an error, and so is given up
	// all that is held for it. Else it ends with an error: after the last change, fs.ErrNotExist once the directory is not there
	// any more under the path it had; at once ErrClosed after the handle's Close, and
	// ErrGone or ErrStale once the machine is destroyed. Whoever breaks off reading gives it up too.
	//
	// ErrNotDir: path is no directory. ErrTooManyWatches: the host can't watch as many directories; the sequence
	// ends with it where too many are made later. ErrUnsupported where this provider can't watch there, as may be so of what is bound.
	Watch(ctx context.Context, path string, opts *WatchOptions) (iter.Seq2[Change, error], error)
}

// WatchOptions are the options of [Watcher.Watch].
type WatchOptions struct {
	Recursive bool
	// Buffer is how many changes wait for the reader before ChangeOverflow takes their place; 0 means [DefaultWatchBuffer].
	Buffer int
}

// DefaultWatchBuffer is the default of WatchOptions.Buffer.
const DefaultWatchBuffer = 1024

// Change is something that has changed in a directory that is watched.
type Change struct {
	Kind ChangeKind
	// Path is absolute. Of ChangeOverflow it is empty.
	Path string
	// From is where it was, of ChangeRenamed where that is known and was watched too; else empty.
	From string
}

// ChangeKind says what has changed.
type ChangeKind uint8

// The kinds.
const (
	ChangeUnknown  ChangeKind = iota
	ChangeCreated             // it is there, and was not
	ChangeModified            // its content, mode or times are others
	ChangeRemoved             // it is not there any more, under this name
	ChangeRenamed             // it is there, and was elsewhere; where From is set that is gone
	ChangeOverflow            // some changes were not told
)

func (k ChangeKind) String() string {
	switch k {
	case ChangeCreated:
		return "created"
	case ChangeModified:
		return "modified"
	case ChangeRemoved:
		return "removed"
	case ChangeRenamed:
		return "renamed"
	case ChangeOverflow:
		return "overflow"
	}
	return "unknown"
}

// ProcessLister is a [Sandbox] that finds the processes of its machine again,
// whichever handle started them.
type ProcessLister interface {
	// Processes yields the processes that were started in the machine, in no order: those that run, and for a
	// while those that have ended. What they have started in turn is not listed.
	Processes(ctx context.Context) iter.Seq2[ProcessInfo, error]
	// Process returns the process with this ID as if this handle had started it Detached: its output is replayed
	// from wherever it is asked for, and Close gives it up without ending it. Of one that has a terminal it is a
	// [Terminal]. What can't be had any more, as when another process of the host has started it, which
	// may be dead, is ErrLost: its output, its outcome, or both; a terminal is then no Terminal. ErrNoProcess.
	Process(ctx context.Context, id string) (Process, error)
}

// ProcessInfo describes a process.
type ProcessInfo struct {
	ID        string
	Argv      []string // as it was started; nil where that is not known
	Tag       string
	StartedAt time.Time // on the clock of the sandbox's host
	Detached  bool
	Terminal  bool // it has a terminal
	Running   bool
	Exit      Exit // of one that does not run
}

// TerminalStarter is a [Sandbox] that starts programs on a terminal.
type TerminalStarter interface {
	// StartTerminal is [Sandbox.Start] on a terminal of that size, which the
	// program has before it starts and is controlled by: an interrupt that is typed ends what runs in its foreground.
	// Everything it prints is Stdout. A size of nothing is ErrInvalid, and so is c.Stdin: input is written
	// to the Terminal. c.OutputLimit 0 means [DefaultScrollback]. To stop it, it is told as well that nobody is there any more.
	StartTerminal(ctx context.Context, c Cmd, size TerminalSize) (Terminal, error)
}

// Terminal is a process on a terminal. Whoever looks at it reads Output, from
// the beginning or from where it left off, as often and as many at once as like: that one goes away ends nothing.
type Terminal interface {
	Process
	// Write types. Of several at once each is typed whole. After the process has ended it is ErrClosed.
	io.Writer
	// Resize gives the terminal another size, and the program is told. The last one to be set holds, be it
	// larger or smaller than another's: with several who look, whoever types or resizes last should set its own.
	// After the process has ended it does nothing and returns nil. ErrInvalid: a size of nothing.
	Resize(ctx context.Context, size TerminalSize) error
}

// TerminalSize is how large a terminal is, in characters: at least one by one.
type TerminalSize struct{ Columns, Rows uint16 }

// DefaultScrollback is how much of what was printed on a terminal is kept for replay, in bytes.
const DefaultScrollback = 1 << 20
