package mounttest

import (
	"os"
	"testing"

	"github.com/bunkroom/bunkroom/mount"
)

// HostRoot is a directory for a [mount.Host], which refuses temporary ones. It
// is removed when t ends, with proof that nothing is mounted below: else t fails, and it stays.
func HostRoot(t testing.TB) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/lib"
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp(cache, "bunkroom-mount-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _, err := mount.Prove(root); err != nil {
			t.Errorf("left mounted: %v", err)
		} else if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return root
}
