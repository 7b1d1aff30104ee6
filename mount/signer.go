package mount

import (
	"context"
	"log/slog"
	"time"
)

// Prefix is what the keys of one folder begin with. It is never empty and ends
// with a slash, so that no other folder's begins with it. See [PrefixOf].
type Prefix string

// Audience is who will use credentials, which decides at what address they
// find the storage.
type Audience uint8

// The audiences.
const (
	InNetwork Audience = iota // this host, and what is near it
	Public                    // a machine anywhere
)

// Grant is what credentials are asked for.
type Grant struct {
	Prefix   Prefix        // they open what is below it, and nothing else; required
	ReadOnly bool          // nothing can be written or deleted with them
	Audience Audience      // where they are used from
	Run      string        // the work they are for; it is in the storage's own log of who did what. May be empty
	TTL      time.Duration // how long they are wanted for; 0 = as the signer is configured
}

// Credentials open one folder in object storage for a while. They are secret:
// in a log they show where they lead to and until when, and no key.
type Credentials struct {
	Endpoint  string // base URL of the storage, for the grant's audience; empty = the region's own at AWS
	Region    string
	Bucket    string
	Prefix    Prefix
	AccessKey string
	SecretKey string
	// SessionToken goes with every request, where it is not empty.
	SessionToken string
	// Expires is when the storage refuses them: what it said itself, and never zero.
	Expires time.Time
}

// LogValue leaves the keys out.
func (c Credentials) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("endpoint", c.Endpoint), slog.String("bucket", c.Bucket),
		slog.String("prefix", string(c.Prefix)), slog.Time("expires", c.Expires),
	)
}

// String leaves the keys out.
func (c Credentials) String() string { return c.LogValue().String() }

// GoString leaves the keys out.
func (c Credentials) GoString() string { return "mount.Credentials" + c.String() }

// Signer mints credentials that open one folder and nothing else. Drivers
// implement it. Sign may be called concurrently.
type Signer interface {
	// Sign mints credentials for g. It fails closed: where it can't be sure
	// that they are confined to g.Prefix, or of when they expire, there are none.
	//
	// A [*access.FieldError] names a bad field of g: "Prefix" where it is
	// empty, is not as [PrefixOf] makes it or does not end with a slash, "TTL"
	// where it is negative or longer than the signer grants, "Run" where the
	// storage can't have it as a name, "Audience" where it is none of those here. ErrUnavailable: the storage did not
	// answer, refused, or gave an answer that says less than it must. Where
	// ctx has ended, its error. Nothing is kept: each call mints anew.
	Sign(ctx context.Context, g Grant) (Credentials, error)
}
