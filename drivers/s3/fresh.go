package s3

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// fresh signs requests with the secret key of this moment. The usual signer
// remembers for a day what it has made of an access key's secret; at many
// stores an access key is a name, whose secret can be changed.
type fresh struct {
	asIs bool // whether the path is signed as it stands, as S3 does it
}

// SignHTTP signs r.
func (f fresh) SignHTTP(
	ctx context.Context, keys aws.Credentials, r *http.Request, payloadHash, service, region string, at time.Time, options ...func(*v4.SignerOptions),
) error {
	s := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = f.asIs })
	return s.SignHTTP(ctx, keys, r, payloadHash, service, region, at, options...)
}
