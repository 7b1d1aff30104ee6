package files_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

func ExampleNew() {
	ctx := context.Background()
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	all, err := files.New(files.Config{Bucket: bucket, SoleWriter: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	row := mount.Row{ID: "0192f0c1-2ab4-7cde-8f01-23456789abcd", Scope: "project:p"} // from mount.Folders
	folder, err := all.Folder(row)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := folder.Write(ctx, "notes/plan (1).md", strings.NewReader("# Plan"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Somebody else is faster.
	if _, err := folder.Write(ctx, "notes/plan (1).md", strings.NewReader("# Theirs"), nil); err != nil {
		fmt.Println(err)
		return
	}
	_, err = folder.Write(ctx, "notes/plan (1).md", strings.NewReader("# Mine"), &files.WriteOptions{IfMatch: first.ETag})
	var conflict *files.ConflictError
	fmt.Println("conflict:", errors.As(err, &conflict))

	list, err := folder.Level(ctx, "", &files.LevelOptions{View: files.ViewGit, Counts: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range list.Entries {
		fmt.Println(e.Path, e.Folder, e.Items)
	}
	// Output:
	// conflict: true
	// notes true 1
}

func ExampleDisposition() {
	fmt.Println(files.Disposition("attachment", "reports/résumé.pdf"))
	// Output: attachment; filename="r_sum_.pdf"; filename*=UTF-8''r%C3%A9sum%C3%A9.pdf
}
