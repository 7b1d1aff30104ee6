package s3

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Keys are the keys of a user or role at the storage, and secret: in a log
// they show nothing.
type Keys struct {
	AccessKey string
	SecretKey string
	// SessionToken goes with keys that are temporary themselves.
	SessionToken string
}

// LogValue shows nothing of the keys.
func (k Keys) LogValue() slog.Value { return slog.StringValue("keys") }

// String shows nothing of the keys.
func (k Keys) String() string { return "keys" }

// GoString shows nothing of the keys.
func (k Keys) GoString() string { return "s3.Keys{}" }

// errNoKeys says that the host's function returned none.
var errNoKeys = errors.New("an access key or its secret is empty")

// provider asks the host for its keys.
func provider(keys func(context.Context) (Keys, error)) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		k, err := keys(ctx)
		if err != nil {
			return aws.Credentials{}, err
		}
		if k.AccessKey == "" || k.SecretKey == "" {
			return aws.Credentials{}, errNoKeys
		}
		return aws.Credentials{AccessKeyID: k.AccessKey, SecretAccessKey: k.SecretKey, SessionToken: k.SessionToken}, nil
	})
}
