package filestest

import (
	"slices"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/mount/files"
)

func memory(t *testing.T) files.Config {
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { _ = bucket.Close() })
	return files.Config{Bucket: bucket, SoleWriter: true}
}

func TestMemory(t *testing.T) {
	TestBucket(t, files.Caps{IfAbsent: files.Native, IfMatch: files.Locked, DeleteIfMatch: files.Locked}, memory)
}

func TestMemoryWhereOthersWrite(t *testing.T) {
	TestBucket(t, files.Caps{IfAbsent: files.Native}, func(t *testing.T) files.Config {
		return files.Config{Bucket: memory(t).Bucket, Namespace: "some/where"}
	})
}

// What a bucket can't do is found, by the check that is for it.
func TestChecksFindWhatIsBroken(t *testing.T) {
	slow := []string{"order", "large", "failing body", "ended context"}
	all := files.Caps{IfAbsent: files.Native, IfMatch: files.Locked, DeleteIfMatch: files.Locked}
	for _, c := range []struct {
		broken string
		want   files.Caps
		open   func(t *testing.T) files.Config
		found  []string // nil = by every check
	}{
		{"it claims conditions that it does not keep", files.Caps{IfAbsent: files.Native, IfMatch: files.Native, DeleteIfMatch: files.Native},
			func(t *testing.T) files.Config { return files.Config{Bucket: memory(t).Bucket} },
			[]string{"probe", "conditions", "overtaken", "nothing lost", "large"}},
		{"it can do more than it claims", files.Caps{}, memory, []string{"probe", "conditions"}},
		{"all of it is closed", all, func(t *testing.T) files.Config {
			c := memory(t)
			if err := c.Bucket.Close(); err != nil {
				t.Fatal(err)
			}
			return c
		}, nil},
		{"what it writes lies elsewhere than what it reads", all, func(t *testing.T) files.Config {
			c := memory(t)
			c.Bucket = blob.PrefixedBucket(c.Bucket, "deep") // without a slash
			if err := c.Bucket.WriteAll(t.Context(), "mounts/project%3ap/0192f0c1-2ab4-7cde-8f01-000000000001/stray", nil, nil); err != nil {
				t.Fatal(err)
			}
			return c
		}, []string{"order", "level", "markers", "copy", "rename", "delete", "apart", "missing", "names", "backslash", "failing body", "ended context", "probe"}},
		{"it is a tree of files, where a file can't have others below it", all, func(t *testing.T) files.Config {
			bucket, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bucket.Close() })
			return files.Config{Bucket: bucket, SoleWriter: true}
		}, []string{"delete"}},
	} {
		for _, one := range checks() {
			finds := c.found == nil || slices.Contains(c.found, one.name)
			if !finds && slices.Contains(slow, one.name) {
				continue
			}
			err := one.try(t.Context(), c.open(t), c.want)
			switch {
			case finds && err == nil:
				t.Errorf("%s: %s does not find it", c.broken, one.name)
			case !finds && err != nil:
				t.Errorf("%s: %s fails too: %v", c.broken, one.name, err)
			}
		}
	}
}
