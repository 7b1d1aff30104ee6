package files

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The locks of a bucket are what package mount wants for working directories:
// the second is told who has it and when it may be had, and a loss is told in that package's words.
func TestLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		died, cutOff := mortal(t, s)
		a, b := died.Locker(LockOptions{}), replicas(t, s, 1)[0].Locker(LockOptions{Owner: "nobody"})
		first, err := a.Lock(t.Context(), row(), "replica-1")
		if err != nil || first.Epoch() != 1 {
			t.Fatalf("Lock: %v", err)
		}
		_, err = b.Lock(t.Context(), row(), "replica-2")
		used, ok := errors.AsType[*mount.InUseError](err)
		if !ok || used.Holder != "replica-1" || used.Mount != row().ID || used.RetryAfter <= 0 || used.RetryAfter > 2*DefaultLockTTL {
			t.Fatalf("while another has it: %v", err)
		}
		wantLocked(t, err, "replica-1", 2*DefaultLockTTL)

		cutOff()
		<-first.Done()
		if !errors.Is(first.Err(), mount.ErrTakenOver) || !errors.Is(first.Err(), ErrLockLost) {
			t.Errorf("lost: %v", first.Err())
		}
		time.Sleep(used.RetryAfter)
		second, err := b.Lock(t.Context(), row(), "replica-2")
		if err != nil || second.Epoch() != 2 {
			t.Fatalf("once its holder is gone: %v", err)
		}
		if err := second.Release(t.Context()); err != nil || second.Err() != nil {
			t.Errorf("released: %v, %v", err, second.Err())
		}
	})
}

// A bucket that can't keep the conditions, and is written to by others too, is
// refused by name, as what no retry changes.
func TestLockerNeedsConditions(t *testing.T) {
	f, err := New(Config{Bucket: memblob.OpenBucket(nil)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Locker(LockOptions{}).Lock(t.Context(), row(), "a")
	refused, ok := errors.AsType[*UnsupportedError](err)
	if !ok || refused.What != "IfMatch" || !errors.Is(err, sandbox.ErrUnsupported) {
		t.Errorf("Lock = %v", err)
	}
}
