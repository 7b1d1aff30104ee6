package s3_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/s3"
)

func TestNewRefuses(t *testing.T) {
	web := func(context.Context) (string, error) { return "", nil }
	for _, c := range []struct {
		rule, field string
		change      func(*s3.Config)
	}{
		{"no bucket", "Bucket", func(c *s3.Config) { c.Bucket = "" }},
		{"a bucket that can't be one", "Bucket", func(c *s3.Config) { c.Bucket = "a/b" }},
		{"a region with a dot", "Region", func(c *s3.Config) { c.Region = "evil.example.com" }},
		{"an endpoint without a scheme", "Endpoint", func(c *s3.Config) { c.Endpoint = "store:8333" }},
		{"an endpoint of another scheme", "Endpoint", func(c *s3.Config) { c.Endpoint = "s3://store" }},
		{"an endpoint without a host", "Endpoint", func(c *s3.Config) { c.Endpoint = "https://:443" }},
		{"an endpoint below a path, behind which signatures break", "Endpoint", func(c *s3.Config) { c.Endpoint = "https://app.example.com/store" }},
		{"an endpoint with a query", "Endpoint", func(c *s3.Config) { c.Endpoint = "https://store?x=1" }},
		{"an endpoint with a fragment", "Endpoint", func(c *s3.Config) { c.Endpoint = "https://store#" }},
		{"an endpoint with a password", "Endpoint", func(c *s3.Config) { c.Endpoint = "https://ann:hush@store" }},
		{"a public endpoint below a path", "PublicEndpoint", func(c *s3.Config) { c.PublicEndpoint = "https://store/x" }},
		{"an STS endpoint below a path", "STSEndpoint", func(c *s3.Config) { c.STSEndpoint = "https://store/x" }},
		{"no way", "Way", func(c *s3.Config) { c.Way = nil }},
		{"a role that is no ARN", "Way.Role", func(c *s3.Config) { c.Way = s3.AssumeRole{Role: "folders", Keys: keys} }},
		{"no keys for a role", "Way.Keys", func(c *s3.Config) { c.Way = s3.AssumeRole{Role: role} }},
		{"no keys for a federation token", "Way.Keys", func(c *s3.Config) { c.Way = s3.FederationToken{} }},
		{"no role to assume with a token", "Way.Role", func(c *s3.Config) { c.Way = s3.WebIdentity{Token: web} }},
		{"no token", "Way.Token", func(c *s3.Config) { c.Way = s3.WebIdentity{Role: role} }},
		{"two sources of tokens", "Way.Token", func(c *s3.Config) { c.Way = s3.WebIdentity{Role: role, Token: web, Issuer: &s3.Issuer{}} }},
		{"a life shorter than STS gives", "TTL", func(c *s3.Config) { c.TTL = 14 * time.Minute }},
		{"a life longer than a role's", "TTL", func(c *s3.Config) { c.TTL = 13 * time.Hour }},
		{"a negative life", "TTL", func(c *s3.Config) { c.TTL = -time.Hour }},
		{"parts of a second", "TTL", func(c *s3.Config) { c.TTL = time.Hour + 1 }},
		{"no deadline", "RunDeadline", func(c *s3.Config) { c.RunDeadline = 0 }},
		{"a negative deadline", "RunDeadline", func(c *s3.Config) { c.RunDeadline = -time.Hour }},
		{"a deadline beyond the life (T-25)", "RunDeadline", func(c *s3.Config) { c.RunDeadline = 13 * time.Hour }},
		{"a deadline of the life (T-25)", "RunDeadline", func(c *s3.Config) { c.RunDeadline = 12 * time.Hour }},
		{"a deadline within the skew (T-25)", "RunDeadline", func(c *s3.Config) { c.RunDeadline = 12*time.Hour - time.Minute }},
		{"a deadline beyond a shorter life (T-25)", "RunDeadline", func(c *s3.Config) { c.TTL = time.Hour }},
		{"a negative timeout", "Timeout", func(c *s3.Config) { c.Timeout = -1 }},
	} {
		config := s3.Config{Bucket: bucketName, Endpoint: "https://store:8333/", Way: ways()["AssumeRole"], RunDeadline: 12*time.Hour - time.Minute - 1}
		if _, err := s3.New(config); err != nil {
			t.Fatal(err)
		}
		c.change(&config)
		s, err := s3.New(config)
		if s != nil || !isField(err, c.field) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s named", c.rule, err, c.field)
		}
	}
	long := s3.Config{Bucket: bucketName, Way: ways()["GetFederationToken"], TTL: 36 * time.Hour, RunDeadline: 35 * time.Hour}
	if _, err := s3.New(long); err != nil {
		t.Errorf("a federation token lives for 36 hours: %v", err)
	}
}

func TestOpenBucketRefuses(t *testing.T) {
	for _, c := range []struct {
		rule, field string
		change      func(*s3.BucketConfig)
	}{
		{"no bucket", "Bucket", func(c *s3.BucketConfig) { c.Bucket = "" }},
		{"a region with a slash", "Region", func(c *s3.BucketConfig) { c.Region = "a/b" }},
		{"an endpoint below a path", "Endpoint", func(c *s3.BucketConfig) { c.Endpoint = "https://store/x" }},
		{"no keys", "Keys", func(c *s3.BucketConfig) { c.Keys = nil }},
	} {
		config := s3.BucketConfig{Bucket: bucketName, Keys: keys}
		c.change(&config)
		if b, err := s3.OpenBucket(config); b != nil || !isField(err, c.field) {
			t.Errorf("%s: %v, want %s named", c.rule, err, c.field)
		}
	}
}
