package sandbox

import (
	"context"
	"iter"
	"time"
)

// As finds a power that not every [Sandbox], [Provider] or [Process] has, such as a
// [Binder] or a [Lister]. A wrapper passes on what it wants passed on with a
// method As(target any) bool of its own; a wrapper without one is opaque: what
// it wraps is not looked through.
func As[T any](v any) (T, bool) {
	if t, ok := v.(T); ok {
		return t, true
	}
	var t T
	if w, ok := v.(interface{ As(target any) bool }); ok && w.As(&t) {
		return t, true
	}
	return t, false
}

// PassOn sets power to that of v, and reports whether v has it. It is what a
// wrapper's As does with a target that is not its own to hold back.
func PassOn[T any](v any, power *T) bool {
	t, has := As[T](v)
	*power = t
	return has
}

// PassOnFiles is PassOn for the powers that are about files alone: [Symlinker], [AttrSetter] and
// [Watcher]. What else target may be is not passed on.
func PassOnFiles(v, target any) bool {
	switch t := target.(type) {
	case *Symlinker:
		return PassOn(v, t)
	case *AttrSetter:
		return PassOn(v, t)
	case *Watcher:
		return PassOn(v, t)
	}
	return false
}

// Binder makes a directory of this host appear in the sandbox.
type Binder interface {
	// Bind makes hostDir appear at the absolute path at, for processes that
	// start later and for the FS of this handle; whether other handles see it
	// is Caps.BindsPerProcess. What stood at that path is hidden, not
	// changed. unbind undoes it; the handle's Close does too, and unbind then
	// returns nil or ErrClosed. Neither, nor a Bind that fails, leaves anything
	// at that path, or removes anything below hostDir. Where binds are not per
	// process, the same directory bound at one path through several handles
	// stays until the last of them is gone.
	// Where another directory is bound at that path already, the newest wins
	// if binds are per process; else it is fs.ErrExist.
	//
	// Where the provider's Caps.BindsWorkdir is set, at may be the working
	// directory itself: everything said here holds for it, it still can be neither
	// removed nor moved, and what the machine has there is seen again once
	// nothing is bound there any more. Bind there first, before anything is started
	// or written: what runs already keeps the directory it started in.
	//
	// ErrInvalid: at is not below [BindRoot], nor the working directory where that can be bound at; or it lies below another bind.
	Bind(ctx context.Context, hostDir, at string) (unbind func(context.Context) error, err error)
}

// BindRoot is the directory below which things are bound: the sibling of the
// working directory, never a directory inside it, so that to empty the
// working directory can't empty what is bound. With something bound it can be
// listed, and nothing else be put there; with nothing bound it is outside the sandbox.
func BindRoot(sb Sandbox) string { return sb.Workdir() + "-agent" }

// Symlinker makes and reads symbolic links.
type Symlinker interface {
	// Symlink makes link a symbolic link with the text target, which need not
	// exist or lie inside the sandbox: following it is confined. fs.ErrExist where link is taken.
	Symlink(ctx context.Context, target, link string) error
	// Readlink returns a link's text. fs.ErrNotExist where nothing is there, ErrNotLink where something else is.
	Readlink(ctx context.Context, link string) (string, error)
}

// Lister is a [Provider] that can list its machines, so that those which no
// row knows of can be found.
type Lister interface {
	// List yields every machine that carries deployment as its
	// [LabelDeployment] and that the provider sees, in no order; of a
	// host-bound provider, those on its host. It may leave out what is young
	// and show what is gone: a list is a hint and proves nothing. It never
	// wakes a machine. An empty deployment lists nothing. After an error the sequence ends.
	List(ctx context.Context, deployment string) iter.Seq2[Listed, error]
}

// Listed is one machine of a list.
type Listed struct {
	Ref    Ref // whole, with its incarnation
	Labels map[string]string
	Status Status
	// CreatedAt is when it was made, on the provider's clock; zero where that
	// is not known. A clock that is behind makes a machine look older than it is.
	CreatedAt time.Time
}

// Reaper is a [Provider] that can end processes which another process of the
// host, perhaps a dead one, has started.
type Reaper interface {
	// Reap ends every process in the machine ref.Incarnation that was started
	// with tag as its [Cmd].Tag, through any handle and by any process of the
	// host, with all that it has started in turn, and returns once none of
	// them runs. It never wakes a machine. In one that is not there nothing
	// runs, nor in one that sleeps and has lost its processes by that: the
	// result is nil. Where processes outlast a sleep, nil says that those
	// with the tag will not run again once it wakes. Reaping twice succeeds.
	// An error means that some may still run, or will. ErrInvalid: no tag, or ref names no incarnation. ErrWrongHost: only another host can.
	Reap(ctx context.Context, ref Ref, tag string) error
}

// Measurer is a [Provider] that can tell what a machine's disk holds, without waking it.
type Measurer interface {
	// Measure returns how many bytes the files of a machine take: what is
	// allocated on the file system that holds its working directory, a file with several names once. It
	// changes nothing and wakes nothing, and may take its time: callers bound it by ctx.
	//
	// What is bound into the machine ([Binder]), or mounted in it from elsewhere, is
	// not its own: it does not count, at the working directory neither, and what is in it is not
	// looked at. So a durable folder costs no request to its storage and holds up nothing where that does
	// not answer, and nobody pays for it as for the machine's disk. What is hidden by a bind counts as before.
	//
	// Of a machine whose files can't be looked at without waking it the answer
	// is ErrAsleep. What can't be read is left out. ErrGone: it is not there,
	// or another than m names by its Incarnation. ErrInvalid: m names no incarnation. ErrWrongHost.
	Measure(ctx context.Context, m Ref) (bytes int64, err error)
}
