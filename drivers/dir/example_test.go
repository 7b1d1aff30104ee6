package dir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/mount"
)

func ExampleNew() {
	root, err := os.MkdirTemp("", "folders")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	mounter, err := dir.New(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	folder, err := mounter.Mount(context.Background(), mount.Spec{Row: mount.Row{
		ID: "0192f0c1-2ab4-7cde-8f01-23456789abcd", Scope: "project:web",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer folder.Release(context.Background())

	rel, _ := filepath.Rel(root, folder.HostDir())
	fmt.Println(rel)

	_, err = dir.New("")
	fmt.Println(err)
	// Output:
	// project%3aweb/0192f0c1-2ab4-7cde-8f01-23456789abcd
	// invalid root: must not be empty
}
