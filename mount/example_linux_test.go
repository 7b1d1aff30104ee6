package mount_test

import (
	"context"
	"fmt"

	"github.com/bunkroom/bunkroom/mount"
)

// none serves nothing.
type none struct{}

func (none) Serve(context.Context, mount.Spec, string) (mount.Serving, error) {
	return nil, mount.ErrUnavailable
}

// A host has a root of its own, which is never in a temporary directory. The
// server is a driver's.
func ExampleNewHost() {
	_, err := mount.NewHost(context.Background(), mount.HostConfig{Server: none{}, Root: "/tmp/folders"})
	fmt.Println(err)
	// Output:
	// invalid Root: must not be in the temporary directory: to clean that up would be to delete durable files
}
