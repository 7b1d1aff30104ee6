//go:build linux

package local

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/sandbox"
)

// prepare validates c and makes what it names.
func (c *Config) prepare() error {
	if c.Root == "" {
		return &access.FieldError{Field: "Root", Rule: "must name a directory"}
	}
	if hasNUL(c.Root) {
		return &access.FieldError{Field: "Root", Rule: "must not hold a NUL byte"}
	}
	for i, dir := range c.System {
		field := fmt.Sprintf("System[%d]", i)
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			return &access.FieldError{Field: field, Rule: "must be the absolute path of a directory other than /"}
		}
		c.System[i] = filepath.Clean(dir)
		for _, own := range []string{"/tmp", insideWork, insideWork + "-agent", "/proc", "/dev", "/etc"} {
			if _, below := sandbox.PathWithin(own, c.System[i]); below {
				return &access.FieldError{Field: field, Rule: "must not lie in " + own + ", which a sandbox has of its own"}
			}
		}
	}
	if err := c.checkUIDs(); err != nil {
		return err
	}
	var err error
	if c.Root, err = filepath.Abs(c.Root); err == nil {
		if err := c.apart(); err != nil { // before anything is made
			return err
		}
		c.Root, err = makeRoot(c.Root)
	}
	if err != nil {
		return &access.FieldError{Field: "Root", Rule: fmt.Sprintf("must be a directory that can be written: %v", err)}
	}
	if err := c.apart(); err != nil {
		return err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Unconfined {
		return nil
	}
	if c.Bwrap == "" {
		if c.Bwrap, err = exec.LookPath("bwrap"); err != nil {
			return &ConfinementError{Err: err}
		}
	}
	if c.Bwrap, err = filepath.Abs(c.Bwrap); err != nil {
		return &ConfinementError{Err: err}
	}
	return nil
}

// apart refuses a root that every sandbox would see.
func (c *Config) apart() error {
	if c.Unconfined {
		return nil
	}
	for _, dir := range append([]string{"/usr"}, c.System...) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if _, below := sandbox.PathWithin(real, c.Root); below {
			return &access.FieldError{Field: "Root", Rule: "must not lie in " + dir + ", which every sandbox sees"}
		}
		if _, above := sandbox.PathWithin(c.Root, real); above {
			return &access.FieldError{Field: "Root", Rule: "must not hold " + dir + ", which every sandbox sees"}
		}
	}
	return nil
}

// makeRoot makes the root directory with all that is below it from the
// beginning, and returns its canonical path.
func makeRoot(root string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", err
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	for _, dir := range []string{machinesDir, trashDir, newDir, uidsDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			return "", err
		}
	}
	order, err := os.OpenFile(filepath.Join(root, orderFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	order.Close()
	probe, err := os.CreateTemp(filepath.Join(root, newDir), "probe-")
	if err != nil {
		return "", err
	}
	probe.Close()
	return root, os.Remove(probe.Name())
}
