package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// replicas are processes over one bucket.
func replicas(t testing.TB, s *store, n int) []*Files {
	t.Helper()
	var all []*Files
	for range n {
		f, err := New(Config{Bucket: s.bucket(), Precondition: ifMatch, Namespace: "ns"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func mustLock(t testing.TB, f *Files, o LockOptions) *Lock {
	t.Helper()
	l, err := f.Lock(t.Context(), row(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mortal is a process that hears nothing of its bucket any more once it is cut off.
func mortal(t testing.TB, s *store) (f *Files, cutOff func()) {
	t.Helper()
	f = replicas(t, s, 1)[0]
	var cut atomic.Bool
	f.c.Bucket = blob.NewBucket(&partition{store: s, try: func() error {
		if cut.Load() {
			return errBroke
		}
		return nil
	}})
	return f, func() { cut.Store(true) }
}

func wantLocked(t testing.TB, err error, owner string, after time.Duration) {
	t.Helper()
	if locked, ok := errors.AsType[*LockedError](err); !ok || locked.Owner != owner || locked.RetryAfter > after || locked.RetryAfter <= 0 {
		t.Errorf("got %v, want a LockedError of %q within %v", err, owner, after)
	}
}

// A lock is one's for as long as it is renewed, and the next one's at once when it is given up.
func TestLockIsHeldAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		first := mustLock(t, r[0], LockOptions{Owner: "a"})
		if _, err := s.get("ns/mounts/.bunkroom-locks/project%3ap/0192f0c1-2ab4-7cde-8f01-23456789abcd"); err != nil || first.Epoch() != 1 {
			t.Errorf("epoch %d, its object: %v", first.Epoch(), err)
		}
		for range 30 {
			time.Sleep(time.Minute)
			_, err := r[1].Lock(t.Context(), row(), LockOptions{Owner: "b"})
			wantLocked(t, err, "a", DefaultLockTTL+DefaultLockTTL/10)
		}
		other, err := r[1].Lock(t.Context(), otherRow(), LockOptions{Owner: "b"})
		if err != nil {
			t.Fatalf("another folder: %v", err)
		}
		for range 2 {
			if err := first.Release(t.Context()); err != nil || first.Err() != nil {
				t.Errorf("released: %v, %v", err, first.Err())
			}
		}
		begun := time.Now()
		second := mustLock(t, r[1], LockOptions{Owner: "b"})
		if second.Epoch() != 2 || time.Since(begun) != 0 {
			t.Errorf("epoch %d after %v, want 2 at once", second.Epoch(), time.Since(begun))
		}
		for _, l := range []*Lock{second, other} {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// The lock of a process that died is had once it was seen unchanged for as
// long as it lasts; uploads are ended, and nobody writes before the last
// request of the dead one can't land any more.
func TestLockIsTakenFromTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		died, cutOff := mortal(t, s)
		dead := mustLock(t, died, LockOptions{Owner: "a"})
		cutOff()
		<-dead.Done()
		if !errors.Is(dead.Err(), ErrLockLost) {
			t.Errorf("lost: %v", dead.Err())
		}
		if err := dead.Release(t.Context()); err != nil {
			t.Error(err)
		}

		var aborted mount.Prefix
		begun := time.Now()
		o := LockOptions{Owner: "b", Wait: 10 * time.Minute, AbortUploads: func(_ context.Context, p mount.Prefix) error { aborted = p; return nil }}
		l := mustLock(t, r[1], o)
		if took, least := time.Since(begun), DefaultLockTTL+DefaultLockTTL/10+DefaultMaxRequest; took < least || took > least+DefaultLockTTL {
			t.Errorf("had after %v, want %v", took, least)
		}
		if d := folder(t, r[1]); aborted != d.Prefix() || l.Epoch() != 2 {
			t.Errorf("uploads of %q were ended, epoch %d", aborted, l.Epoch())
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Who tries now and then has it as early as one who waits.
func TestLockAddsUpWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		died, cutOff := mortal(t, s)
		dead := mustLock(t, died, LockOptions{})
		cutOff()
		<-dead.Done()
		tries := 0
		for begun := time.Now(); ; tries++ {
			l, err := r[1].Lock(t.Context(), row(), LockOptions{})
			if err == nil {
				if time.Since(begun) > 2*time.Minute {
					t.Errorf("had after %v", time.Since(begun))
				}
				_ = l.Release(t.Context())
				break
			}
			locked, ok := errors.AsType[*LockedError](err)
			if !ok || tries > 20 {
				t.Fatal(err)
			}
			time.Sleep(min(locked.RetryAfter, 10*time.Second))
		}
		if tries < 6 {
			t.Errorf("it was had after %d tries", tries)
		}
	})
}

// Whose reply was lost still holds what was written.
func TestLockSurvivesLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		var lost atomic.Int64
		if _, err := r[0].Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		r[0].c.Bucket = blob.NewBucket(&partition{store: s, try: func() error { return nil }, reply: func() error {
			if lost.Add(1)%2 == 1 {
				return errBroke
			}
			return nil
		}})
		l := mustLock(t, r[0], LockOptions{Owner: "a"})
		time.Sleep(20 * time.Minute)
		if l.Err() != nil || lost.Load() < 50 {
			t.Errorf("lost: %v, after %d writes", l.Err(), lost.Load())
		}
		_, err := r[1].Lock(t.Context(), row(), LockOptions{})
		wantLocked(t, err, "a", 2*time.Minute)
		if err := l.Release(t.Context()); err != nil {
			if err := l.Release(t.Context()); err != nil { // whose reply was lost, and is given up again
				t.Error(err)
			}
		}
		next := mustLock(t, r[1], LockOptions{Owner: "b"})
		if err := next.Release(t.Context()); err != nil || next.Epoch() != 2 {
			t.Errorf("epoch %d, %v", next.Epoch(), err)
		}
	})
}

// partition is one process' way to a store, which is slow and fails, before
// or after something was done.
type partition struct {
	*store
	try   func() error
	reply func() error // of a write; nil = as try
}

func (p *partition) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	if err := p.try(); err != nil {
		return nil, err
	}
	return p.store.Attributes(ctx, key)
}

func (p *partition) NewTypedWriter(ctx context.Context, key, kind string, o *driver.WriterOptions) (driver.Writer, error) {
	if err := p.try(); err != nil {
		return nil, err
	}
	w, err := p.store.NewTypedWriter(ctx, key, kind, o)
	reply := p.reply
	if reply == nil {
		reply = p.try
	}
	return slowWriter{w, reply}, err
}

type slowWriter struct {
	driver.Writer
	reply func() error
}

func (w slowWriter) Close() error { return errors.Join(w.Writer.Close(), w.reply()) }

// Of many processes that come, wait, die, lose their bucket for a while and
// are paused, never two hold a lock, epochs rise, and in the end somebody has it.
func TestLockIsOnes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lockSchedule(t, seed) })
		})
	}
}

func lockSchedule(t *testing.T, seed uint64) {
	s := newStore()
	var mu sync.Mutex
	var holder, epoch int64 // of who holds it now; 0 = nobody
	take := func(e int64) error {
		mu.Lock()
		defer mu.Unlock()
		if holder != 0 {
			return fmt.Errorf("it is held in epoch %d, and taken in epoch %d", holder, e)
		}
		if e <= epoch {
			return fmt.Errorf("epoch %d after %d", e, epoch)
		}
		holder, epoch = e, e
		return nil
	}
	leave := func() {
		mu.Lock()
		defer mu.Unlock()
		holder = 0
	}
	const workers, rounds = 4, 6
	ends := make(chan error, workers)
	for i := range workers {
		f := replicas(t, s, 1)[0]
		mine, theirs := rand.New(rand.NewPCG(seed, uint64(i))), rand.New(rand.NewPCG(seed, uint64(100+i)))
		var way sync.Mutex
		var broken time.Time
		breakFor := func(d time.Duration) {
			way.Lock()
			defer way.Unlock()
			broken = time.Now().Add(d)
		}
		f.c.Bucket = blob.NewBucket(&partition{store: s, try: func() error {
			way.Lock()
			d, fails := time.Duration(theirs.IntN(3000))*time.Millisecond, theirs.IntN(20) == 0
			way.Unlock()
			time.Sleep(d)
			way.Lock()
			defer way.Unlock()
			if fails || time.Now().Before(broken) {
				return errBroke
			}
			return nil
		}})
		go func() {
			ends <- func() error {
				for range rounds {
					l, err := f.Lock(t.Context(), row(), LockOptions{Owner: fmt.Sprint(i), Wait: time.Duration(mine.IntN(5)) * time.Minute})
					if err != nil {
						if !errors.As(err, new(*LockedError)) && !errors.Is(err, errBroke) && !errors.Is(err, ErrLockLost) {
							return err
						}
						time.Sleep(time.Duration(mine.IntN(60)) * time.Second)
						continue
					}
					if err := take(l.Epoch()); err != nil {
						return err
					}
					work := time.NewTimer(time.Duration(mine.IntN(200)) * time.Second)
					if mine.IntN(3) == 0 {
						breakFor(time.Duration(mine.IntN(180)) * time.Second)
					}
					select {
					case <-work.C:
					case <-l.Done():
					}
					leave()
					if mine.IntN(4) == 0 { // it dies: nothing is given up
						breakFor(2 * time.Minute)
					}
					_ = l.Release(t.Context()) // which fails where the bucket can't be reached
				}
				return nil
			}()
		}()
	}
	for range workers {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	f := replicas(t, s, 1)[0]
	l, err := f.Lock(t.Context(), row(), LockOptions{Wait: 5 * time.Minute})
	if err != nil {
		t.Fatalf("in the end: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// A folder that is purged leaves no lock.
func TestPurgeTakesTheLock(t *testing.T) {
	ctx := t.Context()
	f, err := New(Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, folder(t, f), "a")
	l := mustLock(t, f, LockOptions{})
	if err := l.Release(ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Purge(ctx, mount.Tombstone{ID: row().ID, Scope: row().Scope}); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := f.c.Bucket.List(nil).Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("left is %+v, %v", o, err)
	}
}

func TestLockRefuses(t *testing.T) {
	ctx := t.Context()
	for field, o := range map[string]LockOptions{"TTL": {TTL: -1}, "MaxRequest": {MaxRequest: -1}, "Wait": {Wait: -1}} {
		_, err := replicas(t, newStore(), 1)[0].Lock(ctx, row(), o)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	f, err := New(Config{Bucket: memblob.OpenBucket(nil)}) // which keeps no condition, and others write to it
	if err != nil {
		t.Fatal(err)
	}
	if l, err := f.Lock(ctx, row(), LockOptions{}); !errors.As(err, new(*UnsupportedError)) {
		t.Errorf("without conditions: %v, %v", l, err)
	}
	s := newStore()
	r := replicas(t, s, 1)[0]
	if err := r.c.Bucket.WriteAll(ctx, "ns/mounts/.bunkroom-locks/project%3ap/"+string(row().ID), []byte("{}"), nil); err != nil {
		t.Fatal(err)
	}
	if l, err := r.Lock(ctx, row(), LockOptions{}); !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "version") {
		t.Errorf("over what is no lock: %v, %v", l, err)
	}
}
