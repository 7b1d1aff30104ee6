package mount_test

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
)

// A lock that is lost is told of at once. Nobody joins it, and it is taken
// anew, under a later epoch, only once all that was mounted under it is gone.
func TestLostLock(t *testing.T) {
	w, l := newWorld(t), newLocks()
	m := w.inProcess(l, nil)
	first, second := w.workdir(m, w.open("m"), "one"), w.workdir(m, w.open("m"), "two")
	select {
	case <-first.Lost():
		t.Fatal("lost before it is")
	default:
	}
	if first.Err() != nil {
		t.Errorf("Err before: %v", first.Err())
	}
	l.lose(errors.New("not renewed in time"))
	for _, d := range []mount.Workdir{first, second} {
		<-d.Lost()
		if err := d.Err(); !errors.Is(err, mount.ErrTakenOver) {
			t.Errorf("Err = %v", err)
		}
	}
	for range 2 {
		if _, err := m.CarryWorkdir(t.Context(), w.open("m"), request("")); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("joined a lost one: %v", err)
		}
		w.release(first)
	}
	w.release(second)
	third := w.workdir(m, w.open("m"), "three")
	if third.Outcome.Epoch != 2 {
		t.Errorf("epoch %d", third.Outcome.Epoch)
	}
	w.release(third)
	if third.Err() != nil {
		t.Errorf("released in good order: %v", third.Err())
	}
	if d := (mount.Workdir{}); d.Lost() != nil || d.Err() != nil {
		t.Error("where nothing is held something is lost")
	}
}

// What can't be given up at once keeps its lock, and is tried again behind the caller's back
// until it is: so long nobody else may write.
func TestWhatIsNotUnmountedKeepsItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, did := newWorld(t), newLocks(), &diary{}
		busy := errors.New("busy")
		l.note = did.note
		m, other := w.inProcess(l, nil), w.inProcess(l, nil)
		d := w.workdir(m, w.open("m"), "one")
		var stuck atomic.Bool
		stuck.Store(true)
		w.mounter.release = func() error {
			if stuck.Load() {
				did.note("busy")
				return busy
			}
			return nil
		}
		if err := d.Release(t.Context()); !errors.Is(err, busy) {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := other.CarryWorkdir(t.Context(), w.open("n"), request("")); !errors.As(err, new(*mount.InUseError)) {
			t.Errorf("while it is mounted another has it: %v", err)
		}
		joined := w.workdir(m, w.open("m"), "one") // who is in this process may
		stuck.Store(false)
		time.Sleep(time.Minute)
		if l.count() != 1 {
			t.Errorf("%d locks while one carries it", l.count())
		}
		w.release(joined)
		w.release(w.workdir(other, w.open("n"), "two"))
		all := did.read()
		if slices.Index(all, "unlock") < slices.Index(all, "busy") || all[0] != "lock" || len(all) < 4 {
			t.Errorf("what was done: %q", all)
		}
		w.wantNothingHeld()
	})
}

// Nor is a lock forgotten that could not be released, and what is left of an attempt that failed is given up later.
func TestLockThatIsNotReleasedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(t), newLocks()
		broken := errors.New("broken")
		m := w.inProcess(l, nil)
		d := w.workdir(m, w.open("m"), "one")
		var stuck atomic.Bool
		stuck.Store(true)
		l.release = func() error {
			if stuck.Load() {
				return broken
			}
			return nil
		}
		if err := d.Release(t.Context()); !errors.Is(err, broken) {
			t.Errorf("Release = %v", err)
		}
		stuck.Store(false)
		time.Sleep(time.Minute)
		if l.count() != 0 {
			t.Error("the lock is still held")
		}

		sb := w.open("m")
		sb.before = func(op, _ string) error {
			if op == "bind" {
				return broken
			}
			return nil
		}
		stuck.Store(true)
		if _, err := m.CarryWorkdir(t.Context(), sb, request("")); !errors.Is(err, broken) {
			t.Errorf("CarryWorkdir = %v", err)
		}
		w.wantLogged("level=ERROR", "mount not undone", "give up the lock")
		stuck.Store(false)
		time.Sleep(time.Minute)
		if l.count() != 0 {
			t.Error("the lock of what failed is still held")
		}
		w.wantNothingHeld()
	})
}
