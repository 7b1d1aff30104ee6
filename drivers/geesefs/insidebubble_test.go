//go:build linux

package geesefs

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The steps in their order, with what they are given.
func TestInsideSteps(t *testing.T) {
	inMachine(t, func(t *testing.T, m *machine) {
		i := inside(t, public(), nil)
		ref, err := i.MountInside(t.Context(), m.sb, spec(), target)
		if err != nil {
			t.Fatal(err)
		}
		for word, want := range map[string]int{"stop": 1, "prepare": 1, "launch": 1, "probe": 1, "tail": 0} {
			if got := m.calls(word); got != want {
				t.Errorf("%s ran %d times, want %d", word, got, want)
			}
		}
		dir := m.args["prepare"][0][1]
		launched := strings.Join(m.args["launch"][0], "|")
		want := "/workspace/" + dir + "/pid|/workspace/" + dir + "/log|geesefs|-f|--endpoint=https://store.example.org|--region=us-east-1|" // trap 35: through Start, which does not wait
		if !strings.HasPrefix(launched, want) || !strings.HasSuffix(launched, "|--|folders:"+prefix+"|"+target) {
			t.Errorf("launched %s", launched)
		}
		for name, mode := range map[string]fs.FileMode{leaseFile: privateFile, configFile: privateFile} {
			if info, err := m.sb.FS().Stat(t.Context(), dir+"/"+name); err != nil || info.Mode != mode {
				t.Errorf("%s: %v, %v", name, info.Mode, err)
			}
		}
		for range 3 { // the credentials are renewed in there
			before, err := sandbox.ReadFile(t.Context(), m.sb.FS(), dir+"/"+leaseFile)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if after, err := sandbox.ReadFile(t.Context(), m.sb.FS(), dir+"/"+leaseFile); err != nil || slices.Equal(before, after) {
				t.Errorf("after an hour there is %s, %v", after, err)
			}
		}
		if err := ref.(mount.Refresher).Refresh(t.Context()); err != nil || m.calls("refresh") != 1 {
			t.Errorf("Refresh: %v, %d calls", err, m.calls("refresh"))
		}
		m.set("refresh", 1, nil)
		if err := ref.(mount.Refresher).Refresh(t.Context()); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("Refresh that fails: %v", err)
		}
		m.set("stop", 1, nil)
		if err := ref.Release(t.Context()); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("what can't be unmounted was released: %v", err)
		}
		m.set("stop", 0, nil)
		for range 2 { // twice succeeds
			if err := ref.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if files := m.left(t); m.calls("stop") != 3 || len(files) != 0 || len(i.places) != 0 {
			t.Errorf("stopped %d times, left %v, %d places in the books", m.calls("stop"), files, len(i.places))
		}
	})
}

// Trap 49, and what else ends an attempt, with how long it takes.
func TestInsideFailures(t *testing.T) {
	broken := errors.New("the connection broke")
	for _, c := range []struct {
		rule        string
		m           *minter
		spoil       func(m *machine)
		want        error
		says        string
		least, most time.Duration
		probes      int
	}{
		{"it never lists: twelve looks, half a second apart", public(), func(m *machine) { m.set("probe", 1, nil) },
			mount.ErrUnavailable, "does not list", 6 * time.Second, 6 * time.Second, 12},
		{"each look hangs: it is cut off after five seconds", public(), func(m *machine) { m.set("probe", 0, func(ctx context.Context) { <-ctx.Done() }) },
			mount.ErrUnavailable, "does not list", 66 * time.Second, 70 * time.Second, 12},
		{"two errors in a row end it", public(), func(m *machine) { m.refused["probe"] = broken },
			broken, "does not answer", 500 * time.Millisecond, 500 * time.Millisecond, 2},
		{"the program ends: nobody waits", public(), func(m *machine) {
			m.set("probe", 1, nil)
			m.set("launch", 1, func(context.Context) { time.Sleep(2100 * time.Millisecond) })
		},
			mount.ErrUnavailable, "it ended at once", 2100 * time.Millisecond, 2100 * time.Millisecond, 5},
		{"no such program", public(), func(m *machine) { m.set("prepare", exitNoProgram, nil) },
			sandbox.ErrUnsupported, "no program geesefs", 0, 0, 0},
		{"no FUSE", public(), func(m *machine) { m.set("prepare", exitNoFuse, nil) },
			sandbox.ErrUnsupported, "no FUSE", 0, 0, 0},
		{"directories can't be made", public(), func(m *machine) { m.set("prepare", 1, nil) },
			mount.ErrUnavailable, "exit 1", 0, 0, 0},
		{"the machine is gone", public(), func(m *machine) { m.refused["prepare"] = sandbox.ErrGone },
			sandbox.ErrGone, "directories", 0, 0, 0},
		{"the sandbox starts nothing detached", public(), func(m *machine) { m.refused["launch"] = sandbox.ErrUnsupported },
			sandbox.ErrUnsupported, program, 0, 0, 0},
		{"the mint fails", &minter{err: broken}, nil, broken, "credentials", 0, 0, 0},
		{"the storage can't be reached from a sandbox: refused by name", &minter{endpoint: "http://seaweedfs:8333", life: time.Hour}, nil,
			sandbox.ErrUnsupported, `"http://seaweedfs:8333" is unreachable from this sandbox`, 0, 0, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inMachine(t, func(t *testing.T, m *machine) {
				if c.spoil != nil {
					c.spoil(m)
				}
				i := inside(t, c.m, nil)
				began := time.Now()
				ref, err := i.MountInside(t.Context(), m.sb, spec(), target)
				took := time.Since(began)
				if ref != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), mountID) {
					t.Errorf("%v, %v; want %v that says %q", ref, err, c.want, c.says)
				}
				if took < c.least || took > c.most || m.calls("probe") != c.probes {
					t.Errorf("it took %v and %d looks, want %v to %v and %d", took, m.calls("probe"), c.least, c.most, c.probes)
				}
				if strings.Contains(err.Error(), secretKey) {
					t.Errorf("the error tells the key: %v", err)
				}
				if m.calls("launch") > 0 && m.refused["launch"] == nil && !strings.Contains(err.Error(), "Forbidden …") {
					t.Errorf("it does not say what the program said: %v", err)
				}
				if refused, ok := errors.AsType[*mount.UnreachableError](err); strings.Contains(c.says, "unreachable") && (!ok || refused.Audience != mount.Public) {
					t.Errorf("refused as %T", err)
				}
				if files := m.left(t); len(files) != 0 || len(i.places) != 0 {
					t.Errorf("left %v, and %d places in the books", files, len(i.places))
				}
				if c.want != sandbox.ErrGone && m.calls("stop") != 2 { // before, and after
					t.Errorf("unmounted %d times", m.calls("stop"))
				}
			})
		})
	}
}

// What the storage itself refuses is said before anything is started.
func TestInsideAsksTheStorage(t *testing.T) {
	for _, c := range []struct {
		rule     string
		status   answering
		launched int
		says     string
	}{
		{"it opens the folder", 200, 1, ""},
		{"it refuses the credentials", 403, 0, "refuses these credentials: Forbidden (HTTP 403)"},
		{"it is there and does not work: the sandbox may find it well", 503, 1, ""},
	} {
		inMachine(t, func(t *testing.T, m *machine) {
			i := inside(t, public(), func(i *InsideConfig) { i.HTTP = &http.Client{Transport: c.status} })
			ref, err := i.MountInside(t.Context(), m.sb, spec(), target)
			if m.calls("launch") != c.launched || (err == nil) != (c.says == "") {
				t.Fatalf("%s: launched %d times, %v", c.rule, m.calls("launch"), err)
			}
			if err == nil {
				err = ref.Release(t.Context())
			} else if errors.Is(err, mount.ErrUnavailable) && strings.Contains(err.Error(), c.says) {
				err = nil
			}
			if err != nil || len(m.left(t)) != 0 {
				t.Errorf("%s: %v, left %v", c.rule, err, m.left(t))
			}
		})
	}
}

// Trap 13: references share one program, and nobody's end takes it from another.
func TestInsideIsShared(t *testing.T) {
	inMachine(t, func(t *testing.T, m *machine) {
		i := inside(t, public(), nil)
		other := m.open(t, m.sb.Ref())
		var refs [2]mount.Inside
		var begun sync.WaitGroup
		for n, sb := range []sandbox.Sandbox{m.sb, other} {
			begun.Go(func() {
				var err error
				if refs[n], err = i.MountInside(t.Context(), sb, spec(), target); err != nil {
					t.Error(err)
				}
			})
		}
		begun.Wait()
		if t.Failed() {
			return
		}
		if m.calls("launch") != 1 {
			t.Errorf("launched %d times", m.calls("launch"))
		}
		elsewhere := spec()
		elsewhere.Row.ID = "0192f0c1-2ab4-7cde-8f01-23456789abce"
		if _, err := i.MountInside(t.Context(), m.sb, elsewhere, target); !errors.Is(err, fs.ErrExist) {
			t.Errorf("another folder at the same path: %v", err)
		}
		stopped := m.calls("stop")
		if err := refs[1].Release(t.Context()); err != nil || m.calls("stop") != stopped {
			t.Errorf("the first of two released: %v, stopped %d times", err, m.calls("stop")-stopped)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 { // the credentials go on through the handle that is left
			time.Sleep(time.Hour)
			synctest.Wait()
			for p := range i.renewers() {
				if s := p.State(); s.Degraded || s.Err != nil {
					t.Errorf("%+v", s)
				}
			}
		}
		m.set("probe", 1, nil) // it has died
		launched := m.calls("launch")
		m.set("launch", 0, func(context.Context) { m.set("probe", 0, nil) })
		third, err := i.MountInside(t.Context(), m.sb, spec(), target)
		if err != nil || m.calls("launch") != launched+1 {
			t.Fatalf("what has died was not started again: %v", err)
		}
		for _, ref := range []mount.Inside{refs[0], third} {
			if err := ref.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if files := m.left(t); len(files) != 0 || len(i.places) != 0 {
			t.Errorf("left %v, and %d places in the books", files, len(i.places))
		}
	})
}

// renewers are those of all runs.
func (i *Inside) renewers() map[*mount.Renewer]bool {
	all := map[*mount.Renewer]bool{}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.places {
		all[p.run.renewer] = true
	}
	return all
}

// A handle that was closed too early can unmount nothing; nothing is renewed any more all the same.
func TestInsideReleaseAfterClose(t *testing.T) {
	inMachine(t, func(t *testing.T, m *machine) {
		signer := public()
		i := inside(t, signer, nil)
		ref, err := i.MountInside(t.Context(), m.sb, spec(), target)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.sb.Close(); err != nil {
			t.Fatal(err)
		}
		if err := ref.Release(t.Context()); err != nil {
			t.Error(err)
		}
		minted := len(signer.grants)
		time.Sleep(24 * time.Hour)
		if len(signer.grants) != minted || len(i.places) != 0 {
			t.Errorf("minted %d times after Release, %d places in the books", len(signer.grants)-minted, len(i.places))
		}
	})
}

func TestNewInsideRefusesByField(t *testing.T) {
	for _, c := range []struct {
		field string
		c     InsideConfig
	}{
		{"Signer", InsideConfig{Dir: "d"}},
		{"Dir", InsideConfig{Signer: public()}},
		{"Dir", InsideConfig{Signer: public(), Dir: "../d"}},
		{"Dir", InsideConfig{Signer: public(), Dir: "a/../.."}},
		{"Dir", InsideConfig{Signer: public(), Dir: "a b"}},
		{"Namespace", InsideConfig{Signer: public(), Dir: "d", Namespace: "/"}},
		{"Program", InsideConfig{Signer: public(), Dir: "d", Program: "-x"}},
		{"TTL", InsideConfig{Signer: public(), Dir: "d", TTL: -1}},
		{"Env", InsideConfig{Signer: public(), Dir: "d", Env: []string{"x"}}},
	} {
		i, err := NewInside(c.c)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != c.field || i != nil {
			t.Errorf("%+v: %v; want a refusal of %s", c.c, err, c.field)
		}
	}
	i := inside(t, public(), nil)
	for _, at := range []string{"", "/", "relative", "/a/../b", "/a/", "/a\x00"} {
		_, err := i.MountInside(t.Context(), refusing{}, spec(), at)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "target" {
			t.Errorf("target %q: %v", at, err)
		}
	}
	bad := spec()
	bad.Row.ID = "x"
	_, err := i.MountInside(t.Context(), refusing{}, bad, target)
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "Row.ID" {
		t.Errorf("a bad row: %v", err)
	}
}
