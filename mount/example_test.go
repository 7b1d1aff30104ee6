package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/dir"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/sandbox"
)

// An agent keeps a note in one session's sandbox and finds it in another's.
func ExampleNew() {
	ctx := context.Background()
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
	manager, err := mount.New(mount.Config{
		Store:   memory.New(nil).Mounts(),
		Mounter: mounter,
		NewID:   func() string { return "0192f0c1-2ab4-7cde-8f01-23455e0c3f1a" }, // for the output below; leave it out
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	boxes := memory.NewSandboxes(nil)
	work := func(session string, do func(sb sandbox.Sandbox, folder string) error) error {
		sb, err := boxes.Open(ctx, session)
		if err != nil {
			return err
		}
		defer sb.Close()
		carried, err := manager.Carry(ctx, sb, mount.Request{
			Project: "web", Owner: "ana", Agent: "reviewer", AgentName: "Code Reviewer",
		})
		if err != nil {
			return err
		}
		defer carried.Release(ctx)
		fmt.Println(session, carried.Outcomes[0].State, carried.Env)
		return do(sb, carried.Outcomes[0].Path)
	}
	err = work("monday", func(sb sandbox.Sandbox, folder string) error {
		return sandbox.WriteFile(ctx, sb.FS(), folder+"/note", []byte("tabs, not spaces"), nil)
	})
	if err != nil {
		fmt.Println(err)
	}
	err = work("tuesday", func(sb sandbox.Sandbox, folder string) error {
		note, err := sandbox.ReadFile(ctx, sb.FS(), folder+"/note")
		fmt.Printf("%s\n", note)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// monday mounted [BUNKROOM_AGENT_DIR=/workspace-agent/code-reviewer-5e0c3f1a]
	// tuesday mounted [BUNKROOM_AGENT_DIR=/workspace-agent/code-reviewer-5e0c3f1a]
	// tabs, not spaces
}

// To look never makes a folder; to use it does, once.
func ExampleNewFolders() {
	ctx := context.Background()
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: memory.New(nil).Mounts()})
	if err != nil {
		fmt.Println(err)
		return
	}
	folder := mount.Folder{Project: "web", Agent: "reviewer"}
	_, err = folders.Find(ctx, folder)
	fmt.Println(errors.Is(err, mount.ErrNotFound))

	first, err := folders.GetOrCreate(ctx, folder, "ana")
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := folders.GetOrCreate(ctx, folder, "bob")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(first.ID == again.ID, again.CreatedBy)
	fmt.Println(first.Scope, first.Slug)
	// Output:
	// true
	// true ana
	// project:web __bkr__agent__06cbfb73-88fe-5cdd-954e-5a9744f9f489__default
}

// A member of a project makes a folder, and somebody who is none does not learn of it.
func ExampleNewCatalog() {
	ctx := context.Background()
	people := memory.NewDirectory()
	people.AddProject("web", "ana", "free")
	people.SetCode("ana", "web", true)
	catalog, err := mount.NewCatalog(mount.CatalogConfig{Store: memory.New(nil).Mounts(), Directory: people})
	if err != nil {
		fmt.Println(err)
		return
	}
	row, err := catalog.Create(ctx, access.Actor{User: "ana"}, mount.Custom{Project: "web", Slug: "assets", Name: "Assets"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(row.Scope, row.Slug, row.Name)

	_, err = catalog.Get(ctx, access.Actor{User: "eve"}, row.ID)
	fmt.Println(errors.Is(err, mount.ErrNotFound))
	// Output:
	// project:web assets Assets
	// true
}

// The folders of a session go with it: the rows, and then what they held.
func ExampleNewPurger() {
	ctx := context.Background()
	store := memory.New(nil).Mounts()
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := folders.GetOrCreate(ctx, mount.Folder{Project: "web", Session: "s1"}, "ana"); err != nil {
		fmt.Println(err)
		return
	}
	purger, err := mount.NewPurger(mount.PurgerConfig{
		Store: store,
		Remove: func(ctx context.Context, t mount.Tombstone) error {
			fmt.Println("removing what is kept for", t.Session, "in", t.Scope)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for {
		n, err := purger.DeleteSession(ctx, "s1", mount.MaxListed)
		if err != nil {
			fmt.Println(err)
			return
		}
		if n == 0 {
			break
		}
	}
	// Output:
	// removing what is kept for s1 in project:web
}

func ExampleNewCollector() {
	ctx := context.Background()
	store := memory.New(nil).Mounts()
	folders, err := mount.NewFolders(mount.FoldersConfig{Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, agent := range []access.AgentID{"reviewer", "writer"} {
		if _, err := folders.GetOrCreate(ctx, mount.Folder{Project: "web", Agent: agent}, "ana"); err != nil {
			fmt.Println(err)
			return
		}
	}
	purger, err := mount.NewPurger(mount.PurgerConfig{Store: store, Remove: func(context.Context, mount.Tombstone) error { return nil }})
	if err != nil {
		fmt.Println(err)
		return
	}
	collector, err := mount.NewCollector(mount.CollectorConfig{
		Store: store, Purger: purger,
		Gone: func(_ context.Context, who mount.Owner) (access.Tri, error) {
			return access.TriOf(who.Agent == "writer"), nil // as the host's own database says
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for after := mount.ID(""); ; {
		got, err := collector.Collect(ctx, mount.CollectOptions{After: after})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, item := range got.Items {
			fmt.Println("folder of", item.Row.Agent, "is", item.Fate)
		}
		if after = got.Last; after == "" {
			break
		}
	}
	// Output:
	// folder of writer is put away
}
