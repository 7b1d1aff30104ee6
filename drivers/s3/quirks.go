package s3

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// abortTimeout is how long the end of an upload in parts may take that was given up.
const abortTimeout = 10 * time.Second

// quirks makes requests mean at every store what they mean at AWS.
type quirks struct {
	plain *sdk.Client // the same client, without this
	// loose: the store may take a key with a slash at its end for the directory
	// of that name, as those do that keep objects in a tree of files.
	loose bool
}

// add puts it before everything else that is done to a request.
func (q quirks) add(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("bunkroom", q.handle), middleware.Before)
}

func (q quirks) handle(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	out middleware.InitializeOutput, metadata middleware.Metadata, err error,
) {
	if err := q.nameable(in.Parameters); err != nil {
		return out, metadata, err
	}
	switch p := in.Parameters.(type) {
	case *sdk.AbortMultipartUploadInput:
		// What gives an upload up is mostly that the context has ended. The parts
		// that are there would stay, and cost, until somebody looks.
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		return next.HandleInitialize(detached, in)
	case *sdk.HeadObjectInput:
		out, metadata, err = next.HandleInitialize(ctx, in)
		if key := aws.ToString(p.Key); err == nil && q.loose && strings.HasSuffix(key, "/") {
			err = q.marked(ctx, p.Bucket, key)
		}
		return out, metadata, err
	case *sdk.CopyObjectInput:
		changed := *p
		// A plus sign is a space in forms, and nowhere else for certain.
		changed.CopySource = aws.String(strings.ReplaceAll(aws.ToString(p.CopySource), "+", "%20"))
		in.Parameters = &changed
		out, metadata, err = next.HandleInitialize(ctx, in)
		if q.loose && missing(err) {
			if from, ok := markerIn(*changed.CopySource, aws.ToString(p.Bucket)); ok {
				out.Result, err = &sdk.CopyObjectOutput{}, q.copyMarker(ctx, p, from)
			}
		}
		return out, metadata, err
	}
	return next.HandleInitialize(ctx, in)
}

// nameable refuses a backslash in a key where the store is loose: there are
// some that take it for a slash, and so for another file. What would be
// written can't be, and what is read or deleted is not there.
func (q quirks) nameable(parameters any) error {
	var key *string
	writes := false
	switch p := parameters.(type) {
	case *sdk.HeadObjectInput:
		key = p.Key
	case *sdk.GetObjectInput:
		key = p.Key
	case *sdk.DeleteObjectInput:
		key = p.Key
	case *sdk.PutObjectInput:
		key, writes = p.Key, true
	case *sdk.CreateMultipartUploadInput:
		key, writes = p.Key, true
	case *sdk.CopyObjectInput:
		key, writes = p.Key, true
	}
	switch {
	case !q.loose || !strings.Contains(aws.ToString(key), `\`):
		return nil
	case writes:
		return &NameError{Key: *key, Rule: "has a backslash, which this store may take for a slash"}
	}
	return &types.NotFound{}
}

// marked finds out whether there is an object of exactly that key. It would be
// the first of all that begin with it.
func (q quirks) marked(ctx context.Context, bucket *string, key string) error {
	l, err := q.plain.ListObjectsV2(ctx, &sdk.ListObjectsV2Input{Bucket: bucket, Prefix: &key, MaxKeys: aws.Int32(1)})
	if err != nil {
		return err
	}
	if len(l.Contents) == 0 || aws.ToString(l.Contents[0].Key) != key {
		return &types.NotFound{}
	}
	return nil
}

// copyMarker makes the marker of an empty directory anew: it has no content to copy.
func (q quirks) copyMarker(ctx context.Context, p *sdk.CopyObjectInput, from string) error {
	if err := q.marked(ctx, p.Bucket, from); err != nil {
		return err
	}
	_, err := q.plain.PutObject(ctx, &sdk.PutObjectInput{
		Bucket: p.Bucket, Key: p.Key, Body: http.NoBody, ContentType: aws.String("application/x-directory"),
	})
	return err
}

// markerIn is the key that is copied, where it ends with a slash.
func markerIn(source, bucket string) (key string, ok bool) {
	text, err := url.PathUnescape(source)
	if err != nil {
		return "", false
	}
	key, ok = strings.CutPrefix(text, bucket+"/")
	return key, ok && strings.HasSuffix(key, "/")
}

// missing reports whether a store says that nothing is there.
func missing(err error) bool {
	var answer *smithyhttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotFound
}
