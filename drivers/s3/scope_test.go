package s3_test

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/bunkroom/bunkroom/mount"
)

// field is what attempts are made on: a folder with an object, and objects
// outside of it that its credentials must not reach.
type field struct {
	in      string // the folder's prefix
	sibling string // a prefix that begins with the folder's, but for the slash
	bare    string // the key that is the prefix without its slash
	other   string // another folder's prefix
}

// outside are the keys of the objects in the bucket that are not the folder's.
func (f field) outside() []string { return []string{f.sibling + "x", f.bare, f.other + "x"} }

func (s store) field(t *testing.T) field {
	t.Helper()
	in := string(newFolder(t))
	bare := strings.TrimSuffix(in, "/")
	f := field{in: in, bare: bare + "!", sibling: bare + "bc/", other: string(newFolder(t))}
	for _, key := range append(f.outside(), in+"x") {
		if err := put(t.Context(), s.admin, bucketName, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(t.Context(), s.admin, otherBucket, in+"x"); err != nil {
		t.Fatal(err)
	}
	return f
}

// attempt is one thing tried with credentials of a folder.
type attempt struct {
	rule string
	try  func(context.Context, *sdk.Client, field) error
}

func copyFrom(from func(field) string) func(context.Context, *sdk.Client, field) error {
	return func(ctx context.Context, c *sdk.Client, f field) error {
		_, err := c.CopyObject(ctx, &sdk.CopyObjectInput{
			Bucket: aws.String(bucketName), Key: aws.String(f.in + "copied"), CopySource: aws.String(strings.ReplaceAll(from(f), "%", "%25")),
		})
		return err
	}
}

func listing(bucket string, prefix func(field) string, delimiter string) func(context.Context, *sdk.Client, field) error {
	return func(ctx context.Context, c *sdk.Client, f field) error {
		_, err := list(ctx, c, bucket, prefix(f), delimiter)
		return err
	}
}

// reads are what any credentials of the folder may do.
func reads() []attempt {
	return []attempt{
		{"read an object", func(ctx context.Context, c *sdk.Client, f field) error { return get(ctx, c, bucketName, f.in+"x") }},
		{"look at an object", func(ctx context.Context, c *sdk.Client, f field) error {
			_, err := c.HeadObject(ctx, &sdk.HeadObjectInput{Bucket: aws.String(bucketName), Key: aws.String(f.in + "x")})
			return err
		}},
		{"list the folder, with the slash", listing(bucketName, func(f field) string { return f.in }, "")},
		{"list one level of it", listing(bucketName, func(f field) string { return f.in }, "/")},
		{"list a directory in it", listing(bucketName, func(f field) string { return f.in + "dir/" }, "/")},
		{"ask where the bucket is (T-28)", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.GetBucketLocation(ctx, &sdk.GetBucketLocationInput{Bucket: aws.String(bucketName)})
			return err
		}},
		{"list unfinished uploads without a prefix (T-28)", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.ListMultipartUploads(ctx, &sdk.ListMultipartUploadsInput{Bucket: aws.String(bucketName)})
			return err
		}},
	}
}

// writes are what credentials may do that are not for reading only.
func writes() []attempt {
	return []attempt{
		{"write an object", func(ctx context.Context, c *sdk.Client, f field) error { return put(ctx, c, bucketName, f.in+"y") }},
		{"write a deep one", func(ctx context.Context, c *sdk.Client, f field) error {
			return put(ctx, c, bucketName, f.in+"a/b/c d+é")
		}},
		{"copy within the folder", copyFrom(func(f field) string { return bucketName + "/" + f.in + "x" })},
		{"upload in parts (T-29)", inParts(func(f field) string { return f.in + "parts" })},
		{"give an upload up", func(ctx context.Context, c *sdk.Client, f field) error {
			up, err := c.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{Bucket: aws.String(bucketName), Key: aws.String(f.in + "given up")})
			if err != nil {
				return err
			}
			_, err = c.AbortMultipartUpload(ctx, &sdk.AbortMultipartUploadInput{Bucket: up.Bucket, Key: up.Key, UploadId: up.UploadId})
			return err
		}},
		{"delete an object", func(ctx context.Context, c *sdk.Client, f field) error { return remove(ctx, c, bucketName, f.in+"y") }},
	}
}

func inParts(key func(field) string) func(context.Context, *sdk.Client, field) error {
	return func(ctx context.Context, c *sdk.Client, f field) error {
		up, err := c.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{Bucket: aws.String(bucketName), Key: aws.String(key(f))})
		if err != nil {
			return err
		}
		part, err := c.UploadPart(ctx, &sdk.UploadPartInput{
			Bucket: up.Bucket, Key: up.Key, UploadId: up.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part"),
		})
		if err != nil {
			return err
		}
		parts, err := c.ListParts(ctx, &sdk.ListPartsInput{Bucket: up.Bucket, Key: up.Key, UploadId: up.UploadId})
		if err == nil && len(parts.Parts) != 1 {
			err = errors.New("the part is not listed")
		}
		if err != nil {
			return err
		}
		_, err = c.CompleteMultipartUpload(ctx, &sdk.CompleteMultipartUploadInput{
			Bucket: up.Bucket, Key: up.Key, UploadId: up.UploadId,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}},
		})
		return err
	}
}

// others are what no credentials of a folder may do.
func others() []attempt {
	all := []attempt{
		{"list without a prefix", listing(bucketName, func(field) string { return "" }, "")},
		{"list the top level", listing(bucketName, func(field) string { return "" }, "/")},
		{"list by the prefix without its slash (T-27)", listing(bucketName, func(f field) string { return strings.TrimSuffix(f.in, "/") }, "")},
		{"list the sibling", listing(bucketName, func(f field) string { return f.sibling }, "")},
		{"list another folder", listing(bucketName, func(f field) string { return f.other }, "")},
		{"list all folders", listing(bucketName, func(field) string { return "mounts/" }, "/")},
		{"list another bucket", listing(otherBucket, func(f field) string { return f.in }, "")},
		{"list in the old way, without a prefix", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.ListObjects(ctx, &sdk.ListObjectsInput{Bucket: aws.String(bucketName)})
			return err
		}},
		{"list versions", func(ctx context.Context, c *sdk.Client, f field) error {
			_, err := c.ListObjectVersions(ctx, &sdk.ListObjectVersionsInput{Bucket: aws.String(bucketName)})
			return err
		}},
		{"read from another bucket", func(ctx context.Context, c *sdk.Client, f field) error { return get(ctx, c, otherBucket, f.in+"x") }},
		{"write into another bucket", func(ctx context.Context, c *sdk.Client, f field) error { return put(ctx, c, otherBucket, f.in+"y") }},
		{"delete from another bucket", func(ctx context.Context, c *sdk.Client, f field) error { return remove(ctx, c, otherBucket, f.in+"x") }},
		{"write at the root of the bucket", func(ctx context.Context, c *sdk.Client, _ field) error { return put(ctx, c, bucketName, "root") }},
		{"copy from the sibling", copyFrom(func(f field) string { return bucketName + "/" + f.sibling + "x" })},
		{"copy from another folder", copyFrom(func(f field) string { return bucketName + "/" + f.other + "x" })},
		{"copy from another bucket", copyFrom(func(f field) string { return otherBucket + "/" + f.in + "x" })},
		{"copy a part from another folder", func(ctx context.Context, c *sdk.Client, f field) error {
			up, err := c.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{Bucket: aws.String(bucketName), Key: aws.String(f.in + "stolen")})
			if denied(err) {
				return err // credentials to read only
			}
			if err != nil {
				return errors.New("the upload could not be begun")
			}
			_, err = c.UploadPartCopy(ctx, &sdk.UploadPartCopyInput{
				Bucket: up.Bucket, Key: up.Key, UploadId: up.UploadId, PartNumber: aws.Int32(1),
				CopySource: aws.String(strings.ReplaceAll(bucketName+"/"+f.other+"x", "%", "%25")),
			})
			return err
		}},
		{"upload in parts into another folder", inParts(func(f field) string { return f.other + "parts" })},
		{"make a bucket", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.CreateBucket(ctx, &sdk.CreateBucketInput{Bucket: aws.String("another-one")})
			return err
		}},
		{"delete the bucket", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.DeleteBucket(ctx, &sdk.DeleteBucketInput{Bucket: aws.String(bucketName)})
			return err
		}},
		{"give the bucket a policy", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.PutBucketPolicy(ctx, &sdk.PutBucketPolicyInput{Bucket: aws.String(bucketName), Policy: aws.String(
				`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::` + bucketName + `/*"}]}`)})
			return err
		}},
		{"read the bucket's policy", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.GetBucketPolicy(ctx, &sdk.GetBucketPolicyInput{Bucket: aws.String(bucketName)})
			return err
		}},
		{"keep versions of the bucket", func(ctx context.Context, c *sdk.Client, _ field) error {
			_, err := c.PutBucketVersioning(ctx, &sdk.PutBucketVersioningInput{Bucket: aws.String(bucketName),
				VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
			return err
		}},
		{"make an object everybody's", func(ctx context.Context, c *sdk.Client, f field) error {
			_, err := c.PutObjectAcl(ctx, &sdk.PutObjectAclInput{Bucket: aws.String(bucketName), Key: aws.String(f.in + "x"), ACL: types.ObjectCannedACLPublicRead})
			return err
		}},
		{"give an object tags", func(ctx context.Context, c *sdk.Client, f field) error {
			_, err := c.PutObjectTagging(ctx, &sdk.PutObjectTaggingInput{Bucket: aws.String(bucketName), Key: aws.String(f.in + "x"),
				Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}})
			return err
		}},
	}
	for what, key := range map[string]func(field) string{
		"of the sibling (T-27)":            func(f field) string { return f.sibling + "x" },
		"beside the folder":                func(f field) string { return f.bare },
		"of another folder":                func(f field) string { return f.other + "x" },
		"whose name is that of the folder": func(f field) string { return strings.TrimSuffix(f.in, "/") },
	} {
		all = append(all,
			attempt{"read what is " + what, func(ctx context.Context, c *sdk.Client, f field) error { return get(ctx, c, bucketName, key(f)) }},
			attempt{"write what is " + what, func(ctx context.Context, c *sdk.Client, f field) error { return put(ctx, c, bucketName, key(f)) }},
			attempt{"delete what is " + what, func(ctx context.Context, c *sdk.Client, f field) error { return remove(ctx, c, bucketName, key(f)) }},
		)
	}
	return all
}

// Credentials open one folder, whichever way they were minted: what a real
// store allows, and what it denies (mounts traps 27, 28, 29).
func TestScope(t *testing.T) {
	s := open(t)
	for name, way := range s.ways(t) {
		for _, readOnly := range []bool{false, true} {
			mode := name + "/to write"
			allowed, forbidden := append(reads(), writes()...), others()
			if readOnly {
				mode = name + "/to read only"
				allowed, forbidden = reads(), append(writes(), others()...)
			}
			t.Run(mode, func(t *testing.T) {
				f := s.field(t)
				c := client(s.Endpoint, scoped(sign(t, s.signer(t, way, nil), mount.Grant{Prefix: mount.Prefix(f.in), ReadOnly: readOnly, Run: mode})))
				for _, a := range allowed {
					if err := a.try(t.Context(), c, f); err != nil {
						t.Errorf("may %s: %v", a.rule, err)
					}
				}
				for _, a := range forbidden {
					if err := a.try(t.Context(), c, f); !denied(err) {
						t.Errorf("may not %s: got %v", a.rule, err)
					}
				}
				// What leaves the folder by dots is refused, be it as a key that can't be one.
				if err := put(t.Context(), c, bucketName, f.in+"../"+path.Base(f.other)+"/x"); err == nil {
					t.Error("it leaves the folder by dots")
				}
				for _, key := range f.outside() {
					if err := get(t.Context(), s.admin, bucketName, key); err != nil {
						t.Errorf("outside, %s: %v", key, err)
					}
				}
				if err := get(t.Context(), s.admin, otherBucket, f.in+"x"); err != nil {
					t.Errorf("in the other bucket: %v", err)
				}
			})
		}
	}
}
