package s3_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/internal/weedtest"
	"github.com/bunkroom/bunkroom/mount"
)

// otherBucket is one that nobody is granted anything of.
const otherBucket = "others"

// server is a real store, with both buckets. It trusts the tokens of signingKey.
var (
	server  = weedtest.Server{PublicKeys: publicKeys}
	buckets sync.Once
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func publicKeys() ([]byte, error) {
	k, err := signingKey(context.Background())
	if err != nil {
		return nil, err
	}
	return s3.PublicKeys(k)
}

// store is the real store, as its owner uses it.
type store struct {
	weedtest.Access
	admin *sdk.Client
}

func open(t testing.TB) store {
	t.Helper()
	at := server.Start(t)
	s := store{at, client(at.Endpoint, adminKeys())}
	buckets.Do(func() {
		for _, name := range []string{bucketName, otherBucket} {
			if _, err := s.admin.CreateBucket(t.Context(), &sdk.CreateBucketInput{Bucket: aws.String(name)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	return s
}

func adminKeys() s3.Keys {
	return s3.Keys{AccessKey: weedtest.AccessKey, SecretKey: weedtest.SecretKey}
}

func scoped(c mount.Credentials) s3.Keys {
	return s3.Keys{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken}
}

// client is a plain one of S3: what credentials may do is asked past this package.
func client(endpoint string, k s3.Keys) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: weedtest.Region, BaseEndpoint: &endpoint, UsePathStyle: true, Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.SecretKey, SessionToken: k.SessionToken}, nil
		}),
	})
}

// ways are those that confine at the real store.
func (s store) ways(t testing.TB) map[string]s3.Way {
	return map[string]s3.Way{
		"AssumeRole": s3.AssumeRole{Role: weedtest.Role, Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil }},
		"AssumeRoleWithWebIdentity": s3.WebIdentity{
			Role: weedtest.Role, Issuer: issuer(t, s.Issuer, signingKey),
		},
	}
}

func (s store) signer(t testing.TB, way s3.Way, transport http.RoundTripper) *s3.Signer {
	t.Helper()
	signer, err := s3.New(s3.Config{
		Bucket: bucketName, Endpoint: s.Endpoint, Way: way, RunDeadline: 11 * time.Hour, Client: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func sign(t testing.TB, s *s3.Signer, g mount.Grant) mount.Credentials {
	t.Helper()
	c, err := s.Sign(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newFolder is the prefix of a folder that no other test has.
func newFolder(t testing.TB) mount.Prefix {
	t.Helper()
	p, err := mount.PrefixOf("", mount.Row{Scope: "project:p", ID: mount.ID(id.New())})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func put(ctx context.Context, c *sdk.Client, bucket, key string) error {
	_, err := c.PutObject(ctx, &sdk.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("content")})
	return err
}

func get(ctx context.Context, c *sdk.Client, bucket, key string) error {
	out, err := c.GetObject(ctx, &sdk.GetObjectInput{Bucket: &bucket, Key: &key})
	if err == nil {
		err = out.Body.Close()
	}
	return err
}

func remove(ctx context.Context, c *sdk.Client, bucket, key string) error {
	_, err := c.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &bucket, Key: &key})
	return err
}

func list(ctx context.Context, c *sdk.Client, bucket, prefix, delimiter string) ([]string, error) {
	in := &sdk.ListObjectsV2Input{Bucket: &bucket}
	if prefix != "" {
		in.Prefix = &prefix
	}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	out, err := c.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, o := range out.Contents {
		all = append(all, *o.Key)
	}
	return all, nil
}

// denied reports whether a store has refused a request for want of the right to it.
func denied(err error) bool {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) || answer.HTTPStatusCode() != http.StatusForbidden {
		return false
	}
	var refused smithy.APIError
	return !errors.As(err, &refused) || refused.ErrorCode() != "SignatureDoesNotMatch"
}
