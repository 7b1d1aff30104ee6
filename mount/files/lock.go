package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// The times of a lock where LockOptions name no others.
const (
	DefaultLockTTL    = time.Minute
	DefaultMaxRequest = 30 * time.Second
)

// ErrLockLost says that a lock could not be renewed in time, or is another's now.
var ErrLockLost = access.NewSentinel("files: lock lost", 409, "folder_taken_over", "Somebody else works in this folder now.")

// LockedError says that a folder is locked by another.
type LockedError struct {
	Owner      string        // as it called itself
	RetryAfter time.Duration // when it can be taken at the earliest, if its owner is gone
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("files: the folder is locked by %q; retry within %v", e.Owner, e.RetryAfter)
}

// Problem says that somebody else is there.
func (e *LockedError) Problem() (status int, code, sentence string) {
	return 409, "folder_in_use", "Somebody else is working in this folder."
}

// LockOptions are the options of Lock. Whoever locks one folder must use the same times.
type LockOptions struct {
	// Owner names who locks it, for others to see.
	Owner string
	// TTL is how long a lock is held without being renewed, which it is three
	// times as often. 0 = DefaultLockTTL.
	TTL time.Duration
	// MaxRequest is how long a request to the bucket may be under way at most.
	// Whoever holds the lock bounds each that it makes by it. 0 = DefaultMaxRequest.
	MaxRequest time.Duration
	// AbortUploads ends what the dead owner of a lock has begun to upload in
	// parts. nil: the bucket has no such uploads, or they need not be ended.
	AbortUploads func(context.Context, mount.Prefix) error
	// Wait is how long to wait for a lock that another holds. 0 = not at all.
	Wait time.Duration
}

// margin is what clocks may run apart in the life of a lock.
func (o LockOptions) margin() time.Duration { return o.TTL / 10 }

// Lock is the right to be the only one that writes to a folder, among those
// who ask for it: a writer that does not is not kept out. It is an object in
// the bucket, outside of every folder, that is renewed for as long as the lock
// is held. It is measured by nobody's clock: whoever wants it must have seen
// the object unchanged for as long as it lasts.
//
// Its holder sends nothing once Done is closed, and lets no request take
// longer than LockOptions.MaxRequest. Then nothing of it lands after the next
// one has begun, if the storage ends or drops a request within that time.
type Lock struct {
	d     *Folder // of locks
	path  string
	o     LockOptions
	nonce string
	over  bool // what is left of its last owner may be under way still

	mu     sync.Mutex
	rec    record
	etag   string
	asked  time.Time   // when rec was to be written
	expiry *time.Timer // ends the lock, unless it is renewed
	err    error

	ended     chan struct{} // closed when nothing is renewed any more
	done      chan struct{}
	once      sync.Once
	releasing chan struct{} // holds a value while somebody releases it
}

// Lock locks a mount's folder. It needs a bucket that keeps conditions, or a
// sole writer ([*UnsupportedError] names what it can't do). Where somebody
// else holds the lock it waits for LockOptions.Wait, and then is a
// [*LockedError]. Calls of one process add up what they have seen: a dead
// owner's lock is had once it was seen unchanged for long enough, be it by
// several calls.
func (f *Files) Lock(ctx context.Context, row mount.Row, o LockOptions) (*Lock, error) {
	folder, err := f.folder(row)
	if err != nil {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	caps, err := f.Probe(ctx)
	switch {
	case err != nil:
		return nil, err
	case caps.IfAbsent == Refused:
		return nil, &UnsupportedError{What: "IfAbsent"}
	case caps.IfMatch == Refused:
		return nil, &UnsupportedError{What: "IfMatch"}
	}
	locks, path, err := f.lockOf(folder.prefix)
	if err != nil {
		return nil, err
	}
	l := &Lock{d: locks, path: path, o: o, nonce: f.c.NewID(),
		ended: make(chan struct{}), done: make(chan struct{}), releasing: make(chan struct{}, 1)}
	if l.over, err = l.acquire(ctx); err != nil {
		return nil, err
	}
	go l.keep()
	defer func() {
		if l.over { // it has failed; or AbortUploads, the host's own, has panicked
			l.end(ErrLockLost)
		}
	}()
	if l.over {
		if err := l.takeOver(ctx, folder.prefix); err != nil {
			return nil, errors.Join(err, l.Release(context.WithoutCancel(ctx)))
		}
		l.over = false
	}
	return l, nil
}

func (o *LockOptions) complete() error {
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"TTL", o.TTL}, {"MaxRequest", o.MaxRequest}, {"Wait", o.Wait}} {
		if t.d < 0 {
			return &access.FieldError{Field: t.name, Rule: "must not be negative"}
		}
	}
	orDefault(&o.TTL, DefaultLockTTL)
	orDefault(&o.MaxRequest, DefaultMaxRequest)
	return nil
}

// lockOf is where the lock of the folder with that prefix is: no scope's segment begins with a dot.
func (f *Files) lockOf(p mount.Prefix) (locks *Folder, path string, err error) {
	root, err := mount.PrefixRoot(f.c.Namespace)
	if err != nil {
		return nil, "", err
	}
	return &Folder{f: f, prefix: root + internalPrefix + "locks/"}, strings.TrimSuffix(string(p[len(root):]), "/"), nil
}

// Epoch counts who has held the lock: that of a later holder is greater.
func (l *Lock) Epoch() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rec.Epoch
}

// Done is closed when the lock is lost or released.
func (l *Lock) Done() <-chan struct{} { return l.done }

// Err says why the lock was lost: ErrLockLost. It is nil before Done is closed, and once it was released.
func (l *Lock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Release gives the lock up, so that the next one has it at once. By then the
// holder has ended what it was writing. Where it fails, or the lock is lost,
// others must wait for its time; where ctx ends first it is to be called again. Releasing twice succeeds.
func (l *Lock) Release(ctx context.Context) error {
	l.end(nil)
	select {
	case l.releasing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("files: release lock: %w", context.Cause(ctx))
	}
	defer func() { <-l.releasing }()
	select { // a renewal that is under way is given up, and has ended once its bucket says so
	case <-l.ended:
	case <-ctx.Done():
		return fmt.Errorf("files: release lock: %w", context.Cause(ctx))
	}
	l.expiry.Stop()
	if l.Err() != nil || l.rec.Released {
		return nil
	}
	next := l.rec.next()
	next.Released, next.Over = true, l.over
	etag, err := l.write(ctx, next, l.etag)
	if conflict := (*ConflictError)(nil); errors.As(err, &conflict) { // it is another's, or a reply was lost
		var now record
		if now, etag, err = l.read(ctx); err == nil && now.Nonce == l.nonce && !now.Released {
			next.Counter = now.Counter + 1
			etag, err = l.write(ctx, next, etag)
		}
		if errors.As(err, &conflict) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("files: release lock: %w", err)
	}
	l.rec, l.etag = next, etag
	return nil
}

// end ends the renewing, and the lock.
func (l *Lock) end(why error) {
	l.once.Do(func() {
		l.mu.Lock()
		l.err = why
		l.mu.Unlock()
		close(l.done)
	})
}

// keep renews the lock until it is released or lost.
func (l *Lock) keep() {
	defer close(l.ended)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { <-l.done; cancel() }()
	for {
		timer := time.NewTimer(max(time.Until(l.asked.Add(l.o.TTL/3)), l.o.TTL/12))
		select {
		case <-l.done:
			timer.Stop()
			return
		case <-timer.C:
		}
		if err := l.renew(ctx); errors.Is(err, ErrLockLost) {
			l.end(err)
		} // after any other it is tried again, until the lock is over
	}
}
