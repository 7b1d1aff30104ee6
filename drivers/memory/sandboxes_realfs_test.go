package memory_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// The files in memory behave as those of a real file system: any run of
// operations has the same outcomes and leaves the same files in the working
// directory and in a bind, which is a directory of this machine.
func TestFilesAreAsRealOnes(t *testing.T) {
	boxes := memory.NewSandboxes(nil)
	runs := 0
	rapid.Check(t, func(r *rapid.T) {
		runs++
		sb, err := boxes.Open(t.Context(), fmt.Sprint("run-", runs))
		if err != nil {
			r.Fatal(err)
		}
		defer sb.Close()
		hostDir := filepath.Join(t.TempDir(), "bind")
		if err := os.Mkdir(hostDir, 0o755); err != nil {
			r.Fatal(err)
		}
		binder, _ := sandbox.As[sandbox.Binder](sb)
		if _, err := binder.Bind(t.Context(), hostDir, "/workspace-agent/real"); err != nil {
			r.Fatal(err)
		}
		links, _ := sandbox.As[sandbox.Symlinker](sb)
		attrs, _ := sandbox.As[sandbox.AttrSetter](sb)
		name := rapid.SampledFrom([]string{"a", "b", "c", "a/a", "a/b", "b/a/c", "a/../b", "./c", "b/../b/a"})
		target := rapid.SampledFrom([]string{"a", "b", "../a", "../b", "c", "./b/.", "../../../..", "../../../../etc", "a/a", "."})
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			op := rapid.SampledFrom([]string{
				"write", "write exclusive", "write", "mkdir", "remove", "remove all", "rename", "rename to what is free", "symlink", "stat", "lstat", "read", "read a part",
				"list", "readlink", "chmod",
			}).Draw(r, "op")
			p, q, text := name.Draw(r, "path"), name.Draw(r, "other"), target.Draw(r, "target")
			mode := rapid.SampledFrom([]fs.FileMode{0, 0o600, 0o755}).Draw(r, "mode")
			apply := func(root string) string {
				at, to := root+"/"+p, root+"/"+q
				var err error
				result := ""
				switch op {
				case "write", "write exclusive":
					err = sandbox.WriteFile(t.Context(), sb.FS(), at, []byte(text), &sandbox.CreateOptions{Exclusive: op != "write", Mode: mode})
				case "mkdir":
					err = sb.FS().Mkdir(t.Context(), at)
				case "remove", "remove all":
					err = sb.FS().Remove(t.Context(), at, &sandbox.RemoveOptions{Recursive: op != "remove"})
				case "rename":
					err = sb.FS().Rename(t.Context(), at, to, nil)
				case "rename to what is free":
					err = sb.FS().Rename(t.Context(), at, to, &sandbox.RenameOptions{NoReplace: true})
				case "chmod":
					err = attrs.Chmod(t.Context(), at, mode|0o700)
				case "lstat":
					var info sandbox.FileInfo
					info, err = sb.FS().Lstat(t.Context(), at)
					result = describe(info)
				case "read a part":
					var part io.ReadCloser
					if part, err = sb.FS().Open(t.Context(), at, &sandbox.OpenOptions{Offset: int64(len(q)), Limit: int64(len(p))}); err == nil {
						var data []byte
						data, err = io.ReadAll(part)
						result = string(data)
						part.Close()
					}
				case "symlink":
					err = links.Symlink(t.Context(), text, at)
				case "stat":
					var info sandbox.FileInfo
					info, err = sb.FS().Stat(t.Context(), at)
					result = describe(info)
				case "read":
					var data []byte
					data, err = sandbox.ReadFile(t.Context(), sb.FS(), at)
					result = string(data)
				case "list":
					var list []string
					for info, e := range sb.FS().ReadDir(t.Context(), at) {
						if err = e; err == nil {
							list = append(list, describe(info))
						}
					}
					slices.Sort(list)
					result = strings.Join(list, " ")
				case "readlink":
					result, err = links.Readlink(t.Context(), at)
				}
				return kindOf(err, at, to) + " " + result
			}
			inMemory, real := apply("/workspace"), apply("/workspace-agent/real")
			if inMemory != real {
				r.Fatalf("%s %s (%s, %q): in memory %q, really %q", op, p, q, text, inMemory, real)
			}
		}
		if diff := cmp.Diff(walk(t, sb, "/workspace-agent/real"), walk(t, sb, "/workspace")); diff != "" {
			r.Fatalf("files (-real +in memory)\n%s", diff)
		}
	})
}

func describe(i sandbox.FileInfo) string {
	if i.Kind == 0 {
		return ""
	}
	return fmt.Sprint(i.Name, " ", i.Kind, " ", i.Size, " ", i.Mode)
}

// walk lists the files below root with what is in them.
func walk(t *testing.T, sb sandbox.Sandbox, root string) (all []string) {
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	for info, err := range sb.FS().ReadDir(t.Context(), root) {
		if err != nil {
			return append(all, err.Error())
		}
		p := root + "/" + info.Name
		line := describe(info)
		switch info.Kind {
		case sandbox.KindFile:
			data, err := sandbox.ReadFile(t.Context(), sb.FS(), p)
			line += fmt.Sprintf(" %q %v", data, err)
		case sandbox.KindSymlink:
			target, err := links.Readlink(t.Context(), p)
			line += fmt.Sprintf(" %q %v", target, err)
		case sandbox.KindDir:
			for _, below := range walk(t, sb, p) {
				all = append(all, info.Name+"/"+below)
			}
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}
