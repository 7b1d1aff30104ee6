package session_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/session"
)

// Mounts trap 15: what is purged takes its own folders with it, attachments
// too, what they held is removed, and of others' nothing.
func TestMountPurger(t *testing.T) {
	for _, c := range []struct {
		target string
		stay   []string
	}{
		{"session", []string{"ann's agent", "another session", "project q's agent", "project's agent"}},
		{"project", []string{"ann's agent", "project q's agent"}},
		{"user", []string{"another session", "project q's agent", "project's agent", "the session", "the session's attachments"}},
	} {
		inWorld(t, "purge of a "+c.target, immediate, func(t *testing.T, w *world) {
			mounts := w.db.Mounts()
			removed := 0
			purger, err := mount.NewPurger(mount.PurgerConfig{Store: mounts, Remove: func(context.Context, mount.Tombstone) error {
				removed++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			folders, err := mount.NewFolders(mount.FoldersConfig{Store: mounts})
			if err != nil {
				t.Fatal(err)
			}
			catalog, err := mount.NewCatalog(mount.CatalogConfig{Store: mounts, Directory: newDirectory()})
			if err != nil {
				t.Fatal(err)
			}
			r := w.purger(session.MountPurger(purger))
			s, _ := r.spawn(ann)
			names := map[mount.ID]string{}
			for name, f := range map[string]mount.Folder{
				"the session": {Project: "p", Session: s.ID}, "another session": {Project: "p", Session: "another"},
				"project's agent": {Project: "p", Agent: "builder"}, "project q's agent": {Project: "q", Agent: "builder"},
				"ann's agent": {Owner: "ann", Agent: "builder"},
			} {
				row, err := folders.GetOrCreate(t.Context(), f, "ann")
				if err != nil {
					t.Fatal(err)
				}
				names[row.ID] = name
			}
			kept, err := catalog.AttachmentsMount(t.Context(), ann, "p", s.ID)
			if err != nil {
				t.Fatal(err)
			}
			names[kept.ID] = "the session's attachments"

			target := map[string]session.PurgeTarget{"session": {Session: s.ID}, "project": {Project: "p"}, "user": {User: "ann"}}[c.target]
			rep, err := r.Purge(t.Context(), target, session.PurgeOptions{})
			gone := len(names) - len(c.stay)
			if err != nil || !rep.Done || rep.Purgers[0].Deleted != gone || removed != gone {
				t.Errorf("got %+v, %v; removed what %d held, want %d", rep, err, removed, gone)
			}
			var stay []string
			rows, err := mounts.Scan(t.Context(), "", 10)
			for _, row := range rows {
				stay = append(stay, names[row.ID])
			}
			slices.Sort(stay)
			if diff := cmp.Diff(c.stay, stay); diff != "" || err != nil {
				t.Errorf("(-want +got) %v\n%s", err, diff)
			}
		})
	}
}
