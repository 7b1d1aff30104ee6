package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
)

// A file on a network file system is refused by path, also where a link leads
// there, and nothing is created. An unknown file system is an error and no yes. (case 6)
func TestNetworkFileSystemsAreRefused(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	remote, local := filepath.Join(dir, "remote"), filepath.Join(dir, "local")
	for _, d := range []string{remote, local} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(remote, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	network := func(folder string) (string, error) {
		if folder == remote {
			return "nfs", nil
		}
		return "", nil
	}
	for _, path := range []string{filepath.Join(remote, "x.db"), filepath.Join(dir, "link", "x.db")} {
		_, err := open(t.Context(), path, nil, network)
		if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "path" || !strings.Contains(e.Rule, "nfs") {
			t.Errorf("%s: got %v, want a FieldError of path that says nfs", path, err)
		}
	}
	if entries, err := os.ReadDir(remote); err != nil || len(entries) > 0 {
		t.Errorf("created %v, %v", entries, err)
	}
	db, err := open(t.Context(), filepath.Join(local, "x.db"), nil, network)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = checkConnections(t.Context(), db.SQL(), "db", func(string) (string, error) { return "9p", nil })
	if e, ok := errors.AsType[*access.FieldError](err); !ok || e.Field != "db" || !strings.Contains(e.Rule, "9p") {
		t.Errorf("New: got %v, want a FieldError of db that says 9p", err)
	}
	unknown := errors.New("statfs failed")
	if _, err := open(t.Context(), filepath.Join(local, "y.db"), nil, func(string) (string, error) { return "", unknown }); !errors.Is(err, unknown) {
		t.Errorf("got %v, want %v", err, unknown)
	}
}
