package files

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
)

// The limits where Config names no others.
const (
	DefaultMaxFile  = 1 << 30 // bytes
	DefaultMaxText  = 2 << 20 // bytes
	DefaultMaxScan  = 200_000 // files
	DefaultMaxCount = 20_000  // files
)

// Config is the configuration of Files. Whoever opened the bucket closes it.
type Config struct {
	// Bucket is where the objects are. Required. Have one Files for each
	// bucket and process.
	Bucket *blob.Bucket
	// Namespace is put before every key: segments as in a path. Empty = none.
	Namespace string

	// Precondition makes one write or deletion of the bucket's driver depend on
	// the present etag, in the driver's own terms, by the function that finds
	// its types (see blob.WriterOptions.BeforeWrite and blob.DeleteOptions.BeforeDelete).
	// A driver that then finds another etag fails with FailedPrecondition.
	// Nil: the bucket can't do it.
	Precondition func(etag string, as func(any) bool) error
	// Unversion deletes for good, in the driver's own terms, all versions of the
	// objects whose keys begin with prefix, which is never empty. It is for a bucket that keeps
	// versions, and [Files.Purge] calls it. Nil: none are deleted.
	Unversion func(ctx context.Context, b *blob.Bucket, prefix string) error
	// SoleWriter promises that nothing but this Files writes to the bucket: no
	// other process, no mount. Conditions are then checked under a lock where
	// the bucket can't check them by itself.
	SoleWriter bool

	MaxFile  int64 // most bytes of a file that is written; 0 = DefaultMaxFile
	MaxText  int64 // most bytes that ReadText returns; 0 = DefaultMaxText
	MaxScan  int   // most files that a list, copy or rename looks at; 0 = DefaultMaxScan
	MaxCount int   // where Count stops; 0 = DefaultMaxCount

	// Quota says how much a folder may hold, and is asked as it is opened. nil = any amount.
	Quota func(mount.Row) Quota
	// CountEvery is how old a count may be by which quotas are kept; 0 = DefaultCountEvery.
	CountEvery time.Duration

	// Internal names top-level entries that belong to the host's own programs.
	// Git-aware views hide them, as they hide every segment that begins with
	// ".bunkroom-".
	Internal []string

	Now   func() time.Time // dates attachments; nil = time.Now
	NewID func() string    // mints ids, canonical UUIDs; nil = version 7
}

// Files opens folders of a bucket.
type Files struct {
	c        Config
	locks    keyLocks
	accounts accounts
	sights   sights

	mu   sync.Mutex
	caps *Caps // nil until a probe succeeded
}

// New returns files over a bucket, and does not call it yet. The error is a
// [*access.FieldError].
func New(c Config) (*Files, error) {
	if c.Bucket == nil {
		return nil, &access.FieldError{Field: "Bucket", Rule: "must not be nil"}
	}
	if _, err := mount.PrefixRoot(c.Namespace); err != nil {
		return nil, err
	}
	for _, name := range c.Internal {
		if pathRule(name) != "" || strings.Contains(name, "/") {
			return nil, &access.FieldError{Field: "Internal", Rule: "must be single names"}
		}
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{{"MaxFile", c.MaxFile}, {"MaxText", c.MaxText}, {"MaxScan", int64(c.MaxScan)}, {"MaxCount", int64(c.MaxCount)}, {"CountEvery", int64(c.CountEvery)}} {
		if limit.value < 0 {
			return nil, &access.FieldError{Field: limit.name, Rule: "must not be negative"}
		}
	}
	orDefault(&c.MaxFile, DefaultMaxFile)
	orDefault(&c.MaxText, DefaultMaxText)
	orDefault(&c.MaxScan, DefaultMaxScan)
	orDefault(&c.MaxCount, DefaultMaxCount)
	orDefault(&c.CountEvery, DefaultCountEvery)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NewID == nil {
		c.NewID = id.New
	}
	return &Files{c: c}, nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Folder is one mount's contents.
type Folder struct {
	f      *Files
	prefix mount.Prefix
	// work: the working directory of a session, where a link to the agents'
	// folders stands at the root.
	work  bool
	quota Quota
}

// Folder opens a mount's contents. Whether the actor may see or change them
// has been decided before. It calls nothing; a [*access.FieldError] names a bad
// field of the row. A protected mount is not for browsing: it is mount.ErrNotFound.
func (f *Files) Folder(row mount.Row) (*Folder, error) {
	if row.Protected() {
		return nil, fmt.Errorf("%w: %s is protected", mount.ErrNotFound, row.ID)
	}
	return f.folder(row)
}

func (f *Files) folder(row mount.Row) (*Folder, error) {
	p, err := mount.PrefixOf(f.c.Namespace, row)
	if err != nil {
		return nil, err
	}
	d := &Folder{f: f, prefix: p}
	if f.c.Quota != nil {
		d.quota = f.c.Quota(row)
	}
	return d, nil
}

// WorkingDirectory is Folder for a session's own working directory. There the
// name agent-files at the root is the place of a link to the agents' folders,
// which storage keeps as an empty file: that object is hidden, and nothing is
// written there. Everywhere else the name is an ordinary one.
func (f *Files) WorkingDirectory(row mount.Row) (*Folder, error) {
	d, err := f.Folder(row)
	if err != nil {
		return nil, err
	}
	d.work = true
	return d, nil
}

// Prefix is what all keys of the folder begin with.
func (d *Folder) Prefix() mount.Prefix { return d.prefix }
