package s3_test

import (
	"context"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

func ExampleNew() {
	signer, err := s3.New(s3.Config{
		Bucket: "agents",
		Way: s3.AssumeRole{
			Role: "arn:aws:iam::123456789012:role/folders",
			Keys: func(context.Context) (s3.Keys, error) { return s3.Keys{AccessKey: "…", SecretKey: "…"}, nil },
		},
		RunDeadline: 11 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A prefix that is not that of one whole folder opens nothing.
	_, err = signer.Sign(context.Background(), mount.Grant{Prefix: "mounts/project%3aweb/", Run: "work-1"})
	fmt.Println(err)
	// Output: invalid Prefix: must be [namespace/]mounts/<scope>/<mount id>/
}

// Credentials would end in the midst of a run.
func ExampleNew_deadline() {
	_, err := s3.New(s3.Config{
		Bucket:      "agents",
		Way:         s3.FederationToken{Keys: func(context.Context) (s3.Keys, error) { return s3.Keys{}, nil }},
		TTL:         time.Hour,
		RunDeadline: time.Hour,
	})
	fmt.Println(err)
	// Output: invalid RunDeadline: must be shorter than TTL less 1m0s, which is 59m0s
}

func ExampleNewIssuer() {
	_, err := s3.NewIssuer(s3.IssuerConfig{
		URL: "https://app.example.com", Subject: "folders",
		Key: func(context.Context) (s3.SigningKey, error) { return s3.SigningKey{}, nil },
	})
	fmt.Println(err)
	// Output: invalid Audience: must not be empty
}

func ExampleOpenBucket() {
	_, err := s3.OpenBucket(s3.BucketConfig{
		Bucket: "agents", Endpoint: "https://app.example.com/storage", PathStyle: true,
		Keys: func(context.Context) (s3.Keys, error) { return s3.Keys{AccessKey: "…", SecretKey: "…"}, nil },
	})
	fmt.Println(err)
	// Output: invalid Endpoint: must have no path: signatures break behind one
}

func ExamplePolicy() {
	text, err := s3.Policy("agents", "mounts/project%3aweb/0192f0c1-2ab4-7cde-8f01-23456789abcd/", true)
	fmt.Println(len(text) <= s3.MaxPolicy, err)
	// Output: true <nil>
}
