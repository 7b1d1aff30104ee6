//go:build linux

package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The cgroup that a process is in is found in the file system that shows it,
// whatever part of that is mounted.
func TestPidsDir(t *testing.T) {
	const mount = "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n"
	for name, c := range map[string]struct{ mounts, own, want string }{
		"the first":         {mount, "8:pids:/\n", "/sys/fs/cgroup/pids"},
		"a lower one":       {mount, "9:name=systemd:/x\n8:pids:/user/a:b\n0::/\n", "/sys/fs/cgroup/pids/user/a:b"},
		"several at a time": {strings.ReplaceAll(mount, "rw,pids", "rw,cpu,pids"), "8:cpu,pids:/a\n", "/sys/fs/cgroup/pids/a"},
		"a part is mounted": {strings.ReplaceAll(mount, " / ", " /docker/1 "), "8:pids:/docker/1/a\n", "/sys/fs/cgroup/pids/a"},
		"another part is":   {strings.ReplaceAll(mount, " / ", " /docker/2 "), "8:pids:/docker/1\n", ""},
		"only v2":           {"30 31 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", "0::/user.slice\n", ""},
		"not mounted":       {"39 31 0:36 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "8:pids:/\n", ""},
		"a broken line":     {"39 31 -\n" + mount, "pids\n8:pids:/\n", "/sys/fs/cgroup/pids"},
		"nothing":           {"", "", ""},
	} {
		if got := pidsDir([]byte(c.mounts), []byte(c.own)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// fakeCgroup is a directory with the files that a cgroup (v2) has.
func fakeCgroup(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A controller counts where it is passed on to the cgroups that are made.
func TestPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		has, on string
		want    controllers
	}{
		"all":             {"cpuset cpu io memory pids", "cpu memory pids", cpuController | memoryController | pidsController},
		"some":            {"io memory", "memory", memoryController},
		"none":            {"io", "", 0},
		"begin alike":     {"cpuset", "cpuset", 0},
		"is no longer so": {"", "pids", pidsController},
	} {
		dir := t.TempDir()
		fakeCgroup(t, dir, map[string]string{"cgroup.controllers": c.has + "\n", "cgroup.subtree_control": c.on + "\n"})
		if got := passedOn(dir); got != c.want {
			t.Errorf("%s: %03b, want %03b", name, got, c.want)
		}
	}
}

// What is written to a cgroup says exactly what the limit means.
func TestSettings(t *testing.T) {
	all := mechanisms{sandbox.LimitTreeCPU: byCgroup, sandbox.LimitTreeMemory: byCgroup, sandbox.LimitTreeProcesses: byPids}
	text := func(s []setting) string {
		var b strings.Builder
		for _, x := range s {
			b.WriteString(x.file + "=" + x.text + ";")
		}
		return b.String()
	}
	l := sandbox.Limits{TreeCPU: 1500, TreeMemory: 1 << 20, TreeProcesses: 9}
	for want, got := range map[string][]setting{
		"cpu.max=150000 100000;memory.max=1048576;memory.swap.max=0;": settings(l, all, byCgroup),
		"pids.max=9;":                     settings(l, all, byPids),
		"cpu.max=1000 100000;":            settings(sandbox.Limits{TreeCPU: 1}, all, byCgroup),
		"":                                settings(sandbox.Limits{ProcessMemory: 1, UserProcesses: 1}, all, byCgroup),
		"memory.max=7;memory.swap.max=0;": settings(sandbox.Limits{TreeMemory: 7, TreeCPU: 0}, all, byCgroup),
	} {
		if text(got) != want {
			t.Errorf("%q, want %q", text(got), want)
		}
	}
}

// A process that the kernel has killed for its group's memory is told from others.
func TestGroupKilled(t *testing.T) {
	dir := t.TempDir()
	g := &group{dirs: []string{dir}}
	for events, want := range map[string]bool{
		"": false, "low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n": false, "oom 1\noom_kill 1\noom_group_kill 0\n": true, "oom_kill 23\n": true,
	} {
		fakeCgroup(t, dir, map[string]string{"memory.events": events})
		if g.killed() != want {
			t.Errorf("%q: %v", events, !want)
		}
	}
	if (*group)(nil).killed() || (&group{}).killed() {
		t.Error("what is in no group was killed for it")
	}
}

// What is not a cgroup, or none in which others can be made, is refused by the field's name.
func TestConfigCgroup(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/no/such/dir", "/proc"} {
		_, err := New(Config{Root: t.TempDir(), Unconfined: true, Cgroup: dir})
		if field := (*access.FieldError)(nil); !errors.As(err, &field) || field.Field != "Cgroup" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// Where a cgroup (v2) is delegated to this test, the limits of a tree are
// held by it. BUNKROOM_CGROUP names its directory.
func TestDelegatedCgroup(t *testing.T) {
	dir := os.Getenv("BUNKROOM_CGROUP")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		need.Missing(t, need.Cgroup2, "BUNKROOM_CGROUP names no directory of a cgroup v2 file system")
	}
	p, err := New(Config{Root: t.TempDir(), Unconfined: true, Cgroup: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if want := sandbox.LimitTreeCPU | sandbox.LimitTreeMemory | sandbox.LimitTreeProcesses; p.Info().Caps.Limits&want != want {
		t.Fatalf("held are %07b, want %07b too", p.Info().Caps.Limits, want)
	}
	ctx := t.Context()
	m, err := p.Create(ctx, sandbox.CreateRequest{Name: "m-g1"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(ctx, m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	const hungry = `awk 'BEGIN { s = "x"; for (i = 0; i < 24; i++) s = s s; while (1) t = t s }'`
	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"sh", "-c", "exec " + hungry}, Limits: sandbox.Limits{TreeMemory: 64 << 20}}, nil, nil)
	if err != nil || exit.Reason != sandbox.LimitReached {
		t.Errorf("memory: %+v, %v", exit, err)
	}
	exit, err = sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 100 & done"}, Limits: sandbox.Limits{TreeProcesses: 5}}, nil, nil)
	if err != nil || exit.Code == 0 {
		t.Errorf("processes: %+v, %v", exit, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, p.cgroups.prefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}
