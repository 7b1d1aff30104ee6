package s3_test

import (
	"errors"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/mount"
)

// mounts trap 25: credentials lived no longer than a run may take, so that no
// warm session was ever used again. Two settings that hang together are looked
// at together, when the program starts, for every life that is asked for.
func TestCredentialsOutliveARun(t *testing.T) {
	for _, c := range []struct {
		rule          string
		ttl, deadline time.Duration
		ok            bool
	}{
		{"the longest run that is sure to end before", 12 * time.Hour, 12*time.Hour - s3.Skew - 1, true},
		{"a run that ends within the skew", 12 * time.Hour, 12*time.Hour - s3.Skew, false},
		{"a run as long as they live", 12 * time.Hour, 12 * time.Hour, false},
		{"a run that is longer", time.Hour, 11 * time.Hour, false},
		{"no life named, and one of the usual runs", 0, 11 * time.Hour, true},
		{"no life named, and a run as long as the usual one", 0, s3.DefaultTTL, false},
	} {
		signer, err := s3.New(s3.Config{Bucket: bucketName, Endpoint: "https://store.example.org", Way: ways()["AssumeRole"], TTL: c.ttl, RunDeadline: c.deadline})
		if refused, ok := errors.AsType[*access.FieldError](err); c.ok != (err == nil) || !c.ok && (!ok || refused.Field != "RunDeadline") {
			t.Errorf("%s: %v", c.rule, err)
		}
		if err != nil {
			continue
		}
		// And no grant asks for less than a run may take, unless it says so itself.
		_, err = signer.Sign(t.Context(), mount.Grant{Prefix: newFolder(t), TTL: 1000 * time.Hour})
		if refused, ok := errors.AsType[*access.FieldError](err); !ok || refused.Field != "TTL" {
			t.Errorf("%s: a longer life than is granted: %v", c.rule, err)
		}
	}
}
