package geesefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// program is the name of the program.
const program = "geesefs"

// DefaultStopTimeout is how long the program has to write out what was
// written, where Config names no other time.
const DefaultStopTimeout = 30 * time.Second

// Config is the configuration of a [Server].
type Config struct {
	Signer    mount.Signer // required; asked for [mount.InNetwork]
	Namespace string       // as in [mount.PrefixOf]
	// Dir is where the files with credentials are, below a directory of this
	// process. It is made with mode 0700; best is a file system in memory,
	// such as below /run. It lies outside every mount, and is a path of
	// letters, digits and ". _ - /". Required.
	Dir string
	// Program is the path or name of geesefs; empty = geesefs on PATH.
	Program string
	// AllowOther lets other users of this host than the host's own into the
	// folders. Who is not root needs user_allow_other in /etc/fuse.conf for it.
	AllowOther bool
	// TTL is how long credentials are asked for; 0 = as the signer is configured.
	TTL time.Duration
	// StopTimeout is how long the program has, when it is stopped, to write out
	// what was written before it is ended; 0 = DefaultStopTimeout.
	StopTimeout time.Duration
	// Env are variables, "NAME=value", that the program is to have beside PATH
	// and HOME, such as AWS_CA_BUNDLE or HTTPS_PROXY. No secrets.
	Env []string
	Log *slog.Logger // what goes wrong behind the caller's back; nil = none
}

// checked is the configuration with what is left out filled in.
func (c Config) checked() (Config, error) {
	switch {
	case c.Signer == nil:
		return c, &access.FieldError{Field: "Signer", Rule: "must be set"}
	case !filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) == "/":
		return c, &access.FieldError{Field: "Dir", Rule: "must be an absolute path, and not the root"}
	case !plain(c.Dir):
		return c, &access.FieldError{Field: "Dir", Rule: plainRule}
	case strings.HasPrefix(c.Program, "-"):
		return c, &access.FieldError{Field: "Program", Rule: "must not begin with a dash"}
	case c.TTL < 0:
		return c, &access.FieldError{Field: "TTL", Rule: "must not be negative"}
	case c.StopTimeout < 0:
		return c, &access.FieldError{Field: "StopTimeout", Rule: "must not be negative"}
	}
	if _, err := mount.PrefixRoot(c.Namespace); err != nil {
		return c, err
	}
	for _, v := range c.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.IndexByte(v, 0) >= 0 {
			return c, &access.FieldError{Field: "Env", Rule: `must be of the form "NAME=value"`}
		}
	}
	c.Dir = filepath.Clean(c.Dir)
	if c.Program == "" {
		c.Program = program
	}
	if c.StopTimeout == 0 {
		c.StopTimeout = DefaultStopTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

const plainRule = `must be of letters, digits and ". _ - /"`

// plain reports whether a path means the same to everybody who reads it: to a
// shell, and to the readers of the configuration file.
func plain(path string) bool {
	for _, c := range []byte(path) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/", c) >= 0) {
			return false
		}
	}
	return true
}

// failed is the error of a step for one mount: as it is where it says already
// whose fault it is, else a storage that can't be used. A bad field of what
// the signer was asked for is none of the caller's fields.
func failed(id mount.ID, what string, err error) error {
	if refused, ok := errors.AsType[*access.FieldError](err); ok {
		return fmt.Errorf("%w: mount %s: %s: %v", mount.ErrUnavailable, id, what, refused)
	}
	for _, said := range []error{mount.ErrUnavailable, sandbox.ErrUnsupported, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, said) {
			return fmt.Errorf("mount %s: %s: %w", id, what, err)
		}
	}
	return fmt.Errorf("%w: mount %s: %s: %w", mount.ErrUnavailable, id, what, err)
}

// reason is err without the path, which is the host's own business.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}
