package mount_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// What a session writes in its working directory is there again in another
// machine, and what the machine itself had there is hidden as long.
func TestWorkdirOutlastsTheMachine(t *testing.T) {
	w, l := newWorld(t), newLocks()
	m := w.inProcess(l, nil)
	first := w.open("g1")
	w.write(first, "hidden", "the machine's own")
	d := w.workdir(m, first, "one")
	if _, err := first.FS().Stat(t.Context(), "hidden"); err == nil {
		t.Error("the machine's own file shows through")
	}
	w.write(first, "kept", "the session's")
	if row := d.Outcome.Row; row.Kind != mount.KindSession || row.Session != request("").Session || row.Name != mount.DefaultSessionName {
		t.Errorf("row %+v", row)
	}
	if d.Outcome.Epoch != 1 || !strings.Contains(d.Guidance, "/workspace lasts as long as this session") {
		t.Errorf("epoch %d, guidance %q", d.Outcome.Epoch, d.Guidance)
	}
	w.release(d)
	w.wantFile(first, "hidden", "the machine's own")

	second := w.open("g2")
	d = w.workdir(m, second, "two")
	w.wantFile(second, "kept", "the session's")
	if d.Outcome.Epoch != 2 {
		t.Errorf("epoch %d", d.Outcome.Epoch)
	}
	w.release(d)
	w.wantNothingHeld()
	if l.count() != 0 {
		t.Error("its lock is still held")
	}
}

// Spec §5.7, traps 39 and 47: the working directory comes first, then the
// agent's folder beside it, then the link to that, in the working directory that
// lasts, and the README. At every turn it is the same folder at the same place.
func TestOrderOfAcquisition(t *testing.T) {
	w, l := newWorld(t), newLocks()
	m := w.inProcess(l, nil)
	for turn := range 3 {
		sb := w.open("m")
		d := w.workdir(m, sb, "one")
		c, err := m.Carry(t.Context(), sb, request("reviewer"))
		if err != nil {
			t.Fatal(err)
		}
		at := c.Outcomes[0].Path
		want := []string{"bind /workspace", "list /workspace", "bind " + at, "list " + at, "readlink /workspace/agent-files"}
		if turn == 0 { // later on the link is there, for it is in the folder
			want = append(want, "symlink /workspace/agent-files")
		}
		if got := sb.steps(); !slices.Equal(got, append(want, "create "+at+"/README.md")) {
			t.Errorf("turn %d: the steps were %q", turn, got)
		}
		w.wantLink(sb, "/workspace-agent")
		if err := c.Release(t.Context()); err != nil {
			t.Error(err)
		}
		w.release(d)
	}
	if row, err := w.store.Scan(t.Context(), "", 10); err != nil || len(row) != 2 {
		t.Errorf("rows %+v, %v; want one of the session and one of the agent", row, err)
	}
}

// Mounts trap 13: two works of one session share its folder. The teardown of
// the first leaves the other's, and its lock; a new one that comes while the last is being
// torn down waits for that. And spec §5.13: the lock goes last, once nothing is mounted.
func TestFirstTeardownLeavesTheOthers(t *testing.T) {
	w, l, did := newWorld(t), newLocks(), &diary{}
	l.note = did.note
	m := w.inProcess(l, func(c *mount.Config) { c.Mounter = &keeping{Mounter: w.mounter, note: did.note} })
	one, two := w.open("m"), w.open("m")
	first, second := w.workdir(m, one, "one"), w.workdir(m, two, "two")
	w.write(one, "shared", "x")
	w.release(first)
	w.wantFile(two, "shared", "x")
	w.write(two, "more", "y")
	if l.count() != 1 || first.Outcome.Epoch != second.Outcome.Epoch {
		t.Errorf("%d locks, epochs %d and %d", l.count(), first.Outcome.Epoch, second.Outcome.Epoch)
	}
	third := w.workdir(m, w.open("m"), "three")
	w.release(second)
	w.release(third)
	want := []string{"lock", "mount 2", "mount 2", "unmount", "mount 2", "unmount", "unmount", "unlock"}
	if got := did.read(); !slices.Equal(got, want) {
		t.Errorf("what was done: %q, want %q", got, want)
	}
	w.wantNothingHeld()
}

// One process at a time has a session's folder. The next is refused, and told who has it.
func TestWorkdirIsHeldByOneProcess(t *testing.T) {
	w, l := newWorld(t), newLocks()
	a, b := w.inProcess(l, nil), w.inProcess(l, nil)
	d := w.workdir(a, w.open("m"), "replica-1")

	_, err := b.CarryWorkdir(t.Context(), w.open("n"), request(""))
	used, ok := errors.AsType[*mount.InUseError](err)
	if !ok || used.Holder != "replica-1" || used.Mount != d.Outcome.Row.ID || errors.As(err, new(*mount.MountError)) {
		t.Fatalf("CarryWorkdir by another: %v", err)
	}
	if status, code, sentence := used.Problem(); status != 409 || code != "folder_in_use" || strings.Contains(sentence, "replica") {
		t.Errorf("Problem = %d %q %q", status, code, sentence)
	}
	w.wantLogged("level=WARN", "mount degraded", "kind=session_cwd", "cause=")
	other := request("")
	other.Session = "0192f0c1-2ab4-7cde-8f01-2345678900bb"
	apart, err := b.CarryWorkdir(t.Context(), w.open("o"), other)
	if err != nil {
		t.Fatalf("another session's: %v", err)
	}
	w.release(apart)
	w.release(d)
	w.release(w.workdir(b, w.open("n"), "replica-2"))
	w.wantNothingHeld()
}

// Whether late writes are kept out is what the mount says of itself; one that
// says nothing, as geesefs, keeps none out, and the outcome tells. The driver has the lock to go by.
func TestOutcomeSaysWhetherLateWritesAreKeptOut(t *testing.T) {
	for _, fences := range []bool{true, false} {
		w, l := newWorld(t), newLocks()
		k := &keeping{Mounter: w.mounter, note: func(string) {}, fenced: fences}
		m := w.inProcess(l, func(c *mount.Config) { c.Mounter = k })
		d := w.workdir(m, w.open("m"), "one")
		if d.Outcome.Fenced != fences || k.specs[0].Hold == nil || k.specs[0].Hold.Epoch() != d.Outcome.Epoch {
			t.Errorf("fenced: %v, want %v; spec %+v", d.Outcome.Fenced, fences, k.specs[0])
		}
		w.release(d)
		if c := w.carry(m, w.open("m"), request("reviewer")); c.Outcomes[0].Mode != mount.Shared || k.specs[1].Hold != nil {
			t.Errorf("an agent's folder: %+v with hold %v", c.Outcomes[0], k.specs[1].Hold)
		}
	}
	w, l := newWorld(t), newLocks()
	d := w.workdir(w.inProcess(l, nil), w.open("m"), "one")
	if d.Outcome.Fenced {
		t.Error("a mount that can't tell is said to keep late writes out")
	}
	w.release(d)
}

// Whatever goes wrong, the working directory is not there and nobody works in
// an empty one in its place, also with BestEffort; nothing stays behind (trap 46), the lock least of all.
func TestWorkdirFails(t *testing.T) {
	broken := errors.New("broken")
	at := func(op string) func(*world, *locks, *rigged) {
		return func(_ *world, _ *locks, sb *rigged) {
			sb.before = func(asked, _ string) error {
				if asked == op {
					return broken
				}
				return nil
			}
		}
	}
	for _, c := range []struct {
		rule   string
		spoil  func(*world, *locks, *rigged)
		state  mount.State
		cause  error
		status int
		code   string
	}{
		{"nothing can be bound here", func(_ *world, _ *locks, sb *rigged) { sb.noBinder = true }, mount.Skipped, sandbox.ErrUnsupported, 501, "workdir_unsupported"},
		{"nothing can be bound at the working directory", func(w *world, _ *locks, sb *rigged) {
			plain, err := memory.NewSandboxes(&memory.SandboxOptions{Caps: &sandbox.Caps{}}).Open(w.t.Context(), "m")
			if err != nil {
				w.t.Fatal(err)
			}
			sb.Sandbox = plain
		}, mount.Skipped, sandbox.ErrUnsupported, 501, "workdir_unsupported"},
		{"the row can't be had", func(w *world, _ *locks, _ *rigged) { w.store = failingStore{w.store, broken} }, mount.Failed, broken, 503, "workdir_unavailable"},
		{"the storage can keep nobody out", func(_ *world, l *locks, _ *rigged) {
			l.before = func(context.Context) error { return sandbox.ErrUnsupported }
		}, mount.Skipped, sandbox.ErrUnsupported, 501, "workdir_unsupported"},
		{"the lock can't be asked for", func(_ *world, l *locks, _ *rigged) {
			l.before = func(context.Context) error { return mount.ErrUnavailable }
		}, mount.Failed, mount.ErrUnavailable, 503, "workdir_unavailable"},
		{"the storage is away", func(w *world, _ *locks, _ *rigged) {
			w.mounter.before = func(context.Context) error { return mount.ErrUnavailable }
		}, mount.Failed, mount.ErrUnavailable, 503, "workdir_unavailable"},
		{"the lock is lost on the way", func(w *world, l *locks, _ *rigged) {
			w.mounter.before = func(context.Context) error { l.lose(mount.ErrTakenOver); return nil }
		}, mount.Failed, mount.ErrTakenOver, 503, "workdir_unavailable"},
		{"the bind fails", at("bind"), mount.Failed, broken, 503, "workdir_unavailable"},
		{"what was bound does not list", at("list"), mount.Failed, broken, 503, "workdir_unavailable"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w, l := newWorld(t), newLocks()
			sb := w.open("m")
			c.spoil(w, l, sb)
			d, err := w.inProcess(l, nil).CarryWorkdir(t.Context(), sb, request(""))
			refused, ok := errors.AsType[*mount.MountError](err)
			if !ok || !errors.Is(err, c.cause) || refused.Outcome.State != c.state || d.Outcome.State != 0 || d.Guidance != "" {
				t.Fatalf("CarryWorkdir = %+v, %v", d, err)
			}
			if status, code, sentence := refused.Problem(); status != c.status || code != c.code || strings.Contains(sentence, "broken") {
				t.Errorf("Problem = %d %q %q, want %d %q", status, code, sentence, c.status, c.code)
			}
			w.wantNothingHeld()
			if l.count() != 0 {
				t.Error("its lock is still held")
			}
			w.release(d) // there is nothing to release
		})
	}

	w := newWorld(t)
	if m := w.manager(nil); m.Workdirs() {
		t.Error("without a Locker there are working directories")
	}
	_, err := w.manager(nil).CarryWorkdir(t.Context(), w.open("m"), request(""))
	if refused, ok := errors.AsType[*mount.MountError](err); !ok || refused.Outcome.State != mount.Skipped {
		t.Errorf("without a Locker: %v", err)
	}
	for field, r := range map[string]mount.Request{"session": {Project: "web", Owner: "ana"}, "owner": {Session: "s"}} {
		_, err := w.inProcess(newLocks(), nil).CarryWorkdir(t.Context(), w.open("m"), r)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != field {
			t.Errorf("without a %s: %v", field, err)
		}
	}
	if _, err := mount.New(mount.Config{Store: w.store, Mounter: w.mounter, LockTimeout: -1}); err == nil || !strings.Contains(err.Error(), "LockTimeout") {
		t.Errorf("a negative LockTimeout: %v", err)
	}
}

// A lock that is not answered costs its timeout and no more; one that comes
// too late is given back.
func TestALockThatHangsCostsItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(t), newLocks()
		hung := make(chan struct{})
		l.before = func(context.Context) error { <-hung; return nil }
		began := time.Now()
		_, err := w.inProcess(l, nil).CarryWorkdir(t.Context(), w.open("m"), request(""))
		if took := time.Since(began); took != mount.DefaultLockTimeout || !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("after %v: %v", took, err)
		}
		close(hung)
		synctest.Wait()
		if l.count() != 0 {
			t.Error("a lock that came too late is held")
		}
	})
}
