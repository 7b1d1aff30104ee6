//go:build linux

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

func measure(t testing.TB, p *local.Provider, ref sandbox.Ref) int64 {
	t.Helper()
	n, err := p.Measure(deadline(t), ref)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// du is what the program says of some directories together.
func du(t testing.TB, dirs ...string) int64 {
	t.Helper()
	out, err := exec.Command("du", append([]string{"-scxB1", "--"}, dirs...)...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	total, _, _ := strings.Cut(lines[len(lines)-1], "\t")
	n, e := strconv.ParseInt(total, 10, 64)
	if err != nil || e != nil {
		t.Fatalf("du: %v, %v: %s", err, e, out)
	}
	return n
}

// put writes a file of n bytes, with its directories.
func put(t testing.TB, path string, n int) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, bytes.Repeat([]byte("x"), n), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// The answer is du's for all that is the machine's own, whoever asks, and is
// had of a machine that sleeps, which sleeps on. T-68
func TestMeasureIsWhatDuSays(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p, other := openAt(t, root, unconfined), openAt(t, root, unconfined)
			ref := create(t, p, "m-g1")
			dir := filepath.Join(root, "machines", "m-g1")
			own := []string{filepath.Join(dir, "workspace"), filepath.Join(dir, "tmp"), filepath.Join(dir, "workspace-agent")}
			if got, want := measure(t, p, ref), du(t, own...); got != want {
				t.Errorf("empty: %d bytes, du says %d", got, want)
			}
			outside := t.TempDir()
			put(t, filepath.Join(outside, "big"), 1<<20)
			for i := range 300 {
				put(t, filepath.Join(own[0], fmt.Sprintf("many/a file with a long name, number %d", i)), i*100)
				put(t, filepath.Join(own[0], fmt.Sprintf("tree/%d/%d/f", i%17, i%5)), 5000)
			}
			put(t, filepath.Join(own[1], "x"), 100_000)
			for link, target := range map[string]string{"out": outside, "loop": ".", "dangling": strings.Repeat("x", 200)} {
				if err := os.Symlink(target, filepath.Join(own[0], link)); err != nil {
					t.Fatal(err)
				}
			}
			err := errors.Join(
				os.Link(filepath.Join(own[0], "many", "a file with a long name, number 299"), filepath.Join(own[1], "twice")),
				os.WriteFile(filepath.Join(own[0], "holes"), nil, 0o644), os.Truncate(filepath.Join(own[0], "holes"), 1<<30),
				syscall.Mkfifo(filepath.Join(own[0], "fifo"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			want := du(t, own...)
			for _, asked := range []*local.Provider{p, other} {
				if got := measure(t, asked, ref); got != want {
					t.Errorf("%d bytes, du says %d", got, want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "init.json")); err == nil {
				t.Error("an init was started")
			}
			sb := attach(t, p, ref)
			sh(t, sb, `head -c 1000000 /dev/urandom >"${TMPDIR:-/tmp}/more"`)
			if got, want := measure(t, other, ref), du(t, own...); got != want || got < 1_000_000 {
				t.Errorf("awake: %d bytes, du says %d", got, want)
			}
		})
	}
}

// What Measure refuses, and by which name.
func TestMeasureAnswers(t *testing.T) {
	root := t.TempDir()
	p := openAt(t, root, true)
	ref := create(t, p, "m-g1")
	with := func(change func(*sandbox.Ref)) sandbox.Ref { r := ref; change(&r); return r }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		rule string
		ctx  context.Context
		ref  sandbox.Ref
		want error
	}{
		{"no incarnation: whatever has the name now is not what was meant", t.Context(), with(func(r *sandbox.Ref) { r.Incarnation = "" }), sandbox.ErrInvalid}, // T-67
		{"another incarnation", t.Context(), with(func(r *sandbox.Ref) { r.Incarnation = "x" }), sandbox.ErrGone},
		{"never made", t.Context(), with(func(r *sandbox.Ref) { r.Name = "m-g2" }), sandbox.ErrGone},
		{"another host's", t.Context(), with(func(r *sandbox.Ref) { r.Host = "x" }), sandbox.ErrWrongHost},
		{"another provider's", t.Context(), with(func(r *sandbox.Ref) { r.Provider = "x" }), sandbox.ErrInvalid},
		{"a name that leads elsewhere", t.Context(), with(func(r *sandbox.Ref) { r.Name = "../machines" }), sandbox.ErrInvalid},
		{"too late", ctx, ref, context.Canceled},
	} {
		if n, err := p.Measure(c.ctx, c.ref); !errors.Is(err, c.want) || n != 0 {
			t.Errorf("%s: %d, %v, want %v", c.rule, n, err, c.want)
		}
	}
	half := filepath.Join(root, "trash", "m-g1@"+string(ref.Incarnation))
	if err := os.Rename(filepath.Join(root, "machines", "m-g1"), half); err != nil { // as Destroy begins
		t.Fatal(err)
	}
	if n, err := p.Measure(t.Context(), ref); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("half destroyed: %d, %v", n, err)
	}
	if err := os.Rename(filepath.Join(root, "host"), filepath.Join(root, "host2")); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Measure(t.Context(), ref); err == nil || errors.Is(err, sandbox.ErrGone) {
		t.Errorf("where the root is not what it was, nothing proves that it is gone: %d, %v", n, err)
	}
	p.Close()
	if n, err := p.Measure(t.Context(), ref); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("closed: %d, %v", n, err)
	}
}

// meddling is a context that is asked at each step of a measurement, and does something at one of them.
type meddling struct {
	context.Context
	step, at int
	do       func()
}

func (m *meddling) Err() error {
	if m.step++; m.step == m.at {
		m.do()
	}
	return nil
}

// Whatever becomes of a machine's files at whichever step of a measurement,
// it is no error, what is not touched counts, and nothing counts twice or that lies outside.
func TestMeasureWhileFilesChange(t *testing.T) {
	const part = 64 << 10
	outside := t.TempDir()
	put(t, filepath.Join(outside, "big"), 1<<20)
	for _, c := range []struct {
		what string
		do   func(work string) error
	}{
		{"nothing", func(string) error { return nil }},
		{"a directory goes", func(work string) error { return os.RemoveAll(filepath.Join(work, "x")) }},
		{"a directory is moved", func(work string) error { return os.Rename(filepath.Join(work, "x/a"), filepath.Join(work, "y/a")) }},
		{"a directory is moved up and another put there", func(work string) error {
			return errors.Join(os.Rename(filepath.Join(work, "x/a"), filepath.Join(work, "a")), os.Mkdir(filepath.Join(work, "x/a"), 0o755))
		}},
		{"all goes", func(work string) error { return os.RemoveAll(work) }},
		{"a link takes a directory's place", func(work string) error {
			return errors.Join(os.Rename(filepath.Join(work, "x"), filepath.Join(work, "y/x")), os.Symlink(outside, filepath.Join(work, "x")))
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, true)
			ref := create(t, p, "m-g1")
			dir := filepath.Join(root, "machines", "m-g1")
			own := []string{filepath.Join(dir, "workspace"), filepath.Join(dir, "tmp"), filepath.Join(dir, "workspace-agent")}
			put(t, filepath.Join(own[1], "stays/f"), part)
			var all int64
			for at, steps := 1, 1; at <= steps; at++ {
				if err := os.RemoveAll(own[0]); err != nil {
					t.Fatal(err)
				}
				for _, f := range []string{"x/f", "x/a/f", "x/a/b/f", "x/a/b/c/f", "x/z/f", "y/f"} {
					put(t, filepath.Join(own[0], f), part)
				}
				if at == 1 {
					all = du(t, own...)
				}
				ctx := &meddling{Context: t.Context(), at: at, do: func() {
					if err := c.do(own[0]); err != nil {
						t.Error(err)
					}
				}}
				n, err := p.Measure(ctx, ref)
				if err != nil {
					t.Fatalf("at step %d: %v", at, err)
				}
				const moved = 6 * 4096 // directories count where they are found, which may be twice
				if n < part || n > all+moved || c.what == "nothing" && n != all {
					t.Errorf("at step %d: %d bytes, there were %d", at, n, all)
				}
				if c.what == "a directory is moved" && n < 4*part {
					t.Errorf("at step %d: %d bytes, though x, x/z, y and tmp stayed", at, n)
				}
				steps = ctx.step
			}
		})
	}
}

// Of a machine that is destroyed meanwhile, and another made under its name,
// the answer is all of the one that was meant, or that it is gone. T-67
func TestMeasureWhileReplaced(t *testing.T) {
	root := t.TempDir()
	p, other := openAt(t, root, true), openAt(t, root, true)
	for at, steps := 1, 1; at <= steps; at++ {
		ref := create(t, p, "m-g1")
		work := filepath.Join(root, "machines", "m-g1", "workspace")
		for i := range 4 {
			put(t, filepath.Join(work, strconv.Itoa(i), "f"), 64<<10)
		}
		ctx := &meddling{Context: t.Context(), at: at, do: func() {
			if err := other.Destroy(t.Context(), ref); err != nil {
				t.Error(err)
			}
			create(t, other, "m-g1")
			put(t, filepath.Join(work, "f"), 1<<20)
		}}
		if n, err := p.Measure(ctx, ref); !errors.Is(err, sandbox.ErrGone) || n != 0 {
			t.Errorf("replaced at step %d: %d, %v", at, n, err)
		}
		steps = ctx.step
		found, err := p.Inspect(t.Context(), sandbox.Ref{Name: "m-g1"})
		if err != nil || len(found) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		ref.Incarnation = found[0].Incarnation
		if err := p.Destroy(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
}

// measureVar names, in a process of its own, what a test is to measure.
const measureVar = "BUNKROOM_TEST_MEASURE"

// Directories may be nested deeper than paths can be long and descriptors
// there are, for what runs in a machine can make them so.
func TestMeasureDeep(t *testing.T) {
	if root, incarnation, ok := strings.Cut(os.Getenv(measureVar), "@"); ok {
		fmt.Println("bytes:", measure(t, openAt(t, root, true), sandbox.Ref{Name: "m-g1", Incarnation: sandbox.Incarnation(incarnation)}))
		return
	}
	root := t.TempDir()
	p := openAt(t, root, true)
	ref := create(t, p, "m-g1")
	at, err := os.OpenRoot(filepath.Join(root, "machines", "m-g1", "workspace"))
	for range 400 {
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Repeat("d", 20)
		err = errors.Join(at.Mkdir(name, 0o755), at.WriteFile("f", []byte("x"), 0o644))
		var below *os.Root
		if err == nil {
			below, err = at.OpenRoot(name)
		}
		at.Close()
		at = below
	}
	at.Close()
	want := measure(t, p, ref)
	if least := int64(400 * 2 * 4096); want < least {
		t.Errorf("%d bytes in 400 directories with a file each", want)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `ulimit -n 40 && exec "$@"`, "sh", exe, "-test.run=^TestMeasureDeep$", "-test.v")
	cmd.Env = append(os.Environ(), measureVar+"="+root+"@"+string(ref.Incarnation))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), fmt.Sprintf("bytes: %d\n", want)) {
		t.Errorf("%v, want %d\n%s", err, want, out)
	}
}

// What is mounted in a machine from another file system is not the machine's.
func TestMeasureOneFileSystem(t *testing.T) {
	if root := os.Getenv(measureVar); root != "" {
		p := openAt(t, root, true)
		ref := create(t, p, "m-g1")
		before := measure(t, p, ref)
		for _, dir := range []string{"workspace/mnt", "tmp"} {
			at := filepath.Join(root, "machines", "m-g1", dir)
			os.MkdirAll(at, 0o755)
			if err := syscall.Mount("tmpfs", at, "tmpfs", 0, "size=8m"); err != nil {
				t.Fatalf("a disk can't be mounted: %v", err)
			}
			t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
			put(t, filepath.Join(at, "f"), 1<<20)
		}
		if after := measure(t, p, ref); after > before {
			t.Errorf("%d bytes, then %d", before, after)
		}
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestMeasureOneFileSystem$", "-test.v")
	cmd.Env = append(os.Environ(), measureVar+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), bytes.Contains(out, []byte("a disk can't be mounted")):
		need.Missing(t, "mounts", "a test can't have mounts of its own here")
	case err != nil || !bytes.Contains(out, []byte("--- PASS: TestMeasureOneFileSystem")):
		t.Fatalf("%v\n%s", err, out)
	}
}

// What the user the host runs as can't read is left out, and is no error.
func TestMeasureUnreadable(t *testing.T) {
	if os.Geteuid() == 0 { // who can read everything
		dir, err := os.MkdirTemp("", "bunkroom-user-") // t.TempDir is root's alone
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		const nobody = 65534
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copyTo(t, dir), "-test.v", "-test.run=^TestMeasureUnreadable$")
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestMeasureUnreadable")) {
			t.Errorf("as an ordinary user: %v\n%s", err, out)
		}
		return
	}
	root := t.TempDir()
	p := openAt(t, root, true)
	ref := create(t, p, "m-g1")
	work := filepath.Join(root, "machines", "m-g1", "workspace")
	for _, f := range []string{"open/f", "shut/f", "listed/d/f", "secret"} {
		put(t, filepath.Join(work, f), 64<<10)
	}
	all, shut, below := measure(t, p, ref), du(t, filepath.Join(work, "shut/f")), du(t, filepath.Join(work, "listed/d"))
	for name, mode := range map[string]os.FileMode{"shut": 0, "listed": 0o400, "secret": 0} {
		at := filepath.Join(work, name)
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(at, 0o700) })
	}
	if got, want := measure(t, p, ref), all-shut-below; got != want {
		t.Errorf("%d bytes, want %d of %d", got, want, all)
	}
}

// To measure 10,000 files in 500 directories, against du.
func BenchmarkMeasure(b *testing.B) {
	root := b.TempDir()
	p := openAt(b, root, true)
	ref := create(b, p, "m-g1")
	dir := filepath.Join(root, "machines", "m-g1")
	for i := range 10_000 {
		put(b, filepath.Join(dir, "workspace", strconv.Itoa(i%20), strconv.Itoa(i%500), strconv.Itoa(i)), 10)
	}
	ratio(b, func() { measure(b, p, ref) }, func() {
		du(b, filepath.Join(dir, "workspace"), filepath.Join(dir, "tmp"), filepath.Join(dir, "workspace-agent"))
	})
}
