//go:build !unix

package dir

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

var _ mount.Locker = (*Mounter)(nil)

// Lock returns sandbox.ErrUnsupported: this system has no locks that end with their process.
func (m *Mounter) Lock(_ context.Context, row mount.Row, _ string) (mount.Hold, error) {
	return nil, fmt.Errorf("%w: lock of mount %s", sandbox.ErrUnsupported, row.ID)
}
