//go:build !linux

package geesefs

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

const discardTimeout = 15 * time.Second

// house is the directory of this process; only Linux has one.
type house struct{ dir string }

func openHouse(string) (_ *house, leftovers error, _ error) { return &house{}, nil, nil }

func (*house) remove() error { return nil }

// Serve answers sandbox.ErrUnsupported: folders are served on Linux only.
func (s *Server) Serve(context.Context, mount.Spec, string) (mount.Serving, error) {
	return nil, fmt.Errorf("%w: geesefs is served on Linux, this is %s", sandbox.ErrUnsupported, runtime.GOOS)
}
