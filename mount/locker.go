package mount

import (
	"context"
	"fmt"
	"time"
)

// Mode says who may write to a folder at the same time.
type Mode uint8

// The modes.
const (
	Shared    Mode = iota // everybody who has it: of two writes to one file the last one stays
	Exclusive             // one sandbox at a time: that of whoever holds its lock
)

func (m Mode) String() string {
	if m == Exclusive {
		return "exclusive"
	}
	return "shared"
}

// Locker lets one holder at a time into a folder, among those who ask for it:
// a writer that does not ask is not kept out. Drivers implement it, and
// package mount/files does for buckets. Lock may be called concurrently.
type Locker interface {
	// Lock takes the right to write to the folder of row. Owner names who has
	// it, for others to see. It is held, and renewed where it has to be, until
	// it is released or lost, whether or not ctx ends. Where its last holder is gone
	// without having released it, Lock returns only once nothing of that one
	// can land any more, as far as the storage lets anybody know.
	//
	// [*InUseError]: somebody else holds it, be it in this process.
	// ErrUnavailable: the storage can't be reached. sandbox.ErrUnsupported, in
	// whatever it is wrapped: this storage can keep nobody out. Where ctx has
	// ended, its error. After an error nothing is held.
	Lock(ctx context.Context, row Row, owner string) (Hold, error)
}

// Hold is the right to be the only one that writes to a folder. Methods may be called concurrently.
type Hold interface {
	// Epoch counts who has held the folder: that of a later holder is greater.
	Epoch() int64
	// Done is closed when it is lost or released. Nothing may be sent to the
	// storage from then on; it is early enough for what is under way to end before anybody else begins.
	Done() <-chan struct{}
	// Err says why it was lost, and matches ErrTakenOver. It is nil before
	// Done is closed, and where it was released.
	Err() error
	// Release gives it up, so that the next one has it at once. By then
	// nothing of its holder writes any more. An error means that others must
	// wait for its time to pass; it may be called again. Releasing twice, or what was lost, succeeds.
	Release(ctx context.Context) error
}

// Fencer is a [Mount], or a [Serving], of which it is known whether it keeps to [Spec].Hold.
type Fencer interface {
	// Fenced reports whether nothing that is written through it can land once
	// the hold is another's. What does not say so may have writes under way
	// that land late, such as a program of its own that knows nothing of the lock.
	Fenced() bool
}

// fenced reports whether late writes are kept out. What can't tell does not keep them out.
func fenced(v any) bool {
	f, ok := v.(Fencer)
	return ok && f.Fenced()
}

// InUseError says that somebody else holds a folder that one at a time may write to.
type InUseError struct {
	Mount      ID
	Holder     string        // as it called itself
	RetryAfter time.Duration // when it can be had at the earliest, if its holder is gone; 0 = not known
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("mount: %s is held by %q", e.Mount, e.Holder)
}

// Problem does not tell who.
func (e *InUseError) Problem() (status int, code, sentence string) {
	return 409, "folder_in_use", "Somebody else is working in this folder."
}
