package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// A directory is carried from one sandbox into another.
func ExampleExportTar() {
	ctx := context.Background()
	boxes := memory.NewSandboxes(nil)
	from, err := boxes.Open(ctx, "from")
	if err != nil {
		log.Fatal(err)
	}
	defer from.Close()
	to, err := boxes.Open(ctx, "to")
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	if err := sandbox.WriteFile(ctx, from.FS(), "site/css/main.css", []byte("body {}\n"), nil); err != nil {
		log.Fatal(err)
	}

	var archive bytes.Buffer // or a pipe, or the body of a request: nothing is held in memory
	out, err := sandbox.ExportTar(ctx, from, "site", &archive, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Entries, "entries with", out.Bytes, "bytes")

	in, err := sandbox.ImportTar(ctx, to, "copy", &archive, &sandbox.TarOptions{
		MaxBytes: 1 << 20,
		Progress: func(p sandbox.TarProgress) { fmt.Println(p.Path, p.Bytes) },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(in.Entries, "entries,", in.Skipped, "left out")
	// Output:
	// 2 entries with 8 bytes
	// css/ 0
	// css/main.css 0
	// css/main.css 8
	// 2 entries, 0 left out
}

// An archive from somewhere is no way out of the directory it is imported into.
func ExampleImportTar() {
	ctx := context.Background()
	sb, err := memory.NewSandboxes(nil).Open(ctx, "test")
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()

	report, err := sandbox.ImportTar(ctx, sb, "upload", archiveOf("../secrets", "notes.txt"), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Entries, "made")
	for _, n := range report.Notes {
		fmt.Printf("%s: %v\n", n.Path, n.Reason)
	}
	// Output:
	// 1 made
	// ../secrets: name not allowed
}
