//go:build !linux

package mount

import (
	"fmt"

	"github.com/bunkroom/bunkroom/sandbox"
)

func newKernel() (kernel, error) {
	return nil, fmt.Errorf("%w: mounts are had on Linux only", sandbox.ErrUnsupported)
}
