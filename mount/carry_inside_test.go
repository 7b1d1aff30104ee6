package mount_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// insider mounts nothing, and says what was asked of it.
type insider struct {
	before  func(context.Context) error
	targets []string
	runs    []string
	held    int
	fresh   int
}

func (i *insider) MountInside(ctx context.Context, sb sandbox.Sandbox, s mount.Spec, target string) (mount.Inside, error) {
	if i.before != nil {
		if err := i.before(ctx); err != nil {
			return nil, err
		}
	}
	i.targets, i.held = append(i.targets, target), i.held+1
	i.runs = append(i.runs, s.Run)
	return &insiderMount{i, sb}, nil
}

type insiderMount struct {
	by *insider
	sb sandbox.Sandbox
}

func (m *insiderMount) Refresh(context.Context) error { m.by.fresh++; return nil }

func (m *insiderMount) Release(ctx context.Context) error {
	if _, err := m.sb.FS().Stat(ctx, m.sb.Workdir()); err != nil { // it is called while the sandbox can be
		return err
	}
	m.by.held--
	return nil
}

// Where nothing can be bound the folder is mounted inside, at the same path,
// and the agent is told of it as of any other.
func TestCarryInside(t *testing.T) {
	w, in := newWorld(t), &insider{}
	m := w.manager(func(c *mount.Config) { c.Inside = in })
	sb := w.open("machine")
	sb.noBinder = true
	r := request("reviewer")
	r.Run = "the work"
	c, err := m.Carry(t.Context(), sb, r)
	if err != nil || len(c.Outcomes) != 1 || c.Outcomes[0].State != mount.Mounted || !slices.Equal(in.runs, []string{"the work"}) {
		t.Fatalf("got %+v, %v, for %q", c.Outcomes, err, in.runs)
	}
	path := c.Outcomes[0].Path
	if !slices.Equal(in.targets, []string{path}) || in.held != 1 || in.fresh != 1 || !slices.Equal(c.Env, []string{mount.EnvAgentDir + "=" + path}) || c.Guidance == "" {
		t.Errorf("mounted at %q, refreshed %d times, variables %q", in.targets, in.fresh, c.Env)
	}
	w.wantNothingHeld()
	for range 2 {
		if err := c.Release(t.Context()); err != nil || in.held != 0 {
			t.Errorf("released: %v, %d are held", err, in.held)
		}
	}

	bindable := w.open("another machine")
	w.carry(m, bindable, request("reviewer"))
	if len(in.targets) != 1 {
		t.Errorf("where something can be bound it was mounted inside too: %q", in.targets)
	}
}

// A manager may have one way or the other; without the one a machine needs the folder is skipped.
func TestCarryInsideOnly(t *testing.T) {
	w, in := newWorld(t), &insider{}
	m := w.manager(func(c *mount.Config) { c.Mounter, c.Inside = nil, in })
	c, err := m.Carry(t.Context(), w.open("machine"), request("reviewer"))
	if err != nil || c.Outcomes[0].State != mount.Mounted || in.held != 1 {
		t.Fatalf("got %+v, %v", c.Outcomes, err)
	}
	if err := c.Release(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = mount.New(mount.Config{Store: w.store})
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Mounter" {
		t.Errorf("neither: %v", err)
	}
}

// Mounts trap 80: one that was tried and is not there is told like any other,
// an address that can't be reached as what a retry does not change.
func TestCarryInsideDegraded(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		rule  string
		err   error
		state mount.State
	}{
		{"the program does not come up", broken, mount.Failed},
		{"the storage can't be reached from there", &mount.UnreachableError{Endpoint: "http://10.0.0.1", Audience: mount.Public}, mount.Skipped},
	} {
		w, in := newWorld(t), &insider{before: func(context.Context) error { return c.err }}
		m := w.manager(func(conf *mount.Config) { conf.Inside = in })
		sb := w.open("machine")
		sb.noBinder = true
		got, err := m.Carry(t.Context(), sb, request("reviewer"))
		if err != nil || got.Outcomes[0].State != c.state || !errors.Is(got.Outcomes[0].Cause, c.err) || got.Guidance == "" || len(got.Env) > 0 {
			t.Errorf("%s: got %+v, %v", c.rule, got, err)
		}
		m = w.manager(func(conf *mount.Config) { conf.Inside, conf.Policy = in, mount.Required })
		if _, err := m.Carry(t.Context(), sb, request("reviewer")); !errors.As(err, new(*mount.MountError)) {
			t.Errorf("%s, and it is required: %v", c.rule, err)
		}
	}
}

// What hangs inside a sandbox holds nobody longer than its time, and is
// released where it comes after all.
func TestCarryInsideHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, in := newWorld(t), &insider{}
		wait := make(chan struct{})
		in.before = func(context.Context) error { <-wait; return nil }
		m := w.manager(func(c *mount.Config) { c.Inside = in })
		sb := w.open("machine")
		sb.noBinder = true
		begun := time.Now()
		c, err := m.Carry(t.Context(), sb, request("reviewer"))
		if took := time.Since(begun); err != nil || c.Outcomes[0].State != mount.Failed || !errors.Is(c.Outcomes[0].Cause, mount.ErrUnavailable) || took != mount.DefaultInsideTimeout {
			t.Errorf("got %+v, %v after %v", c.Outcomes, err, took)
		}
		close(wait)
		synctest.Wait()
		if in.held != 0 || len(in.targets) != 1 {
			t.Errorf("%d are held of %q", in.held, in.targets)
		}
	})
}
