package mount

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/sandbox"
)

// InsideMounter makes durable folders available in a sandbox that nothing can
// be bound into, by something that runs in there. Drivers implement it.
// MountInside may be called concurrently, also for one sandbox.
type InsideMounter interface {
	// MountInside makes the folder of s.Row appear at target, an absolute path
	// as processes in sb see it, for all of them. It lists when MountInside
	// returns. Each call returns a reference of its own; what is at target
	// stays until the last of them is released. Of what another process of the host has left
	// there, be it alive, nothing is kept: a sandbox is one host's at a time.
	//
	// Errors are those of [Mounter], sandbox.ErrUnsupported where this sandbox
	// can't have such mounts, and an [*UnreachableError] where the storage
	// can't be reached from it. After an error nothing is mounted at target,
	// as far as the sandbox still answers.
	MountInside(ctx context.Context, sb sandbox.Sandbox, s Spec, target string) (Inside, error)
}

// Inside is one reference to a folder that is available in a sandbox.
type Inside interface {
	// Release gives this reference up, through the sandbox that it was had
	// for: call it before that is closed. The last one writes out what was
	// written and unmounts. It deletes nothing, and nil is no proof that
	// target is detached. An error leaves the reference held; call it again. Releasing twice succeeds.
	Release(ctx context.Context) error
}

// UnreachableError says that a folder's storage has an address at which a
// sandbox can't reach it. Nothing was started.
type UnreachableError struct {
	Endpoint string
	Audience Audience
	Reach    Reach // Unreachable or ReachUnknown
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("mount: storage at %q is %v from this sandbox: it needs an address for such", e.Endpoint, e.Reach)
}

// Unwrap says that such sandboxes can't have the folder: a retry changes nothing.
func (e *UnreachableError) Unwrap() error { return sandbox.ErrUnsupported }

// Problem does not tell where the storage is.
func (e *UnreachableError) Problem() (status int, code, sentence string) {
	return 501, "storage_unreachable", "The folder's storage can't be reached from this kind of sandbox."
}
