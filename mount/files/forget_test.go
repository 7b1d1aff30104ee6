package files

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// A process that writes to ever more folders does not remember all of them: of
// one that nobody writes to the count is forgotten once it is too old to go by.
func TestCountsAreForgotten(t *testing.T) {
	ctx, now := t.Context(), time.Unix(1_700_000_000, 0)
	f, err := New(Config{
		Bucket: memblob.OpenBucket(nil), SoleWriter: true, CountEvery: time.Minute,
		Quota: func(mount.Row) Quota { return Quota{Bytes: 100} }, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	slow, reading, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() { // who writes all the time is not forgotten
		_, err := folder(t, f).Write(ctx, "slow", &gate{n: 60, wait: slow, reading: reading}, &WriteOptions{Size: 60})
		done <- err
	}()
	<-reading
	most := 0
	for range 300 {
		d, err := f.Folder(mount.Row{ID: mount.ID(id.New()), Scope: "project:p"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write(ctx, "a", unsized(10), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Write(ctx, "b", unsized(101), nil); err == nil {
			t.Fatal("more was written than there may be")
		}
		if _, err := d.Delete(ctx, "a", nil); err != nil {
			t.Fatal(err)
		}
		now = now.Add(10 * time.Second)
		most = max(most, len(f.accounts.all))
	}
	if most > 15 {
		t.Errorf("%d counts were remembered, though each is good for a minute, in which 6 folders were written to", most)
	}
	_, err = folder(t, f).Write(ctx, "beside it", unsized(41), &WriteOptions{Size: 41})
	wantFull(t, "beside what is being written for so long", err, "bytes")
	close(slow)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Nor all the locks that it has once waited for: one that is had is looked at
// no more, and of others what was seen is forgotten in a day.
func TestSightsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		r := replicas(t, s, 2)
		var held []*Lock
		for n := range 50 {
			row := mount.Row{ID: mount.ID(id.New()), Scope: "project:p"}
			l, err := r[0].Lock(t.Context(), row, LockOptions{Owner: "a"})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			_, err = r[1].Lock(t.Context(), row, LockOptions{Owner: "b"})
			wantLocked(t, err, "a", DefaultLockTTL+DefaultLockTTL/10)
			if n%2 == 0 {
				continue
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			mine, err := r[1].Lock(t.Context(), row, LockOptions{Owner: "b"})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, mine)
		}
		if a, b := len(r[0].sights.all), len(r[1].sights.all); a != 0 || b != 25 {
			t.Errorf("who has them remembers %d, who waits %d; want 0 and 25", a, b)
		}
		for _, l := range held {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		held = nil
		time.Sleep(forgetSight)
		held = append(held, mustLock(t, r[0], LockOptions{Owner: "a"}))
		_, err := r[1].Lock(t.Context(), row(), LockOptions{Owner: "b"})
		wantLocked(t, err, "a", DefaultLockTTL+DefaultLockTTL/10)
		if n := len(r[1].sights.all); n != 1 {
			t.Errorf("%d are remembered after a day, want the latest", n)
		}
		for _, l := range held {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A renewal whose bucket does not answer keeps nobody who gives the lock up,
// be it a bucket that looks at no context: then Release ends with its own, and
// is called again.
func TestReleaseDoesNotWaitForARenewal(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprint("deaf ", deaf), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				f := replicas(t, s, 1)[0]
				if _, err := f.Probe(t.Context()); err != nil {
					t.Fatal(err)
				}
				hangs := make(chan struct{})
				var silent atomic.Bool
				f.c.Bucket = blob.NewBucket(&mute{store: s, deaf: deaf, hangs: hangs, now: silent.Load})
				const ttl = time.Hour
				l := mustLock(t, f, LockOptions{TTL: ttl})
				silent.Store(true)
				time.Sleep(ttl/3 + time.Second) // it is being renewed
				synctest.Wait()
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := l.Release(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > time.Second {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
				select {
				case <-l.Done():
				default:
					t.Error("it goes on")
				}
				silent.Store(false)
				close(hangs)
				if err := l.Release(t.Context()); err != nil || l.Err() != nil {
					t.Errorf("released again: %v, %v", err, l.Err())
				}
				next := mustLock(t, replicas(t, s, 1)[0], LockOptions{TTL: ttl})
				if err := next.Release(t.Context()); err != nil || next.Epoch() != 2 {
					t.Errorf("the next: epoch %d, %v", next.Epoch(), err)
				}
			})
		})
	}
}
