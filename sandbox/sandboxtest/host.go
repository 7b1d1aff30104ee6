package sandboxtest

import (
	"os"
	"path/filepath"
	"slices"
)

// put fills a directory of the host with the files "file", "secret" and
// "dir/x", all with the same text.
func (e *env) put(dir, text string) {
	e.Helper()
	e.ok(os.Mkdir(filepath.Join(dir, "dir"), 0o755), "mkdir")
	for _, name := range []string{"file", "secret", "dir/x"} {
		e.ok(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644), "write")
	}
}

// untouched ends the check where a directory that put has filled with "outside" is not as it was.
func (e *env) untouched(dir string) {
	e.Helper()
	for _, name := range []string{"file", "secret", "dir/x"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "outside" {
			e.fatalf("%s, which is outside, holds %q, %v", name, got, err)
		}
	}
	for at, want := range map[string][]string{".": {"dir", "file", "secret"}, "dir": {"x"}} {
		var names []string
		entries, err := os.ReadDir(filepath.Join(dir, at))
		e.ok(err, "read what is outside")
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if !slices.Equal(names, want) {
			e.fatalf("outside there is now %q in %q", names, at)
		}
	}
}
