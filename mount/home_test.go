package mount_test

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// files are the files and links below dir, with their content or text.
func (w *world) files(sb sandbox.Sandbox, dir string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for e, err := range sb.FS().ReadDir(w.t.Context(), dir) {
		if err != nil {
			w.t.Fatal(err)
		}
		at := path.Join(dir, e.Name)
		switch e.Kind {
		case sandbox.KindDir:
			for name, text := range w.files(sb, at) {
				all[e.Name+"/"+name] = text
			}
		case sandbox.KindSymlink:
			text, err := links.Readlink(w.t.Context(), at)
			if err != nil {
				w.t.Error(err)
			}
			all[e.Name] = "-> " + text
		default:
			text, err := sandbox.ReadFile(w.t.Context(), sb.FS(), at)
			if err != nil {
				w.t.Error(err)
			}
			all[e.Name] = string(text)
		}
	}
	delete(all, "README.md")
	return all
}

// Trap 42: an agent removed the link and wrote a directory in its place; each
// run failed to repair that, and the files stayed in the session. They move
// into the agent's folder, and the link is there again: also in a sandbox that stays
// warm, at the next Carry.
func TestWhatStandsInTheLinksPlaceMovesHome(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	sb := w.open("m")
	first := w.carry(m, sb, request("reviewer"))
	at := first.Outcomes[0].Path
	w.write(sb, at+"/notes/old", "old")
	if err := sb.FS().Remove(t.Context(), "agent-files", nil); err != nil {
		t.Fatal(err)
	}
	w.write(sb, "agent-files/plan", "plan")
	w.write(sb, "agent-files/notes/new", "new")
	w.write(sb, "agent-files/deep/er/file", "deep")
	w.write(sb, "agent-files/"+path.Base(at)+"/under-its-own-name", "own")
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	if err := links.Symlink(t.Context(), "plan", "agent-files/link"); err != nil {
		t.Fatal(err)
	}
	warm := w.open("m")
	w.carry(m, warm, request("reviewer"))
	want := map[string]string{
		"notes/old": "old", "notes/new": "new", "plan": "plan", "deep/er/file": "deep",
		"under-its-own-name": "own", "link": "-> plan",
	}
	if got := w.files(warm, at); !maps.Equal(got, want) {
		t.Errorf("the folder holds %v, want %v", got, want)
	}
	w.wantLink(warm, "/workspace-agent")
	if w.log.String() != "" {
		t.Errorf("logged: %s", w.log)
	}
}

// Nothing is overwritten: where the name is taken, both stay, and the link waits.
func TestWhatIsTakenStays(t *testing.T) {
	for _, c := range []struct {
		rule         string
		folder, wild map[string]string // before
		stays        map[string]string // in the link's place
		home         map[string]string
	}{
		{"a file of that name is there", map[string]string{"a": "folder's"}, map[string]string{"a": "wild", "b": "free"},
			map[string]string{"a": "wild"}, map[string]string{"a": "folder's", "b": "free"}},
		{"a file stands where a directory is to go", map[string]string{"d": "file"}, map[string]string{"d/x": "wild"},
			map[string]string{"d/x": "wild"}, map[string]string{"d": "file"}},
		{"a directory stands where a file is to go", map[string]string{"d/x": "folder's"}, map[string]string{"d": "wild"},
			map[string]string{"d": "wild"}, map[string]string{"d/x": "folder's"}},
		{"directories of one name are one, but for what is in both", map[string]string{"d/x": "folder's"}, map[string]string{"d/x": "wild", "d/y": "free"},
			map[string]string{"d/x": "wild"}, map[string]string{"d/x": "folder's", "d/y": "free"}},
		{"what is the same in both was copied before", map[string]string{"a": "same", "d/x": ""}, map[string]string{"a": "same", "d/x": ""},
			nil, map[string]string{"a": "same", "d/x": ""}},
		{"what begins alike is not the same", map[string]string{"a": "same"}, map[string]string{"a": "same and more"},
			map[string]string{"a": "same and more"}, map[string]string{"a": "same"}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWorld(t)
			m := w.manager(nil)
			sb := w.open("m")
			at := w.carry(m, sb, request("reviewer")).Outcomes[0].Path
			if err := sb.FS().Remove(t.Context(), "agent-files", nil); err != nil {
				t.Fatal(err)
			}
			for _, name := range slices.Sorted(maps.Keys(c.folder)) {
				w.write(sb, at+"/"+name, c.folder[name])
			}
			for _, name := range slices.Sorted(maps.Keys(c.wild)) {
				w.write(sb, "agent-files/"+name, c.wild[name])
			}
			again := w.open("m")
			w.carry(m, again, request("reviewer"))
			if got := w.files(again, at); !maps.Equal(got, c.home) {
				t.Errorf("the folder holds %v, want %v", got, c.home)
			}
			if c.stays == nil {
				w.wantLink(again, "/workspace-agent")
				return
			}
			if got := w.files(again, "agent-files"); !maps.Equal(got, c.stays) {
				t.Errorf("in the link's place stay %v, want %v", got, c.stays)
			}
			w.wantLogged("level=WARN", "link to agents' folders", "state=failed")
		})
	}
}

// What is called as the folder of another agent who works here is that one's,
// and moves when it comes.
func TestAnothersFilesWaitForIt(t *testing.T) {
	w := newWorld(t)
	m := w.manager(nil)
	sb, other := w.open("m"), w.open("m")
	mine := w.carry(m, sb, request("reviewer")).Outcomes[0].Path
	writers := w.carry(m, other, request("writer")).Outcomes[0].Path
	if err := sb.FS().Remove(t.Context(), "agent-files", nil); err != nil {
		t.Fatal(err)
	}
	w.write(sb, "agent-files/"+path.Base(writers)+"/note", "the writer's")
	w.write(sb, "agent-files/mine", "mine")
	again := w.open("m")
	w.carry(m, again, request("reviewer"))
	w.wantFile(again, mine+"/mine", "mine")
	w.wantLogged("level=WARN", "another agent's")
	otherAgain := w.open("m")
	w.carry(m, otherAgain, request("writer"))
	w.wantFile(otherAgain, writers+"/note", "the writer's")
	w.wantLink(otherAgain, "/workspace-agent")
}

// A run that is cut off anywhere loses nothing, and the next one goes on.
func TestMovingHomeMayBeCutOffAnywhere(t *testing.T) {
	broken := errors.New("broken")
	want := map[string]string{"a": "A", "b": "B", "d/x": "X", "link": "-> a"}
	for n := 1; ; n++ {
		w := newWorld(t)
		m := w.manager(nil)
		sb := w.open("m")
		for _, name := range []string{"a", "b", "d/x"} {
			w.write(sb, "agent-files/"+name, strings.ToUpper(path.Base(name)))
		}
		symlinkAt(w, sb, "a", "agent-files/link")
		calls, failed := 0, false
		sb.before = func(op, p string) error {
			if op == "bind" || op == "unbind" || op == "list" && path.Dir(p) == "/workspace-agent" {
				return nil
			}
			if calls++; calls == n {
				failed = true
				return broken
			}
			return nil
		}
		first := w.carry(m, sb, request("reviewer"))
		sb.before = nil
		all := w.files(sb, first.Outcomes[0].Path)
		if _, err := sb.FS().Stat(t.Context(), "agent-files"); err == nil {
			for name, text := range w.files(sb, "agent-files") {
				name = strings.TrimPrefix(name, path.Base(first.Outcomes[0].Path)+"/") // by way of the link
				if had, ok := all[name]; ok && had != text {
					t.Errorf("call %d: %s is %q and %q", n, name, had, text)
				}
				if name != "README.md" {
					all[name] = text
				}
			}
		}
		if !maps.Equal(all, want) {
			t.Errorf("call %d: together they hold %v, want %v", n, all, want)
		}
		again := w.open("m")
		w.carry(m, again, request("reviewer"))
		if got := w.files(again, first.Outcomes[0].Path); !maps.Equal(got, want) {
			t.Errorf("call %d: the folder holds %v, want %v", n, got, want)
		}
		w.wantLink(again, "/workspace-agent")
		if !failed {
			if n < 10 {
				t.Errorf("only %d calls", n)
			}
			return
		}
	}
}

func symlinkAt(w *world, sb sandbox.Sandbox, text, at string) {
	w.t.Helper()
	links, ok := sandbox.As[sandbox.Symlinker](sb)
	if !ok {
		w.t.Fatal("no links")
	}
	if err := links.Symlink(w.t.Context(), text, at); err != nil {
		w.t.Fatal(err)
	}
}

// able is a mount that can be refreshed and tells how it is.
type able struct {
	mount.Mount
	refresh func(context.Context) error
	health  mount.Health
}

func (a able) Refresh(ctx context.Context) error   { return a.refresh(ctx) }
func (a able) Health(context.Context) mount.Health { return a.health }

// ableMounter makes every mount able.
type ableMounter struct {
	mount.Mounter
	able able
}

func (m ableMounter) Mount(ctx context.Context, s mount.Spec) (mount.Mount, error) {
	inner, err := m.Mounter.Mount(ctx, s)
	if err != nil {
		return nil, err
	}
	m.able.Mount = inner
	return m.able, nil
}

// Trap 58: what others had written was not seen for a minute by a sandbox that
// stayed warm. Each Carry has the folder forget its cache; where that fails or hangs,
// it is logged and the work goes on.
func TestCarryRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		defer close(hung)
		for _, c := range []struct {
			rule    string
			refresh func(context.Context) error
			took    time.Duration
			logged  string
		}{
			{"it is done", func(context.Context) error { return nil }, 0, ""},
			{"it fails", func(context.Context) error { return errors.New("broken") }, 0, "cause=broken"},
			{"it panics", func(context.Context) error { panic("driver's bug") }, 0, "driver's bug"},
			{"it hangs, and does not look at its context", func(context.Context) error { <-hung; return nil }, 10 * time.Second, "deadline exceeded"},
		} {
			w := newWorld(t)
			var calls atomic.Int64
			m := w.manager(func(cfg *mount.Config) {
				cfg.Mounter = ableMounter{w.mounter, able{refresh: func(ctx context.Context) error { calls.Add(1); return c.refresh(ctx) }}}
			})
			for range 2 {
				began := time.Now()
				w.carry(m, w.open("m"), request("reviewer"))
				if took := time.Since(began); took != c.took {
					t.Errorf("%s: it took %v", c.rule, took)
				}
			}
			if n := calls.Load(); n != 2 {
				t.Errorf("%s: refreshed %d times", c.rule, n)
			}
			if c.logged == "" && w.log.String() != "" {
				t.Errorf("%s: logged %s", c.rule, w.log)
			} else if c.logged != "" {
				w.wantLogged("level=WARN", "may show what is old", c.logged)
			}
		}
	})
}

// Trap 80: what fails in the sandbox may have died on the host: the outcome
// says so, with the reason that is known there.
func TestTheOutcomeTellsTheHealth(t *testing.T) {
	w := newWorld(t)
	why, broken := errors.New("bad keys"), errors.New("broken")
	health := mount.Health{Liveness: mount.Dead, Err: why}
	m := w.manager(func(cfg *mount.Config) {
		cfg.Mounter = ableMounter{w.mounter, able{refresh: func(context.Context) error { return nil }, health: health}}
	})
	for _, op := range []string{"bind", "list"} {
		sb := w.open("m")
		sb.before = func(asked, _ string) error {
			if asked == op {
				return broken
			}
			return nil
		}
		c, err := m.Carry(t.Context(), sb, request("reviewer"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []error{why, broken, mount.ErrUnavailable} {
			if !errors.Is(c.Outcomes[0].Cause, want) {
				t.Errorf("%s: cause %v, want %v in it", op, c.Outcomes[0].Cause, want)
			}
		}
		if !strings.Contains(c.Outcomes[0].Cause.Error(), "dead") || !strings.Contains(c.Guidance, "can't be reached") {
			t.Errorf("%s: %v, %q", op, c.Outcomes[0].Cause, c.Guidance)
		}
		if _, ok := c.Health(t.Context()); ok {
			t.Error("what is not there has a health")
		}
	}
	c := w.carry(m, w.open("m"), request("reviewer"))
	if h, ok := c.Health(t.Context()); !ok || h.Liveness != mount.Dead || h.Err != why {
		t.Errorf("Health = %+v, %v", h, ok)
	}
	plain := w.carry(w.manager(nil), w.open("m"), request("writer"))
	if _, ok := plain.Health(t.Context()); ok {
		t.Error("a mounter that can't tell told")
	}
}
