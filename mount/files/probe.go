package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/bunkroom/bunkroom/mount"
)

// Power says how a condition is kept.
type Power uint8

// The powers.
const (
	Refused Power = iota // it can't be kept, and what asks for it is an [*UnsupportedError]
	Locked               // under a lock of this process, which is the only writer
	Native               // by the bucket itself, whoever else writes
)

func (p Power) String() string {
	switch p {
	case Locked:
		return "locked"
	case Native:
		return "native"
	}
	return "refused"
}

// Caps is what a bucket can do, as a probe found.
type Caps struct {
	IfAbsent      Power // write only where nothing is
	IfMatch       Power // write only over what has a certain etag
	DeleteIfMatch Power // delete only what has a certain etag
}

const (
	// metaWrite is the metadata that tells one write from every other.
	metaWrite = "bunkroomwrite"
	// cleanup is how long the removal of a probe or of an aborted upload may take.
	cleanup = 10 * time.Second
	// noETag is an etag that no object has.
	noETag = `"bunkroom-no-such-etag"`
)

// Probe finds out what the bucket can do, by trying it on an object of its
// own, which it then removes. It does so once: what it found is remembered,
// a failure is not. The first conditional operation does it too.
func (f *Files) Probe(ctx context.Context) (Caps, error) {
	f.mu.Lock()
	known := f.caps
	f.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	root, err := mount.PrefixRoot(f.c.Namespace)
	if err != nil {
		return Caps{}, err
	}
	key := string(root) + internalPrefix + "probe/" + f.c.NewID() // no scope's segment begins with a dot
	caps, err := f.probe(ctx, key)
	if err != nil {
		return Caps{}, fault("probe", key, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.caps = &caps
	return caps, nil
}

func (f *Files) probe(ctx context.Context, key string) (caps Caps, err error) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		if gone := f.c.Bucket.Delete(ctx, key); err == nil && gcerrors.Code(gone) != gcerrors.NotFound {
			err = gone
		}
	}()
	write := func(o blob.WriterOptions) error {
		o.ContentType, o.Metadata = "text/plain", map[string]string{metaWrite: key}
		return f.c.Bucket.WriteAll(ctx, key, []byte("probe"), &o)
	}
	if err := write(blob.WriterOptions{}); err != nil {
		return caps, err
	}
	switch err := write(blob.WriterOptions{IfNotExist: true}); {
	case unmet(err):
		caps.IfAbsent = Native
	case err != nil && gcerrors.Code(err) != gcerrors.Unimplemented:
		return caps, err
	}
	attrs, err := f.c.Bucket.Attributes(ctx, key)
	if err != nil {
		return caps, err
	}
	if f.c.Precondition == nil {
		if f.c.SoleWriter && attrs.Metadata[metaWrite] == key {
			caps.IfMatch, caps.DeleteIfMatch = Locked, Locked
		}
		if f.c.SoleWriter && caps.IfAbsent == Refused {
			caps.IfAbsent = Locked
		}
		return caps, nil
	}
	condition := func(etag string, misfit *error) func(func(any) bool) error {
		return func(as func(any) bool) error {
			*misfit = f.c.Precondition(etag, as)
			return *misfit
		}
	}
	// A condition that is not met must stop it, and one that is met must not.
	try := func(do func(hook func(func(any) bool) error) error) (Power, error) {
		var misfit error
		err := do(condition(noETag, &misfit))
		if misfit != nil || err == nil || gcerrors.Code(err) == gcerrors.Unimplemented {
			return Refused, nil
		}
		if !unmet(err) {
			return Refused, err
		}
		return Native, do(condition(attrs.ETag, &misfit))
	}
	caps.IfMatch, err = try(func(hook func(func(any) bool) error) error {
		return write(blob.WriterOptions{BeforeWrite: hook})
	})
	if err != nil {
		return caps, err
	}
	if attrs, err = f.c.Bucket.Attributes(ctx, key); err != nil {
		return caps, err
	}
	caps.DeleteIfMatch, err = try(func(hook func(func(any) bool) error) error {
		return f.c.Bucket.DeleteWithOptions(ctx, key, &blob.DeleteOptions{BeforeDelete: hook})
	})
	return caps, err
}

// unmet reports whether a bucket's error says that a condition was not met.
func unmet(err error) bool { return gcerrors.Code(err) == gcerrors.FailedPrecondition }

// etag is the etag of an object. That of a bucket which can't check it tells
// too little: two writes in one tick of a file system's clock would have the same.
func (f *Files) etag(a *blob.Attributes) string {
	if f.c.Precondition != nil {
		return a.ETag
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%x", a.ETag, a.Metadata[metaWrite], a.MD5))
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}
