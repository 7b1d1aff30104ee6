package session_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// A session whose working directory is durable goes on where it was, in another
// machine. With files in object storage, mount/files has the Locker.
func ExampleCatalog_Spawn_durableWorkdir() {
	ctx, ann := context.Background(), access.Actor{User: "ann"}
	root, err := os.MkdirTemp("", "folders")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(root)
	folders, err := dir.New(root)
	if err != nil {
		panic(err)
	}
	db, people, boxes := memory.New(nil), memory.NewDirectory(), memory.NewSandboxes(nil)
	people.SetCode("ann", "", true)
	mounts, err := mount.New(mount.Config{Store: db.Mounts(), Mounter: folders, Locker: folders})
	if err != nil {
		panic(err)
	}
	service, err := session.New(session.Config{
		Store: db.Sessions(), Leases: db.Leases(), Directory: people, Mounts: mounts,
		Sandboxes: []sandbox.Provider{boxes}, KeySecret: []byte("at least thirty-two bytes of secret"), Deployment: "shop-eu",
	})
	if err != nil {
		panic(err)
	}

	s, _, err := service.Spawn(ctx, ann, session.Spawn{DurableWorkdir: true})
	if err != nil {
		panic(err)
	}
	work := session.WorkRequest{Session: s.ID, Ensure: true}
	_, err = service.Run(ctx, ann, work, func(ctx context.Context, w *session.Work) error {
		return sandbox.WriteFile(ctx, w.Sandbox().FS(), "notes", []byte("half done"), nil)
	})
	fmt.Println(err)

	boxes.Kill(boxes.Machines()[0].Incarnation) // the machine is lost, with its disk
	report, err := service.Run(ctx, ann, work, func(ctx context.Context, w *session.Work) error {
		notes, err := sandbox.ReadFile(ctx, w.Sandbox().FS(), "notes")
		fmt.Printf("%s\n", notes)
		return err
	})
	own := report.Mounts[0]
	fmt.Println(err, own.Path, own.Mode, own.State, "instead of generation", report.Replaced)
	// Output:
	// <nil>
	// half done
	// <nil> /workspace exclusive mounted instead of generation 1
}
