package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
)

const (
	atOnce = 16 // so many versions are deleted at once
	// passes is how often all is listed at most. What the last one does not find is gone, also where a store
	// leaves something out of a list from which something is deleted meanwhile.
	passes = 5
)

// Unversion is what files.Config.Unversion asks for, for the bucket of this
// package that is called so: it deletes every version of every object whose key begins with prefix, and the marks
// that the bucket keeps of deletions. What is deleted this way nobody brings
// back. In a bucket that keeps no versions it deletes the objects. A bucket that is a part of that one (blob.PrefixedBucket) is taken for
// that part; one that is called otherwise is refused.
//
// The keys that the bucket was opened with need s3:ListBucketVersions and
// s3:DeleteObjectVersion, which no folder's credentials have ([Policy]). What can't be deleted, as under an object
// lock, keeps nothing else from it; the error says how many that were, and joins what was said of some.
func Unversion(bucket string) func(ctx context.Context, b *blob.Bucket, prefix string) error {
	return func(ctx context.Context, b *blob.Bucket, prefix string) error {
		if prefix == "" {
			return errors.New("s3: unversion: an empty prefix would be the whole bucket")
		}
		var client *sdk.Client
		if !b.As(&client) {
			return errNotS3
		}
		whole, err := located(ctx, b, bucket, prefix)
		if err != nil {
			return fmt.Errorf("s3: versions below %q: %w", prefix, err)
		}
		u := unversioning{client: client, bucket: bucket}
		for range passes {
			found, err := u.pass(ctx, whole)
			switch {
			case err != nil:
				return fmt.Errorf("s3: versions below %q: %w", prefix, err)
			case u.failed > 0:
				return fmt.Errorf("s3: %d versions below %q not deleted: %w", u.failed, prefix, errors.Join(u.some...))
			case found == 0:
				return nil
			}
		}
		return fmt.Errorf("s3: below %q there are versions still: somebody writes there", prefix)
	}
}

// located is where in the bucket of that name the keys of b are that begin with
// prefix: b may be a part of it, which only a list that it is asked for tells.
func located(ctx context.Context, b *blob.Bucket, name, prefix string) (string, error) {
	var in *sdk.ListObjectsV2Input
	list := b.List(&blob.ListOptions{Prefix: prefix, BeforeList: func(as func(any) bool) error {
		if !as(&in) {
			return errNotS3
		}
		return nil
	}})
	if _, err := list.Next(ctx); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	switch {
	case in == nil:
		return "", errNotS3
	case aws.ToString(in.Bucket) != name:
		return "", fmt.Errorf("the bucket is %q, not %q", aws.ToString(in.Bucket), name)
	case !strings.HasSuffix(aws.ToString(in.Prefix), prefix):
		return "", fmt.Errorf("the bucket keeps it below %q", aws.ToString(in.Prefix))
	}
	return *in.Prefix, nil
}

// unversioning is one call of Unversion.
type unversioning struct {
	client *sdk.Client
	bucket string

	mu     sync.Mutex
	failed int
	some   []error
}

// pass lists all that there is, deletes it, and says how much that was.
func (u *unversioning) pass(ctx context.Context, prefix string) (found int, err error) {
	in := &sdk.ListObjectVersionsInput{Bucket: &u.bucket, Prefix: &prefix}
	for pages := sdk.NewListObjectVersionsPaginator(u.client, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return found, err
		}
		u.all(ctx, page)
		if ctx.Err() != nil {
			return found, ctx.Err()
		}
		found += len(page.Versions) + len(page.DeleteMarkers)
	}
	return found, nil
}

// all deletes what a page lists.
func (u *unversioning) all(ctx context.Context, page *sdk.ListObjectVersionsOutput) {
	turns := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	del := func(key, version *string) {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			_, err := u.client.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &u.bucket, Key: key, VersionId: version})
			if err != nil && !missing(err) { // else somebody else did it
				u.note(aws.ToString(key), err)
			}
		})
	}
	for _, v := range page.Versions {
		del(v.Key, v.VersionId)
	}
	for _, m := range page.DeleteMarkers {
		del(m.Key, m.VersionId)
	}
	running.Wait()
}

func (u *unversioning) note(key string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed++; len(u.some) < 3 {
		u.some = append(u.some, fmt.Errorf("%q: %w", key, err))
	}
}
