//go:build linux

package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// fullVar names, in a process with mounts of its own, the directory to mount a small disk on.
const fullVar = "BUNKROOM_TEST_FULL"

// On a full disk nothing is left half done: a create surely made nothing, a
// file keeps its old content, and to destroy still works, which is what makes room again.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(fullVar); dir != "" {
		for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
			t.Run(name, func(t *testing.T) { onFullDisk(t, dir, unconfined) })
			t.Run(name+"WithoutInodes", func(t *testing.T) { onDiskWithoutInodes(t, dir, unconfined) })
		}
		return
	}
	open(t, false) // or there is no bubblewrap
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), fullVar+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, syscall.EPERM), bytes.Contains(out, []byte("a disk can't be mounted")):
		need.Missing(t, "mounts", "a test can't have mounts of its own here")
	case err != nil || !bytes.Contains(out, []byte("--- PASS: TestFullDisk/Confined")) || !bytes.Contains(out, []byte("--- PASS: TestFullDisk/Unconfined")):
		t.Fatalf("%v\n%s", err, out)
	}
}

// mountDisk mounts a small disk, until the test ends.
func mountDisk(t *testing.T, disk, size string) {
	t.Helper()
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatalf("a disk can't be mounted: %v", err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, size); err != nil {
		t.Fatalf("a disk can't be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
}

// Where not one file more can be made, files can be moved and removed, which makes room.
func onDiskWithoutInodes(t *testing.T, disk string, unconfined bool) {
	mountDisk(t, disk, "nr_inodes=500")
	p := openAt(t, filepath.Join(disk, "root"), unconfined)
	ref := createFor(t, p, "kept-g1", "d")
	sb := attach(t, p, ref)
	for _, dir := range []string{"a", "b"} {
		if err := sb.FS().Mkdir(deadline(t), dir); err != nil {
			t.Fatal(err)
		}
	}
	workspace := filepath.Join(disk, "root", "machines", "kept-g1", "workspace")
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(workspace, "a", fmt.Sprint(i)), nil, 0o644)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := sandbox.WriteFile(deadline(t), sb.FS(), "a/0", []byte("x"), nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v", err)
	}
	if err := sb.FS().Rename(deadline(t), "a/0", "b/0", nil); err != nil {
		t.Errorf("rename: %v", err)
	}
	if err := sb.FS().Remove(deadline(t), "a/1", nil); err != nil {
		t.Errorf("remove: %v", err)
	}
	if err := sandbox.WriteFile(deadline(t), sb.FS(), "b/0", []byte("x"), nil); err != nil {
		t.Errorf("write: %v", err)
	}
}

func onFullDisk(t *testing.T, disk string, unconfined bool) {
	mountDisk(t, disk, "size=64m")
	root := filepath.Join(disk, "root")
	p := openAt(t, root, unconfined)
	ref := createFor(t, p, "kept-g1", "d")
	sb := attach(t, p, ref)
	for name, data := range map[string][]byte{"file": []byte("old"), "room": make([]byte, 1<<20)} {
		if err := sandbox.WriteFile(deadline(t), sb.FS(), name, data, nil); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, filepath.Join(disk, "filler"))

	_, err := p.Create(deadline(t), sandbox.CreateRequest{Name: "new-g1", Labels: labels("d")})
	if !errors.Is(err, sandbox.ErrNotSent) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v", err)
	}
	for dir, want := range map[string][]string{"machines": {"kept-g1"}, "new": nil, "trash": nil} {
		if got := entries(t, filepath.Join(root, dir)); !slices.Equal(got, want) {
			t.Errorf("%s holds %q, want %q", dir, got, want)
		}
	}
	for name, opts := range map[string]*sandbox.CreateOptions{"file": nil, "fresh": {Exclusive: true}, "dir/deep": nil} {
		if err := sandbox.WriteFile(deadline(t), sb.FS(), name, bytes.Repeat([]byte("new"), 5000), opts); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("write %s: %v", name, err)
		}
	}
	if got, err := sandbox.ReadFile(deadline(t), sb.FS(), "file"); err != nil || string(got) != "old" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	workspace := filepath.Join(root, "machines", "kept-g1", "workspace")
	if got := entries(t, workspace); !slices.Equal(got, []string{"dir", "file", "room"}) {
		t.Errorf("the workspace holds %q", got)
	}
	if got := entries(t, filepath.Join(workspace, "dir")); len(got) > 0 {
		t.Errorf("unfinished files are left: %q", got)
	}
	if out := sh(t, sb, "cat file; echo x 2>/dev/null >more || echo full"); out != "oldfull\n" {
		t.Errorf("a process writes %q", out)
	}
	if all := list(t, p, "d"); len(all) != 1 {
		t.Errorf("listed: %+v", all)
	}
	if err := p.Reap(deadline(t), ref, "t"); err != nil {
		t.Errorf("reap: %v", err)
	}

	if err := p.Destroy(deadline(t), ref); err != nil {
		t.Fatalf("destroy: %v", err)
	}
	if found, err := p.Inspect(deadline(t), ref); err != nil || len(found) != 0 {
		t.Errorf("destroyed: %v, %v", found, err)
	}
	sb = attach(t, p, createFor(t, p, "new-g1", "d")) // there is room again
	if out := sh(t, sb, "echo x >file && cat file"); out != "x\n" {
		t.Errorf("a process writes %q", out)
	}
}

// fill fills the disk that path is on, to the last byte.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); errors.Is(err, syscall.ENOSPC) {
			chunk = chunk[:len(chunk)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
