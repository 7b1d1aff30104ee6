package files

import (
	"context"
	"errors"
	"slices"
	"testing"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// A purge has the versions of the folder and of its lock removed, once nothing is there any
// more; where that fails it has failed, and what the mount held is not forgotten.
func TestPurgeRemovesVersions(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		var asked []string
		away := errors.New("no right to versions")
		var fails error
		c.Unversion = func(ctx context.Context, b *blob.Bucket, prefix string) error {
			if b != c.Bucket {
				t.Error("another bucket")
			}
			if _, err := b.List(&blob.ListOptions{Prefix: prefix}).Next(ctx); err == nil {
				t.Errorf("below %s something is there still", prefix)
			}
			asked = append(asked, prefix)
			return fails
		}
		d := open(t, c)
		gone := mount.Tombstone{ID: row().ID, Scope: row().Scope}
		locks, path, err := d.f.lockOf(d.prefix)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{string(d.prefix), locks.key(path)}
		fill(t, d, "a", "dir/b", "empty/")
		if err := d.f.Purge(t.Context(), gone); err != nil || !slices.Equal(asked, want) {
			t.Errorf("Purge = %v, asked for %q, want %q", err, asked, want)
		}
		fails = away
		if err := d.f.Purge(t.Context(), gone); !errors.Is(err, away) || !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("Purge = %v", err)
		}
		fails = nil
		if err := d.f.Purge(t.Context(), gone); err != nil {
			t.Errorf("Purge again: %v", err)
		}
	})
}
