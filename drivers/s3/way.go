package s3

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/bunkroom/bunkroom/access"
)

// How long credentials last, by the service that mints them.
const (
	MinTTL           = 15 * time.Minute
	MaxTTL           = 12 * time.Hour // of a role's
	MaxFederationTTL = 36 * time.Hour // of a federation token's
)

// Way is how credentials are minted: [AssumeRole], [WebIdentity] or [FederationToken].
type Way interface {
	// check names the bad field, if there is one.
	check() error
	// limits are the longest life and the longest name of a session.
	limits() (longest time.Duration, name int)
	// mint asks for credentials. What no error may tell goes into h.
	mint(ctx context.Context, c *sts.Client, o order, h *hidden) (*types.Credentials, error)
}

// order is what is asked for.
type order struct {
	name   string
	policy string
	life   time.Duration // whole seconds
	now    time.Time
}

func (o order) seconds() *int32 { return aws.Int32(int32(o.life / time.Second)) }

// AssumeRole mints by assuming a role with keys that the role trusts. A role
// has a longest life of its own, of an hour where nobody has set another, and
// keys that are those of a role themselves get an hour at most.
type AssumeRole struct {
	Role string // its ARN. Required
	// Keys are asked for each time, so that they may change. Required.
	Keys func(context.Context) (Keys, error)
}

func (w AssumeRole) check() error {
	if w.Keys == nil {
		return &access.FieldError{Field: "Way.Keys", Rule: "must not be nil"}
	}
	return checkRole(w.Role)
}

func (AssumeRole) limits() (time.Duration, int) { return MaxTTL, maxRoleName }

func (w AssumeRole) mint(ctx context.Context, c *sts.Client, o order, h *hidden) (*types.Credentials, error) {
	signed, err := signedWith(ctx, w.Keys, h)
	if err != nil {
		return nil, err
	}
	out, err := c.AssumeRole(ctx, &sts.AssumeRoleInput{
		RoleArn: &w.Role, RoleSessionName: &o.name, Policy: &o.policy, DurationSeconds: o.seconds(),
	}, signed)
	if err != nil {
		return nil, err
	}
	return out.Credentials, nil
}

// WebIdentity mints by assuming a role with a token of an issuer that the store
// trusts, and without any keys. Exactly one of Token and Issuer is set.
type WebIdentity struct {
	Role string // its ARN. Required
	// Token returns a token of the host's, each time anew. Some stores let
	// credentials live no longer than the token.
	Token func(context.Context) (string, error)
	// Issuer makes tokens here, each of which lives longer than the credentials.
	Issuer *Issuer
}

func (w WebIdentity) check() error {
	if (w.Token == nil) == (w.Issuer == nil) {
		return &access.FieldError{Field: "Way.Token", Rule: "must be set, or else Way.Issuer"}
	}
	return checkRole(w.Role)
}

func (WebIdentity) limits() (time.Duration, int) { return MaxTTL, maxRoleName }

func (w WebIdentity) mint(ctx context.Context, c *sts.Client, o order, h *hidden) (*types.Credentials, error) {
	source := w.Token
	if w.Issuer != nil {
		source = func(ctx context.Context) (string, error) { return w.Issuer.token(ctx, o.now, o.life+tokenMargin) }
	}
	token, err := source(ctx)
	if err != nil {
		return nil, fmt.Errorf("the web identity token: %w", err)
	}
	if token == "" {
		return nil, errNoToken
	}
	h.add(token)
	out, err := c.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: &w.Role, RoleSessionName: &o.name, Policy: &o.policy, DurationSeconds: o.seconds(), WebIdentityToken: &token,
	})
	if err != nil {
		return nil, err
	}
	return out.Credentials, nil
}

// FederationToken mints with the keys of a user, and needs no role. The keys
// must not be those of a role; those of an account's root get an hour at most.
type FederationToken struct {
	// Keys are asked for each time, so that they may change. Required.
	Keys func(context.Context) (Keys, error)
}

func (w FederationToken) check() error {
	if w.Keys == nil {
		return &access.FieldError{Field: "Way.Keys", Rule: "must not be nil"}
	}
	return nil
}

func (FederationToken) limits() (time.Duration, int) { return MaxFederationTTL, maxFederation }

func (w FederationToken) mint(ctx context.Context, c *sts.Client, o order, h *hidden) (*types.Credentials, error) {
	signed, err := signedWith(ctx, w.Keys, h)
	if err != nil {
		return nil, err
	}
	out, err := c.GetFederationToken(ctx, &sts.GetFederationTokenInput{
		Name: &o.name, Policy: &o.policy, DurationSeconds: o.seconds(),
	}, signed)
	if err != nil {
		return nil, err
	}
	return out.Credentials, nil
}

// signedWith has one request signed with the host's keys of this moment.
func signedWith(ctx context.Context, keys func(context.Context) (Keys, error), h *hidden) (func(*sts.Options), error) {
	k, err := provider(keys).Retrieve(ctx)
	if err != nil {
		return nil, fmt.Errorf("the keys: %w", err)
	}
	h.add(k.AccessKeyID, k.SecretAccessKey, k.SessionToken)
	return func(o *sts.Options) {
		o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return k, nil })
	}, nil
}

// checkRole wants an ARN, whatever the store takes for one.
func checkRole(arn string) error {
	if len(arn) < 20 || len(arn) > 2048 || arn[:4] != "arn:" {
		return &access.FieldError{Field: "Way.Role", Rule: "must be the ARN of a role"}
	}
	return nil
}
