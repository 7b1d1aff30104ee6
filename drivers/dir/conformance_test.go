package dir_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/mounttest"
)

func TestConformance(t *testing.T) {
	mounttest.TestMounter(t, func(t *testing.T) mount.Mounter {
		m, err := dir.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}
