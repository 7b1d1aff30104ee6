//go:build linux

package mount_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/sqlite"
)

// Trap 57: a database on a mount hung, for there is no memory to share and no
// lock to rely on. It is refused by name before a file is made, be it reached by a link.
func TestNoDatabaseOnAMount(t *testing.T) {
	w := newHostWorld(t)
	m := w.mount(w.host(), folderOne)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(m.HostDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{m.HostDir(), link} {
		db, err := sqlite.Open(t.Context(), filepath.Join(dir, "bunkroom.db"), nil)
		if err == nil {
			err = db.Close()
		}
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "path" || !strings.Contains(e.Rule, "fuse") {
			t.Errorf("%s: %v, want a refusal of the path that says fuse", dir, err)
		}
	}
	if names, err := os.ReadDir(m.HostDir()); err != nil || len(names) != 0 {
		t.Errorf("made %v, %v", names, err)
	}
	w.release(m)
}
