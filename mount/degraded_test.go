package mount_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// failingStore is a store whose rows can't be had.
type failingStore struct {
	mount.Store
	err error
}

func (s failingStore) GetOrCreate(context.Context, mount.Row) (mount.Row, error) {
	return mount.Row{}, s.err
}

// foreignStore answers rows with an id that is none of ours.
type foreignStore struct{ mount.Store }

func (s foreignStore) GetOrCreate(ctx context.Context, r mount.Row) (mount.Row, error) {
	r, err := s.Store.GetOrCreate(ctx, r)
	r.ID = "../../etc"
	return r, err
}

// Whatever goes wrong on the way: the outcome says what, the variable is not
// set (trap 45), the agent is told (traps 53, 80), nothing stays behind (trap
// 46), and the work goes on; or, where the folder is required, it does not, for
// the same reason.
func TestDegraded(t *testing.T) {
	broken := errors.New("broken")
	at := func(op string, err error) func(*world, *rigged) {
		return func(_ *world, sb *rigged) {
			sb.before = func(asked, _ string) error {
				if asked == op {
					return err
				}
				return nil
			}
		}
	}
	for _, c := range []struct {
		rule   string
		spoil  func(*world, *rigged)
		state  mount.State
		cause  error
		status int
		noPath bool
	}{
		{"the row can't be had", func(w *world, _ *rigged) { w.store = failingStore{w.store, broken} }, mount.Failed, broken, 503, true},
		{"the row is not ours", func(w *world, _ *rigged) { w.store = foreignStore{w.store} }, mount.Failed, nil, 503, true},
		{"nothing can be bound here", func(_ *world, sb *rigged) { sb.noBinder = true }, mount.Skipped, sandbox.ErrUnsupported, 501, false},
		{"the sandbox declines to bind", at("bind", sandbox.ErrUnsupported), mount.Skipped, sandbox.ErrUnsupported, 501, false},
		{"this host has no such mounts", func(w *world, _ *rigged) {
			w.mounter.before = func(context.Context) error { return sandbox.ErrUnsupported }
		}, mount.Skipped, sandbox.ErrUnsupported, 501, false},
		{"the storage is away", func(w *world, _ *rigged) {
			w.mounter.before = func(context.Context) error { return mount.ErrUnavailable }
		}, mount.Failed, mount.ErrUnavailable, 503, false},
		{"the bind fails", at("bind", broken), mount.Failed, broken, 503, false},
		{"what was bound does not list", at("list", broken), mount.Failed, broken, 503, false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWorld(t)
			sb := w.open("m")
			c.spoil(w, sb)

			got, err := w.manager(nil).Carry(t.Context(), sb, request("reviewer"))
			if err != nil || len(got.Outcomes) != 1 {
				t.Fatalf("Carry = %+v, %v; want one outcome and no error", got, err)
			}
			o := got.Outcomes[0]
			if o.State != c.state || o.Cause == nil || !errors.Is(o.Cause, c.cause) && c.cause != nil {
				t.Errorf("outcome %s, %v; want %s, %v", o.State, o.Cause, c.state, c.cause)
			}
			if (o.Path == "") != c.noPath {
				t.Errorf("path %q", o.Path)
			}
			if len(got.Env) != 0 {
				t.Errorf("trap 45: Env = %v", got.Env)
			}
			if !strings.Contains(got.Guidance, "can't be reached") || !strings.Contains(got.Guidance, o.Path) {
				t.Errorf("traps 53, 80: guidance %q", got.Guidance)
			}
			w.wantNothingHeld()
			w.wantLogged("level=WARN", "mount degraded", "kind=agent_mount", "state="+c.state.String(), "cause=")
			for _, step := range sb.steps() {
				if strings.HasPrefix(step, "create") || strings.HasPrefix(step, "symlink") {
					t.Errorf("furnished what is not there: %s", step)
				}
			}
			if err := got.Release(t.Context()); err != nil {
				t.Errorf("Release: %v", err)
			}

			got, err = w.manager(func(c *mount.Config) { c.Policy = mount.Required }).Carry(t.Context(), sb, request("reviewer"))
			var refused *mount.MountError
			if !errors.As(err, &refused) || got.Outcomes != nil || got.Guidance != "" {
				t.Fatalf("required: Carry = %+v, %v; want a MountError", got, err)
			}
			if id := string(refused.Outcome.Row.ID); !strings.Contains(err.Error(), c.state.String()) || !strings.Contains(err.Error(), id) {
				t.Errorf("required: %q does not tell the state and the mount %s", err, id)
			}
			if refused.Outcome.State != c.state || !errors.Is(err, c.cause) && c.cause != nil {
				t.Errorf("required: %v, want %s, %v", err, c.state, c.cause)
			}
			if status, code, sentence := refused.Problem(); status != c.status || code == "" || strings.Contains(sentence, "broken") {
				t.Errorf("required: Problem = %d %q %q, want %d", status, code, sentence, c.status)
			}
			w.wantNothingHeld()
		})
	}
}

// Without a way to bind, the storage is not bothered; nor, before a bind, the sandbox.
func TestNothingIsMountedWhereNothingCanBeBound(t *testing.T) {
	w := newWorld(t)
	sb := w.open("m")
	sb.noBinder = true
	if _, err := w.manager(nil).Carry(t.Context(), sb, request("reviewer")); err != nil {
		t.Fatal(err)
	}
	if n := w.mounter.called(); n != 0 || len(sb.steps()) != 0 {
		t.Errorf("mounted %d times, the sandbox was asked %q", n, sb.steps())
	}
}

// Trap 46: a failed mount left its stub directory, one per run. It is removed,
// never recursively, and only where it is a directory and nobody else's.
func TestStubOfAFailedMount(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		rule  string
		op    string
		kind  sandbox.FileKind
		other bool // another work has the same folder at the same path
		left  int
	}{
		{"a bind that failed left a directory", "bind", sandbox.KindDir, false, 0},
		{"a bind that was undone left a directory", "list /workspace-agent/", sandbox.KindDir, false, 0},
		{"a link may lead to the folder itself", "bind", sandbox.KindSymlink, false, 1},
		{"it is the path of another work too", "bind", sandbox.KindDir, true, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWorld(t)
			m := w.manager(nil)
			if c.other {
				w.carry(m, w.open("m"), request("reviewer"))
			}
			sb := w.open("m")
			sb.stub = c.kind
			sb.before = func(op, p string) error {
				if strings.HasPrefix(op+" "+p, c.op) {
					return broken
				}
				return nil
			}
			got, err := m.Carry(t.Context(), sb, request("reviewer"))
			if err != nil || !errors.Is(got.Outcomes[0].Cause, broken) {
				t.Fatalf("Carry = %+v, %v", got, err)
			}
			if left := sb.left(); len(left) != c.left {
				t.Errorf("left: %v, want %d", left, c.left)
			}
		})
	}
}

// Trap 50: a call without a timeout held everything up. A mounter that hangs
// and does not look at its context costs the timeout and no more, and what it
// brings too late is given back.
func TestAMounterThatHangsCostsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hung := make(chan struct{})
		w.mounter.before = func(context.Context) error { <-hung; return nil }
		sb := w.open("m")
		began := time.Now()
		c, err := w.manager(nil).Carry(t.Context(), sb, request("reviewer"))
		if took := time.Since(began); took != mount.DefaultTimeout {
			t.Errorf("it took %v, want %v", took, mount.DefaultTimeout)
		}
		if err != nil || c.Outcomes[0].State != mount.Failed ||
			!errors.Is(c.Outcomes[0].Cause, mount.ErrUnavailable) || !errors.Is(c.Outcomes[0].Cause, context.DeadlineExceeded) {
			t.Errorf("Carry = %+v, %v", c, err)
		}
		close(hung)
		synctest.Wait()
		if w.mounter.called() != 1 {
			t.Errorf("mounted %d times", w.mounter.called())
		}
		w.wantNothingHeld()
	})
}

// A panic that comes too late has nobody to go to but the log, and does not end the process.
func TestAPanicThatComesTooLateIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hung := make(chan struct{})
		w.mounter.before = func(context.Context) error { <-hung; panic("driver's bug") }
		c, err := w.manager(nil).Carry(t.Context(), w.open("m"), request("reviewer"))
		if err != nil || c.Outcomes[0].State != mount.Failed {
			t.Errorf("Carry = %+v, %v", c, err)
		}
		close(hung)
		synctest.Wait()
		w.wantLogged("level=ERROR", "mounter panicked", "driver's bug")
	})
}

// empty is a mounter that breaks its contract: neither a mount nor an error.
type empty struct{}

func (empty) Mount(context.Context, mount.Spec) (mount.Mount, error) { return nil, nil }

func TestAMounterWithoutAnAnswerHasFailed(t *testing.T) {
	w := newWorld(t)
	m := w.manager(func(c *mount.Config) { c.Mounter = empty{} })
	c, err := m.Carry(t.Context(), w.open("m"), request("reviewer"))
	if err != nil || c.Outcomes[0].State != mount.Failed || c.Outcomes[0].Cause == nil {
		t.Errorf("Carry = %+v, %v; want Failed", c, err)
	}
}

// A caller that gives up in the middle leaves nothing behind: undoing goes on
// under a context of its own.
func TestCancelledOnTheWay(t *testing.T) {
	for _, op := range []string{"bind", "list"} {
		w := newWorld(t)
		sb := w.open("m")
		ctx, cancel := context.WithCancel(t.Context())
		sb.before = func(asked, _ string) error {
			if asked == op {
				cancel()
			}
			return nil
		}
		c, err := w.manager(nil).Carry(ctx, sb, request("reviewer"))
		if err != nil || c.Outcomes[0].State != mount.Failed || !errors.Is(c.Outcomes[0].Cause, context.Canceled) {
			t.Errorf("%s: Carry = %+v, %v; want Failed, canceled", op, c, err)
		}
		w.wantNothingHeld()
	}
}

// A driver that panics is undone all the same, and the panic goes on.
func TestPanicsAreUndoneAndGoOn(t *testing.T) {
	for _, op := range []string{"mount", "bind", "list", "create"} {
		w := newWorld(t)
		sb := w.open("m")
		if op == "mount" {
			w.mounter.before = func(context.Context) error { panic("driver's bug") }
		}
		sb.before = func(asked, _ string) error {
			if asked == op {
				panic("driver's bug")
			}
			return nil
		}
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.HasPrefix(p.(string), "driver's bug") {
					t.Errorf("%s: recovered %v, want the driver's panic", op, p)
				}
			}()
			c, err := w.manager(nil).Carry(t.Context(), sb, request("reviewer"))
			t.Errorf("%s: Carry returned %+v, %v", op, c, err)
		}()
		w.wantNothingHeld()
	}
}

// Where undoing a failed mount fails too, what is left is the caller's to release.
func TestWhatCouldNotBeUndoneStaysHeld(t *testing.T) {
	w := newWorld(t)
	broken, busy := errors.New("broken"), errors.New("busy")
	sb := w.open("m")
	sb.before = func(op, _ string) error {
		if op == "bind" {
			return broken
		}
		return nil
	}
	w.mounter.release = func() error { return busy }
	c, err := w.manager(nil).Carry(t.Context(), sb, request("reviewer"))
	if err != nil || !errors.Is(c.Outcomes[0].Cause, broken) {
		t.Fatalf("Carry = %+v, %v", c, err)
	}
	w.wantLogged("level=ERROR", "mount not undone", "busy")
	if err := c.Release(t.Context()); !errors.Is(err, busy) {
		t.Errorf("Release = %v, want %v", err, busy)
	}
	w.mounter.release = nil
	if err := c.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	w.wantNothingHeld()
}
