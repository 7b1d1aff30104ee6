package mount

import "context"

// Spec says what is to be made available, and where.
type Spec struct {
	// Row is the mount, as the store returned it. Its ID and Scope alone say
	// where the files are kept, never its slug, name or agent: to rename moves nothing.
	Row Row
	// Run is the work that the folder is for, and goes into the log of the
	// storage. Empty = none in particular. References to one folder share what
	// serves it, and so the run of the first.
	Run string
	// Hold is the right to write to an Exclusive folder. A driver that can
	// sends nothing to the storage once it is Done, and says so as a [Fencer]. It is the
	// caller's to release, after the mount. nil: the folder is Shared.
	Hold Hold
}

// Mounter makes durable folders available on this host as directories.
// Drivers implement it. Methods may be called concurrently, also for one row.
type Mounter interface {
	// Mount makes the folder of s.Row available, an empty one the first time.
	// Each call returns a reference of its own; the directory stays until the
	// last of them is released. The directory lists when Mount returns, and
	// holds what was there before: a dead mount is an error, not an empty folder.
	//
	// A [*access.FieldError] names a bad field of s.Row: "Row.ID" where it is
	// not a canonical UUID, "Row.Scope" where that is empty. ErrUnavailable:
	// the storage can't be reached or used; retry later.
	// sandbox.ErrUnsupported: this host can't have such mounts at all. Where
	// ctx has ended, its error. After an error nothing is left behind, but that the folder may exist.
	Mount(ctx context.Context, s Spec) (Mount, error)
}

// Mount is one reference to a folder that is available on this host.
//
// What more it can do is for optional one-method interfaces: [Reporter], [Refresher], [Fencer].
type Mount interface {
	// HostDir is the absolute path of the directory. It is constant, and the
	// directory is usable until Release is called.
	HostDir() string
	// Release gives this reference up. It deletes nothing, and nil is no proof
	// that HostDir is detached from its storage: never remove anything
	// recursively there. An error leaves the reference held; call it again.
	// Releasing twice succeeds.
	Release(ctx context.Context) error
}
