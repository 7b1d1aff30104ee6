package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// plainSandbox has files and no powers.
type plainSandbox struct{ sandbox.Sandbox }

func (plainSandbox) As(any) bool { return false }

// Without powers files and directories are copied all the same, and a link is an error that names it.
func TestCopyTreeWithoutPowers(t *testing.T) {
	sb, err := memory.NewSandboxes(nil).Open(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	plain := plainSandbox{sb}
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "dir/sub/file", []byte("x"), &sandbox.CreateOptions{Mode: 0o700}); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.CopyTree(t.Context(), plain, "dir", "copy"); err != nil {
		t.Fatal(err)
	}
	if info, err := sb.FS().Stat(t.Context(), "copy/sub/file"); err != nil || info.Size != 1 || info.Mode != 0o700 {
		t.Errorf("the copy: %+v, %v", info, err)
	}
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	if err := links.Symlink(t.Context(), "file", "dir/sub/link"); err != nil {
		t.Fatal(err)
	}
	err = sandbox.CopyTree(t.Context(), plain, "dir", "again")
	var about *fs.PathError
	if !errors.Is(err, sandbox.ErrUnsupported) || !errors.As(err, &about) || about.Path != "/workspace/dir/sub/link" {
		t.Errorf("a link without the power to make one: %v", err)
	}
}

// A file that nobody may touch is copied as that, though Create takes a mode of 0 for none.
func TestCopyTreeKeepsNoMode(t *testing.T) {
	sb, err := memory.NewSandboxes(nil).Open(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	if err := sandbox.WriteFile(t.Context(), sb.FS(), "file", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	attrs, _ := sandbox.As[sandbox.AttrSetter](sb)
	if err := attrs.Chmod(t.Context(), "file", 0); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.CopyTree(t.Context(), sb, "file", "copy"); err != nil {
		t.Fatal(err)
	}
	if info, err := sb.FS().Stat(t.Context(), "copy"); err != nil || info.Mode != 0 {
		t.Errorf("the copy: %+v, %v", info, err)
	}
}

func ExampleCopyTree() {
	ctx := context.Background()
	sb, err := memory.NewSandboxes(nil).Open(ctx, "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Close()
	if err := sandbox.WriteFile(ctx, sb.FS(), "site/index.html", []byte("hello"), nil); err != nil {
		fmt.Println(err)
		return
	}
	if err := sandbox.CopyTree(ctx, sb, "site", "backup/site"); err != nil {
		fmt.Println(err)
		return
	}
	text, err := sandbox.ReadFile(ctx, sb.FS(), "backup/site/index.html")
	fmt.Println(string(text), err)
	fmt.Println(sandbox.Classify(sandbox.CopyTree(ctx, sb, "site", "backup/site")).Kind)
	// Output:
	// hello <nil>
	// exist
}
