package s3

import (
	"context"
	"errors"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/bunkroom/bunkroom/access"
)

// BucketConfig says which bucket to open, and with what.
type BucketConfig struct {
	Bucket string // required
	Region string // empty = DefaultRegion
	// Endpoint is the base URL of the store: http or https, a host and no path. Empty = AWS.
	Endpoint string
	// PathStyle puts the bucket's name into the path of requests, as most
	// stores that are not AWS need it, and not before the host's name.
	PathStyle bool
	// Keys are those of the host, or scoped credentials. They are asked for
	// with each request, so that they may change. Required.
	Keys func(context.Context) (Keys, error)
	// Client sends the requests; nil = one that follows no redirects.
	Client *http.Client
}

// OpenBucket opens a bucket, and calls nothing. Whoever opens it closes it. The
// error is a [*access.FieldError]. For conditional writes and deletions give
// [Precondition] to those who use the bucket.
func OpenBucket(c BucketConfig) (*blob.Bucket, error) {
	if err := checkBucket(c.Bucket); err != nil {
		return nil, err
	}
	region, err := region(c.Region)
	if err != nil {
		return nil, err
	}
	at, err := endpoint("Endpoint", c.Endpoint)
	if err != nil {
		return nil, err
	}
	if c.Keys == nil {
		return nil, &access.FieldError{Field: "Keys", Rule: "must not be nil"}
	}
	if c.Client == nil {
		c.Client = plainClient()
	}
	o := sdk.Options{Region: region, UsePathStyle: c.PathStyle, HTTPClient: c.Client, Credentials: provider(c.Keys), HTTPSignerV4: fresh{asIs: true}}
	blobs := &s3blob.Options{RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported}
	if at != "" {
		o.BaseEndpoint = aws.String(at)
		// There are stores that refuse checksums they don't know.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		blobs.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	}
	q := quirks{plain: sdk.New(o), loose: at != ""}
	o.APIOptions = []func(*middleware.Stack) error{q.add}
	return s3blob.OpenBucket(context.Background(), sdk.New(o), c.Bucket, blobs)
}

// errNotS3 says that Precondition was given to a bucket of another kind.
var errNotS3 = errors.New("s3: the bucket is not one of this package")

// Precondition makes a write or a deletion depend on the object's present
// etag, by the header If-Match. It is what files.Config.Precondition asks for,
// for buckets of this package. Stores that don't know the header are found out
// by files.Files.Probe.
func Precondition(etag string, as func(any) bool) error {
	var write *transfermanager.UploadObjectInput
	var remove *sdk.DeleteObjectInput
	switch {
	case as(&write):
		write.IfMatch = &etag
	case as(&remove):
		remove.IfMatch = &etag
	default:
		return errNotS3
	}
	return nil
}
