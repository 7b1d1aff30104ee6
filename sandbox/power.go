package sandbox

import "context"

// As finds a power that not every sandbox has, such as a [Binder]. A wrapper
// passes on what it wants passed on with a method As(target any) bool of its
// own; a wrapper without one is opaque: what it wraps is not looked through.
func As[T any](sb Sandbox) (T, bool) {
	if t, ok := sb.(T); ok {
		return t, true
	}
	var t T
	if w, ok := sb.(interface{ As(target any) bool }); ok && w.As(&t) {
		return t, true
	}
	return t, false
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
	// ErrInvalid: at is not below [BindRoot], or lies below another bind.
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
