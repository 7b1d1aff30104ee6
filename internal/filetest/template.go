// Package filetest has files for tests.
package filetest

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Template is a file that is made once, and copied for every test that needs
// one like it: to make a database takes longer than most of what is then done to it.
// It may be used concurrently.
type Template struct {
	once sync.Once
	file []byte
	err  error
}

// Copy returns the path of a copy, which goes with the test. build makes the file
// at a path, and is called by the first who needs one; the file is whole when it returns.
func (f *Template) Copy(t testing.TB, build func(path string) error) (path string) {
	t.Helper()
	f.once.Do(func() {
		made := filepath.Join(t.TempDir(), "template")
		if f.err = build(made); f.err == nil {
			f.file, f.err = os.ReadFile(made)
		}
	})
	path = filepath.Join(t.TempDir(), "copy")
	if err := errors.Join(f.err, os.WriteFile(path, f.file, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}
