package files

import (
	"context"
	"slices"
	"strings"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/access"
)

// condition is what has to hold of an object for it to be changed.
type condition struct {
	absent bool   // there must be none
	etag   string // its etag; empty = any
	power  Power  // how it is kept; of no meaning without a condition
}

func (c condition) any() bool { return !c.absent && c.etag == "" }

// hook is what a driver is to be asked before the change, or nil.
func (c condition) hook(f *Files) func(func(any) bool) error {
	if c.etag == "" || c.power != Native {
		return nil
	}
	return func(as func(any) bool) error { return f.c.Precondition(c.etag, as) }
}

// condition finds out how a condition can be kept.
func (f *Files) condition(ctx context.Context, absent bool, etag string, of func(Caps) (ifAbsent, ifMatch Power)) (condition, error) {
	c := condition{absent: absent, etag: etag}
	if c.any() {
		return c, nil
	}
	switch {
	case absent && etag != "":
		return c, &access.FieldError{Field: "IfMatch", Rule: "must be empty with IfAbsent"}
	case strings.HasPrefix(etag, "W/"):
		return c, &access.FieldError{Field: "IfMatch", Rule: "must be a strong etag"}
	}
	caps, err := f.Probe(ctx)
	if err != nil {
		return c, err
	}
	ifAbsent, ifMatch := of(caps)
	what := "IfMatch"
	c.power = ifMatch
	if absent {
		what, c.power = "IfAbsent", ifAbsent
	}
	if c.power == Refused {
		return c, &UnsupportedError{What: what}
	}
	return c, nil
}

func toWrite(c Caps) (ifAbsent, ifMatch Power)  { return c.IfAbsent, c.IfMatch }
func toDelete(c Caps) (ifAbsent, ifMatch Power) { return c.IfAbsent, c.DeleteIfMatch }

// check compares a condition with the object as it is. held: the path's turn is the caller's.
func (d *Folder) check(ctx context.Context, path string, c condition, held bool) error {
	if c.any() {
		return nil
	}
	present, err := d.present(ctx, path, held)
	if err != nil {
		return err
	}
	if c.absent && present != "" || c.etag != "" && present != c.etag {
		return &ConflictError{Path: path, ETag: present, Exists: c.absent}
	}
	return nil
}

// present is the etag of the object at a path; empty where there is none.
func (d *Folder) present(ctx context.Context, path string, held bool) (string, error) {
	attrs, err := d.attributes(ctx, path, held)
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fault("look at", path, err)
	}
	return d.f.etag(attrs), nil
}

// refused turns a driver's answer to a change under a condition into a
// conflict, with what is there now.
func (d *Folder) refused(ctx context.Context, path string, c condition, err error, held bool) error {
	if c.any() || !unmet(err) && !(c.etag != "" && isNotFound(err)) {
		return nil
	}
	present, err := d.present(ctx, path, held)
	if err != nil {
		return err
	}
	return &ConflictError{Path: path, ETag: present, Exists: c.absent}
}

// turn takes the lock under which paths are changed, and looked at, where this
// process is the only writer. Some buckets of files have moments at which what
// is being replaced can't be read.
func (d *Folder) turn(ctx context.Context, paths ...string) (unlock func(), err error) {
	if !d.f.c.SoleWriter {
		return func() {}, nil
	}
	slices.Sort(paths) // two that want the same can't wait for each other
	var held []func()
	unlock = func() {
		for _, one := range held {
			one()
		}
	}
	for _, path := range slices.Compact(paths) {
		one, err := d.f.locks.lock(ctx, d.key(path))
		if err != nil {
			unlock()
			return nil, fault("wait for", path, err)
		}
		held = append(held, one)
	}
	return unlock, nil
}

// attributes asks the bucket about an object.
func (d *Folder) attributes(ctx context.Context, path string, held bool) (*blob.Attributes, error) {
	if !held {
		unlock, err := d.turn(ctx, path)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	return d.f.c.Bucket.Attributes(ctx, d.key(path))
}

// reader opens an object, of which it gives length bytes, or all where that is negative.
func (d *Folder) reader(ctx context.Context, path string, offset, length int64) (*blob.Reader, error) {
	unlock, err := d.turn(ctx, path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return d.f.c.Bucket.NewRangeReader(ctx, d.key(path), offset, length, nil)
}
