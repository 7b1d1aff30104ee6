package files

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// Who waits has a lock that is given up meanwhile.
func TestLockWaitsForOneThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := replicas(t, newStore(), 2)
		first := mustLock(t, r[0], LockOptions{Owner: "a"})
		go func() {
			time.Sleep(5 * time.Second)
			_ = first.Release(context.Background())
		}()
		begun := time.Now()
		l, err := r[1].Lock(t.Context(), row(), LockOptions{Owner: "b", Wait: 30 * time.Second})
		if err != nil {
			t.Errorf("after %v: %v", time.Since(begun), err)
			<-first.Done()
			return
		}
		_ = l.Release(t.Context())
	})
}

// A takeover that fails does not spare the next one the wait.
func TestLockFailedTakeoverIsNoRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		died, cutOff := mortal(t, s)
		dead := mustLock(t, died, LockOptions{Owner: "a"})
		cutOff()
		<-dead.Done()
		_, err := r[0].Lock(t.Context(), row(), LockOptions{Owner: "b", Wait: 10 * time.Minute,
			AbortUploads: func(context.Context, mount.Prefix) error { return errBroke }})
		if !errors.Is(err, errBroke) {
			t.Fatal(err)
		}
		aborted, begun := false, time.Now()
		l := mustLock(t, r[1], LockOptions{Owner: "c", Wait: 10 * time.Minute,
			AbortUploads: func(context.Context, mount.Prefix) error { aborted = true; return nil }})
		if took := time.Since(begun); !aborted || took < DefaultMaxRequest {
			t.Errorf("had after %v, uploads ended: %v", took, aborted)
		}
		_ = l.Release(t.Context())
	})
}

// Whose client sent the write once more, because the reply was lost, holds the lock.
func TestLockOfAWriteThatWasSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := replicas(t, s, 1)[0]
		if _, err := f.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.c.Bucket = blob.NewBucket(&partition{store: s, try: func() error { return nil }, reply: func() error { return errUnmet }})
		l, err := f.Lock(t.Context(), row(), LockOptions{Owner: "a"})
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Release(t.Context())
	})
}
