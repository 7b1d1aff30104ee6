//go:build linux

package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// T-96 and its kind: no spelling of a path leads the FS to what lies beside the
// working directory. Nothing is decoded, a name that begins alike is another,
// a newline is a part of a name, and a link counts by where it leads.
func TestPathTricks(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			p := openAt(t, root, unconfined)
			sb := attach(t, p, create(t, p, "m-g1"))
			machine := filepath.Join(root, "machines", "m-g1")
			for _, dir := range []string{"workspacefoo", "workspace\n", "work"} {
				if err := os.Mkdir(filepath.Join(machine, dir), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(machine, dir, "secret"), []byte("outside"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			sh(t, sb, "ln -s "+machine+"/workspacefoo abs; ln -s ../workspacefoo rel; ln -s ../../../../../../../../../../../../etc etc; ln -s /proc/self/root magic; ln -s /proc/self/cwd/.. cwd; ln -s loop loop; ln -s a/../../workspacefoo through; mkdir a")
			w := sb.Workdir()
			for _, path := range []string{
				"../workspacefoo/secret", w + "foo/secret", w + "/../workspacefoo/secret", "a/../../workspacefoo/secret", "./.././workspacefoo/secret",
				w + "\n/secret", "../workspace\n/secret", "..//workspacefoo//secret", "abs/secret", "rel/secret", "through/secret",
				"etc/passwd", "magic/etc/passwd", "magic" + machine + "/machine.json", "cwd/machine.json", "../machine.json", "/etc/passwd", "/proc/self/environ",
				"%2e%2e/workspacefoo/secret", "%252e%252e%252fworkspacefoo/secret", "..%2fworkspacefoo%2fsecret", "..\\workspacefoo\\secret", "..%c0%af..%c0%afetc/passwd",
				"\u2025/workspacefoo/secret", "\uff0e\uff0e/workspacefoo/secret", "file:///etc/passwd", "~/secret", "loop/secret", "abs/../secret",
			} {
				if b, err := sandbox.ReadFile(deadline(t), sb.FS(), path); err == nil {
					t.Errorf("it reads %q: %.20q", path, b)
				} else if !errors.Is(err, sandbox.ErrEscapes) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sandbox.ErrInvalid) && path != "loop/secret" {
					t.Errorf("%q: %v", path, err)
				}
				if err := sb.FS().Remove(deadline(t), path, &sandbox.RemoveOptions{Recursive: true}); err == nil {
					t.Errorf("it removes %q", path)
				}
			}
			for _, dir := range []string{"workspacefoo", "workspace\n", "work"} {
				if b, err := os.ReadFile(filepath.Join(machine, dir, "secret")); err != nil || string(b) != "outside" {
					t.Errorf("%q: %q, %v", dir, b, err)
				}
			}
		})
	}
}

// Links that a process puts in the place of a directory, and takes away again
// as fast as the kernel can, lead no call of the FS out (T-96; the check Escapes/Swapped does so by the FS itself).
func TestSwappedByAProcess(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			p := openAt(t, t.TempDir(), unconfined)
			sb := attach(t, p, create(t, p, "m-g1"))
			outside := t.TempDir()
			secret := filepath.Join(outside, "file")
			if err := os.WriteFile(secret, []byte("outside"), 0o644); err != nil {
				t.Fatal(err)
			}
			sh(t, sb, "mkdir dir; ln -s "+outside+" link; echo inside >dir/file")
			script := insideScript("swap dir link")
			if unconfined {
				script = hostScript(t, "swap dir link")
			} else {
				tool(t, sb)
			}
			swapping := start(t, sb, sandbox.Cmd{}, script)
			f := sb.FS()
			ctx := deadline(t)
			for range 1000 {
				if b, err := sandbox.ReadFile(ctx, f, "dir/file"); err == nil && string(b) == "outside" {
					t.Fatal("it reads what is outside")
				}
				sandbox.WriteFile(ctx, f, "dir/new", []byte("x"), nil)
				sandbox.WriteFile(ctx, f, "dir/deep/new", []byte("x"), nil)
				f.Rename(ctx, "dir/file", "stolen", nil)
				f.Rename(ctx, "stolen", "dir/file", nil)
				f.Remove(ctx, "dir/new", nil)
				f.Remove(ctx, "dir/deep", &sandbox.RemoveOptions{Recursive: true})
			}
			swapping.Close()
			left, err := os.ReadDir(outside)
			if err != nil || len(left) != 1 {
				t.Errorf("outside there is %v, %v", left, err)
			}
			if b, err := os.ReadFile(secret); err != nil || string(b) != "outside" {
				t.Errorf("outside: %q, %v", b, err)
			}
		})
	}
}
