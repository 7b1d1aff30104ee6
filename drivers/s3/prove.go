package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// ErrUnconfined says that a store minted credentials for one folder that open
// another. Nothing may be mounted with what it mints.
var ErrUnconfined = access.NewSentinel("s3: the store does not confine credentials to their folder", 503, "storage_unconfined",
	"The storage for folders can't be used safely.")

// proveScope is the scope of the made-up folders.
const proveScope = "prove"

// cleanTimeout is how long it may take to delete what should never have been written.
const cleanTimeout = 10 * time.Second

// Prove finds out whether the store confines what it mints, which is all that
// keeps folders apart: a host calls it when it starts, and does not start where
// it fails. It mints credentials for folders made up for it, and tries with them
// what they must allow (to list their own folder) and what they must not (to list
// and to write in a sibling of it and, where they are for reading only, in their own).
// It takes some ten requests, within Config.Timeout, and leaves nothing in the bucket.
//
// Errors: [ErrUnconfined], which says what was allowed; where ctx has ended,
// its error; else mount.ErrUnavailable: it could not be found out, or the
// credentials don't even open their own folder.
//
// At a store with an Endpoint the bucket's name goes into the path of requests.
func (s *Signer) Prove(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	err := s.prove(bounded)
	switch {
	case err == nil || errors.Is(err, ErrUnconfined):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("%w: proving the store: no end within %v", mount.ErrUnavailable, s.c.Timeout)
	}
	return fmt.Errorf("%w: proving the store: %w", mount.ErrUnavailable, err)
}

func (s *Signer) prove(ctx context.Context) error {
	own, err := mount.PrefixOf("", mount.Row{Scope: proveScope, ID: mount.ID(id.New())})
	if err != nil {
		return err
	}
	// It begins with the folder's own, but for the slash: a store that
	// compares without it is found out too.
	sibling := mount.Prefix(strings.TrimSuffix(string(own), "/") + "-sibling/")
	for _, readOnly := range []bool{false, true} {
		c, err := s.Sign(ctx, mount.Grant{Prefix: own, ReadOnly: readOnly, Run: "prove", TTL: MinTTL})
		if err != nil {
			return err
		}
		t := trial{client: s.client(c), bucket: s.c.Bucket}
		t.h.add(c.AccessKey, c.SecretKey, c.SessionToken)
		if err := t.list(ctx, own); err != nil {
			return fmt.Errorf("credentials for a folder can't list it: %w", err)
		}
		refused := []attempt{
			{"to list another", t.list(ctx, sibling)},
			{"to list the bucket", t.list(ctx, "")},
			{"to write to another", t.write(ctx, sibling)},
		}
		if readOnly {
			refused = append(refused, attempt{"to write, though for reading only", t.write(ctx, own)})
		}
		for _, a := range refused {
			if err := a.judge(); err != nil {
				return err
			}
		}
	}
	return nil
}

// attempt is what was tried, and what came of it.
type attempt struct {
	what string
	err  error
}

// judge wants a refusal. Any other error tells nothing.
func (a attempt) judge() error {
	if a.err == nil {
		return fmt.Errorf("%w: credentials for one folder were allowed %s", ErrUnconfined, a.what)
	}
	answer, ok := errors.AsType[*smithyhttp.ResponseError](a.err)
	if !ok || answer.HTTPStatusCode() != http.StatusForbidden {
		return fmt.Errorf("credentials for one folder, %s: no refusal, but %w", a.what, a.err)
	}
	return nil
}

// client uses credentials as who mounts does.
func (s *Signer) client(c mount.Credentials) *sdk.Client {
	o := sdk.Options{
		Region: s.c.Region, HTTPClient: s.c.Client, Retryer: aws.NopRetryer{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		Credentials: provider(func(context.Context) (Keys, error) {
			return Keys{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken}, nil
		}),
	}
	if s.c.Endpoint != "" {
		o.BaseEndpoint, o.UsePathStyle = aws.String(s.c.Endpoint), true
	}
	return sdk.New(o)
}

// trial is credentials that are tried out.
type trial struct {
	client *sdk.Client
	bucket string
	h      hidden
}

func (t trial) list(ctx context.Context, below mount.Prefix) error {
	in := &sdk.ListObjectsV2Input{Bucket: &t.bucket, MaxKeys: aws.Int32(1)}
	if below != "" {
		in.Prefix = aws.String(string(below))
	}
	if _, err := t.client.ListObjectsV2(ctx, in); err != nil {
		return t.h.clean(err)
	}
	return nil
}

// write tries to write an object, and deletes it if there is one then.
func (t trial) write(ctx context.Context, below mount.Prefix) error {
	key := string(below) + "prove"
	_, err := t.client.PutObject(ctx, &sdk.PutObjectInput{Bucket: &t.bucket, Key: &key, Body: http.NoBody})
	if err != nil {
		return t.h.clean(err)
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	_, _ = t.client.DeleteObject(detached, &sdk.DeleteObjectInput{Bucket: &t.bucket, Key: &key})
	return nil
}
