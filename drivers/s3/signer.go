package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// Sign mints credentials for g; see [mount.Signer]. They live for g.TTL, or
// MinTTL where that is longer. A life that is longer than the way grants is a
// *access.FieldError of "TTL". Where the store grants less, Credentials.Expires
// says so: it is what the store answered.
//
// Run may be anything: what can't be the name of a session is made into one,
// such that different runs have different names.
func (s *Signer) Sign(ctx context.Context, g mount.Grant) (mount.Credentials, error) {
	o, err := s.order(g)
	if err != nil {
		return mount.Credentials{}, err
	}
	if err := ctx.Err(); err != nil {
		return mount.Credentials{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	var h hidden
	got, err := s.c.Way.mint(bounded, s.sts, o, &h)
	switch {
	case err != nil && ctx.Err() != nil:
		return mount.Credentials{}, ctx.Err()
	case err != nil && bounded.Err() != nil:
		return mount.Credentials{}, fmt.Errorf("%w: no credentials within %v", mount.ErrUnavailable, s.c.Timeout)
	case err != nil:
		return mount.Credentials{}, fmt.Errorf("%w: %w", mount.ErrUnavailable, h.clean(err))
	}
	return s.credentials(g, got)
}

// order checks a grant and makes of it what is asked for.
func (s *Signer) order(g mount.Grant) (order, error) {
	policy, err := Policy(s.c.Bucket, g.Prefix, g.ReadOnly)
	if err != nil {
		return order{}, err
	}
	longest, name := s.c.Way.limits()
	life := g.TTL
	if life == 0 {
		life = s.c.TTL
	}
	switch {
	case life < 0:
		return order{}, &access.FieldError{Field: "TTL", Rule: "must not be negative"}
	case life > longest:
		return order{}, &access.FieldError{Field: "TTL", Rule: fmt.Sprintf("must be at most %v", longest)}
	case g.Audience != mount.InNetwork && g.Audience != mount.Public:
		return order{}, &access.FieldError{Field: "Audience", Rule: "must be mount.InNetwork or mount.Public"}
	}
	life = max(life, MinTTL)
	if part := life % time.Second; part > 0 {
		life += time.Second - part
	}
	return order{name: sessionName(g.Run, name), policy: policy, life: life, now: s.c.Now()}, nil
}

// credentials makes an answer into what was asked for, if it says all it must.
func (s *Signer) credentials(g mount.Grant, got *types.Credentials) (mount.Credentials, error) {
	refused := func(what string) (mount.Credentials, error) {
		return mount.Credentials{}, fmt.Errorf("%w: the answer to a request for credentials has %s", mount.ErrUnavailable, what)
	}
	switch {
	case got == nil:
		return refused("none")
	case aws.ToString(got.AccessKeyId) == "" || aws.ToString(got.SecretAccessKey) == "":
		return refused("no keys")
	case aws.ToString(got.SessionToken) == "":
		return refused("no session token: it would open the whole bucket")
	case got.Expiration == nil || got.Expiration.IsZero():
		return refused("no expiry")
	case !got.Expiration.After(s.c.Now()):
		return refused("an expiry that has passed")
	}
	at := s.c.Endpoint
	if g.Audience == mount.Public {
		at = s.c.PublicEndpoint
	}
	return mount.Credentials{
		Endpoint: at, Region: s.c.Region, Bucket: s.c.Bucket, Prefix: g.Prefix,
		AccessKey: *got.AccessKeyId, SecretKey: *got.SecretAccessKey, SessionToken: *got.SessionToken, Expires: got.Expiration.UTC(),
	}, nil
}
