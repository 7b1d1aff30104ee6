package sandbox_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Whatever is imported, into a directory that has links out of it, nothing beside the directory changes. T-96.
func FuzzImportTar(f *testing.F) {
	f.Add(archive(f, file("../a", "x"), symlink("../out", "l"), file("l/a", "x"), hardLink("l/kept", "h")).Bytes())
	f.Add(archive(f, symlink("/workspace/out", "d/l"), dir("d/l"), file("d/l/a", "x"), file("old/a", "x"), file("to-kept", "x")).Bytes())
	f.Add(archive(f, symlink(".", "a"), symlink("a/..", "b"), file("b/out/kept", "x"), dir("b"), file("./old/../kept", "x")).Bytes())
	f.Add([]byte(extended("path=../out/kept", "linkpath=/etc", "mtime=-9.9", "size=0")))
	f.Add([]byte(extended("GNU.sparse.major=0", "GNU.sparse.minor=1", "GNU.sparse.size=4096", "GNU.sparse.numblocks=0", "GNU.sparse.map=")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		sb := tarBox(t)
		links, _ := sandbox.As[sandbox.Symlinker](sb)
		if err := sandbox.WriteFile(t.Context(), sb.FS(), "out/kept", []byte("kept"), nil); err != nil {
			t.Fatal(err)
		}
		if err := sb.FS().Mkdir(t.Context(), "in"); err != nil {
			t.Fatal(err)
		}
		for link, target := range map[string]string{"in/old": "../out", "in/to-kept": "/workspace/out/kept", "in/new": "../out/new"} {
			if err := links.Symlink(t.Context(), target, link); err != nil {
				t.Fatal(err)
			}
		}
		report, err := sandbox.ImportTar(t.Context(), sb, "in", bytes.NewReader(data), &sandbox.TarOptions{MaxBytes: 1 << 20, MaxEntries: 1000})
		if report.Bytes > 1<<20 || report.Entries+report.Skipped > 1000 || int64(len(report.Notes)) > report.Skipped {
			t.Errorf("report %+v, %v", report, err)
		}
		outside := tree(t, sb, ".")
		maps.DeleteFunc(outside, func(name, _ string) bool { return name == "in" || strings.HasPrefix(name, "in/") })
		if diff := cmp.Diff(map[string]string{"out": "/", "out/kept": "kept"}, outside); diff != "" {
			t.Errorf("outside (-want +got)\n%s", diff)
		}
	})
}
