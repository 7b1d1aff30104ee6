package s3_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

// versionsName is a bucket that keeps versions. It is one for all tests: to make many is more than the store has room for.
const versionsName = "versions"

var versionsMade sync.Once

// versioned is that bucket of the real store.
type versioned struct {
	store
	name   string
	bucket *blob.Bucket
}

func keepVersions(t *testing.T) versioned {
	t.Helper()
	v := versioned{store: open(t), name: versionsName}
	versionsMade.Do(func() {
		if _, err := v.admin.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: &v.name}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.admin.PutBucketVersioning(t.Context(), &sdk.PutBucketVersioningInput{
			Bucket: &v.name, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		}); err != nil {
			t.Fatal(err)
		}
	})
	v.bucket = openBucket(t, s3.BucketConfig{
		Bucket: v.name, Endpoint: v.Endpoint, PathStyle: true, Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil },
	})
	return v
}

// all are the versions of objects below a prefix, and the marks of deletions.
func (v versioned) all(t *testing.T, prefix string) (versions []types.ObjectVersion, marks []types.DeleteMarkerEntry) {
	t.Helper()
	pages := sdk.NewListObjectVersionsPaginator(v.admin, &sdk.ListObjectVersionsInput{Bucket: &v.name, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		versions, marks = append(versions, page.Versions...), append(marks, page.DeleteMarkers...)
	}
	return versions, marks
}

func (v versioned) files(t *testing.T, unversion func(context.Context, *blob.Bucket, string) error) *files.Files {
	t.Helper()
	f, err := files.New(files.Config{Bucket: v.bucket, Precondition: s3.Precondition, Unversion: unversion})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// drafts writes a file three times and deletes it, and leaves another. It returns the folder.
func (v versioned) drafts(t *testing.T, f *files.Files, row mount.Row) *files.Folder {
	t.Helper()
	d, err := f.Folder(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if _, err := d.Write(t.Context(), "plan.md", strings.NewReader(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Write(t.Context(), "notes/kept.md", strings.NewReader("kept"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Delete(t.Context(), "plan.md", nil); err != nil {
		t.Fatal(err)
	}
	return d
}

func freshRow() mount.Row {
	return mount.Row{ID: mount.ID(id.New()), Scope: "project:p", Kind: mount.KindAgent}
}

// There was no versioning and no undo. A bucket that keeps versions has it: the host brings
// back what was deleted, and what was overwritten.
func TestDeletionIsUndoneWhereVersionsAreKept(t *testing.T) {
	v := keepVersions(t)
	d := v.drafts(t, v.files(t, nil), freshRow())
	if _, err := d.ReadText(t.Context(), "plan.md"); !errors.Is(err, files.ErrNotFound) {
		t.Fatalf("deleted: %v", err)
	}
	key := string(d.Prefix()) + "plan.md"
	versions, marks := v.all(t, key)
	if len(versions) != 3 || len(marks) != 1 {
		t.Fatalf("%d versions, %d marks", len(versions), len(marks))
	}
	if _, err := v.admin.DeleteObject(t.Context(), &sdk.DeleteObjectInput{Bucket: &v.name, Key: &key, VersionId: marks[0].VersionId}); err != nil {
		t.Fatal(err)
	}
	if text, err := d.ReadText(t.Context(), "plan.md"); err != nil || text.Content != "three" {
		t.Errorf("brought back: %+v, %v", text, err)
	}
	oldest := versions[len(versions)-1] // they are listed newest first
	from := v.name + "/" + strings.ReplaceAll(key, "%", "%25") + "?versionId=" + aws.ToString(oldest.VersionId)
	if _, err := v.admin.CopyObject(t.Context(), &sdk.CopyObjectInput{Bucket: &v.name, Key: &key, CopySource: &from}); err != nil {
		t.Fatal(err)
	}
	if text, err := d.ReadText(t.Context(), "plan.md"); err != nil || text.Content != "one" {
		t.Errorf("as it was first: %+v, %v", text, err)
	}
}

// In such a bucket a deletion only hides. A purge that is not told how to remove versions leaves
// all that was ever written; one that is leaves nothing of the folder, nor of its lock, and everything of others.
func TestPurgeWhereVersionsAreKept(t *testing.T) {
	v := keepVersions(t)
	plain, whole := v.files(t, nil), v.files(t, s3.Unversion(v.name))
	row, other := freshRow(), freshRow()
	d, sibling := v.drafts(t, plain, row), v.drafts(t, plain, other)
	_, rest, _ := strings.Cut(string(d.Prefix()), "mounts/")
	lock := "mounts/.bunkroom-locks/" + strings.TrimSuffix(rest, "/")
	for range 2 { // as a lock that is renewed
		if err := put(t.Context(), v.admin, v.name, lock); err != nil {
			t.Fatal(err)
		}
	}
	gone := mount.Tombstone{ID: row.ID, Scope: row.Scope}
	if err := plain.Purge(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if now, err := list(t.Context(), v.admin, v.name, string(d.Prefix()), ""); err != nil || len(now) != 0 {
		t.Errorf("there is %q, %v", now, err)
	}
	if versions, marks := v.all(t, string(d.Prefix())); len(versions) != 4 || len(marks) < 2 {
		t.Errorf("without Unversion %d versions and %d marks are left", len(versions), len(marks))
	}
	if versions, _ := v.all(t, lock); len(versions) != 2 {
		t.Errorf("%d versions of the lock", len(versions))
	}
	for range 2 { // a purge that was done already succeeds
		if err := whole.Purge(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{string(d.Prefix()), lock} {
		if versions, marks := v.all(t, prefix); len(versions)+len(marks) != 0 {
			t.Errorf("below %s there are %d versions and %d marks", prefix, len(versions), len(marks))
		}
	}
	if versions, marks := v.all(t, string(sibling.Prefix())); len(versions) != 4 || len(marks) != 1 {
		t.Errorf("of another folder %d versions and %d marks are left", len(versions), len(marks))
	}
}

// More of one object than are deleted at once.
func TestUnversionManyVersions(t *testing.T) {
	v := keepVersions(t)
	const many = 40
	prefix := string(newFolder(t))
	for range many {
		if err := put(t.Context(), v.admin, v.name, prefix+"f"); err != nil {
			t.Fatal(err)
		}
	}
	if versions, _ := v.all(t, prefix); len(versions) != many {
		t.Errorf("%d versions", len(versions))
	}
	if err := s3.Unversion(v.name)(t.Context(), v.bucket, prefix); err != nil {
		t.Fatal(err)
	}
	if versions, marks := v.all(t, prefix); len(versions)+len(marks) != 0 {
		t.Errorf("%d versions and %d marks are left", len(versions), len(marks))
	}
}

// Of a bucket that is a part of another it is that part of which nothing is
// left, and what is called the same outside of it stays. One that is called otherwise is refused.
func TestUnversionOfAPart(t *testing.T) {
	v := keepVersions(t)
	prefix := string(newFolder(t))
	for _, key := range []string{prefix + "f", "deep/" + prefix + "f"} {
		for range 2 {
			if err := put(t.Context(), v.admin, v.name, key); err != nil {
				t.Fatal(err)
			}
		}
	}
	part := blob.PrefixedBucket(openBucket(t, s3.BucketConfig{
		Bucket: v.name, Endpoint: v.Endpoint, PathStyle: true, Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil },
	}), "deep/")
	defer part.Close()
	if err := s3.Unversion(bucketName)(t.Context(), part, prefix); err == nil || !strings.Contains(err.Error(), v.name) {
		t.Errorf("by another name: %v", err)
	}
	if err := s3.Unversion(v.name)(t.Context(), part, prefix); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"deep/" + prefix: 0, prefix: 2} {
		if versions, marks := v.all(t, key); len(versions) != want || len(marks) != 0 {
			t.Errorf("below %s there are %d versions and %d marks, want %d versions", key, len(versions), len(marks), want)
		}
	}
}

func TestUnversionRefuses(t *testing.T) {
	other := memblob.OpenBucket(nil)
	defer other.Close()
	if err := s3.Unversion("b")(t.Context(), other, "mounts/"); err == nil || !strings.Contains(err.Error(), "not one of this package") {
		t.Errorf("a bucket of another kind: %v", err)
	}
	if err := s3.Unversion("b")(t.Context(), other, ""); err == nil || !strings.Contains(err.Error(), "empty prefix") {
		t.Errorf("without a prefix: %v", err)
	}
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s3.Unversion(bucketName)(ctx, s.bucket(t, adminKeys()), "mounts/none/"); !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
	// A folder's own credentials may not even look for versions.
	prefix := newFolder(t)
	for name, way := range s.ways(t) {
		c := sign(t, s.signer(t, way, nil), mount.Grant{Prefix: prefix, Run: "run"})
		if err := s3.Unversion(bucketName)(t.Context(), s.bucket(t, scoped(c)), string(prefix)); !denied(err) {
			t.Errorf("%s: with a folder's credentials: %v", name, err)
		}
	}
}
