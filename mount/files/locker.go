package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Locker returns the locks of mounts' folders as package mount wants them for
// the working directories of sessions: [mount.Config].Locker. They are taken as
// [Files.Lock] does, with these options, but for the owner, who is the
// holder's to name. A bucket that can't keep the conditions is refused by name: the
// [*UnsupportedError] matches sandbox.ErrUnsupported then.
func (f *Files) Locker(o LockOptions) mount.Locker { return locker{f, o} }

type locker struct {
	files *Files
	o     LockOptions
}

func (l locker) Lock(ctx context.Context, row mount.Row, owner string) (mount.Hold, error) {
	o := l.o
	o.Owner = owner
	lock, err := l.files.Lock(ctx, row, o)
	if err == nil {
		return hold{lock}, nil
	}
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return nil, fmt.Errorf("%w: %w", &mount.InUseError{Mount: row.ID, Holder: locked.Owner, RetryAfter: locked.RetryAfter}, err)
	}
	if errors.As(err, new(*UnsupportedError)) {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnsupported, err)
	}
	return nil, err
}

// hold is a lock whose loss is told in the words of package mount.
type hold struct{ *Lock }

func (h hold) Err() error {
	if err := h.Lock.Err(); err != nil {
		return fmt.Errorf("%w: %w", mount.ErrTakenOver, err)
	}
	return nil
}
