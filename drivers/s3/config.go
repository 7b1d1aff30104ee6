package s3

import (
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// What is taken where Config names nothing else.
const (
	DefaultTTL     = 12 * time.Hour
	DefaultTimeout = 10 * time.Second
)

// Skew is how far apart clocks may be: credentials outlive a run by more than that.
const Skew = time.Minute

// Config is the configuration of a Signer.
type Config struct {
	Bucket string // where the folders are; required
	Region string // empty = DefaultRegion

	// Endpoint is the base URL of the store: http or https, a host and no path. Empty = AWS.
	Endpoint string
	// PublicEndpoint is where machines outside the network find the same store; empty = Endpoint.
	PublicEndpoint string
	// STSEndpoint is where credentials are minted; empty = Endpoint, and where
	// that is empty too, the region's own at AWS.
	STSEndpoint string

	// Way is how credentials are minted. Required.
	Way Way
	// TTL is how long credentials live where a grant doesn't say; 0 = DefaultTTL.
	// From MinTTL to the longest of the way, in whole seconds.
	TTL time.Duration
	// RunDeadline is the longest that a run takes. It and Skew are together
	// shorter than TTL, else credentials would never be good enough to be used
	// a second time, and end in the midst of a run. Required.
	RunDeadline time.Duration

	// Timeout bounds one Sign; 0 = DefaultTimeout.
	Timeout time.Duration
	// Client sends the requests that mint; nil = one that follows no redirects.
	Client *http.Client
	Now    func() time.Time // nil = time.Now
}

// Signer mints credentials for folders of one bucket.
type Signer struct {
	c   Config
	sts *sts.Client
}

var _ mount.Signer = (*Signer)(nil)

// New checks c, and calls nothing. The error is a [*access.FieldError].
func New(c Config) (*Signer, error) {
	bad := func(field, rule string) (*Signer, error) { return nil, &access.FieldError{Field: field, Rule: rule} }
	if err := checkBucket(c.Bucket); err != nil {
		return nil, err
	}
	var err error
	if c.Region, err = region(c.Region); err != nil {
		return nil, err
	}
	for _, e := range []struct {
		name  string
		value *string
	}{{"Endpoint", &c.Endpoint}, {"PublicEndpoint", &c.PublicEndpoint}, {"STSEndpoint", &c.STSEndpoint}} {
		if *e.value, err = endpoint(e.name, *e.value); err != nil {
			return nil, err
		}
	}
	if c.PublicEndpoint == "" {
		c.PublicEndpoint = c.Endpoint
	}
	if c.STSEndpoint == "" {
		c.STSEndpoint = c.Endpoint
	}
	if c.Way == nil {
		return bad("Way", "must not be nil")
	}
	if err := c.Way.check(); err != nil {
		return nil, err
	}
	longest, _ := c.Way.limits()
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	switch {
	case c.TTL < MinTTL || c.TTL > longest:
		return bad("TTL", fmt.Sprintf("must be from %v to %v", MinTTL, longest))
	case c.TTL%time.Second != 0:
		return bad("TTL", "must be in whole seconds")
	case c.RunDeadline <= 0:
		return bad("RunDeadline", "must be set")
	case c.RunDeadline >= c.TTL-Skew:
		return bad("RunDeadline", fmt.Sprintf("must be shorter than TTL less %v, which is %v", Skew, c.TTL-Skew))
	case c.Timeout < 0:
		return bad("Timeout", "must not be negative")
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Client == nil {
		c.Client = plainClient()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	o := sts.Options{Region: c.Region, HTTPClient: c.Client, HTTPSignerV4: fresh{}}
	if c.STSEndpoint != "" {
		o.BaseEndpoint = aws.String(c.STSEndpoint)
	}
	return &Signer{c: c, sts: sts.New(o)}, nil
}
