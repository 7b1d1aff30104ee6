package geesefs_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bunkroom/bunkroom/drivers/geesefs"
	"github.com/bunkroom/bunkroom/mount"
)

// mintFunc is a signer of a storage that exists for this example only.
type mintFunc func(g mount.Grant) mount.Credentials

func (f mintFunc) Sign(_ context.Context, g mount.Grant) (mount.Credentials, error) { return f(g), nil }

var folders = mintFunc(func(g mount.Grant) mount.Credentials {
	return mount.Credentials{
		Endpoint: "https://store.example.org", Bucket: "folders", Prefix: g.Prefix,
		AccessKey: "id", SecretKey: "hush", Expires: time.Now().Add(time.Hour),
	}
})

func ExampleNew() {
	dir, err := os.MkdirTemp("", "geesefs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	server, err := geesefs.New(geesefs.Config{Signer: folders, Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	_, err = geesefs.New(geesefs.Config{Signer: folders, Dir: "run"})
	fmt.Println(err)
	fmt.Printf("%+v\n", geesefs.FolderLimits())
	// Output:
	// invalid Dir: must be an absolute path, and not the root
	// {LosesSymlinks:true LosesAttributes:true NoHardLinks:true NoDatabases:true}
}

func ExampleNewInside() {
	_, err := geesefs.NewInside(geesefs.InsideConfig{Signer: folders, Dir: "../elsewhere"})
	fmt.Println(err)

	inside, err := geesefs.NewInside(geesefs.InsideConfig{Signer: folders, Dir: ".bunkroom/geesefs"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = inside.MountInside(context.Background(), nil, mount.Spec{Row: mount.Row{
		ID: "0192f0c1-2ab4-7cde-8f01-23456789abcd", Scope: "project:web",
	}}, "reviewer")
	fmt.Println(err)
	// Output:
	// invalid Dir: must not lead out of the working directory
	// invalid target: must be a clean absolute path, and not the root
}
