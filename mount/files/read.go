package files

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/access"
)

// Info is what is known of one file.
type Info struct {
	Path    string
	Folder  bool // it is a directory, and only Path is known
	Size    int64
	ModTime time.Time
	// ETag stands for this content in a condition: it is strong, quoted and opaque.
	ETag        string
	ContentType string // guessed from the name
}

// Content is an open file. The caller closes it.
type Content struct {
	Info Info // ETag is of this content or of an older one, never of a newer one
	io.ReadCloser
}

// ReadOptions are the options of Open.
type ReadOptions struct {
	Offset int64 // bytes to leave out
	Length int64 // bytes to read at most; 0 = to the end
}

// Stat says what is at a path: a file, else a directory, else ErrNotFound.
func (d *Folder) Stat(ctx context.Context, path string) (Info, error) {
	path, err := d.file(path)
	if err != nil {
		return Info{}, err
	}
	info, err := d.stat(ctx, path)
	if !isNotFound(err) {
		return info, err
	}
	below, err := d.anyBelow(ctx, path)
	if err != nil {
		return Info{}, err
	}
	if below {
		return Info{Path: path, Folder: true}, nil
	}
	return Info{}, notFound("stat", path)
}

func (d *Folder) stat(ctx context.Context, path string) (Info, error) {
	if d.isLink(path) {
		return Info{}, notFound("stat", path)
	}
	attrs, err := d.attributes(ctx, path, false)
	if err != nil {
		return Info{}, fault("stat", path, err)
	}
	return d.info(path, attrs), nil
}

func (d *Folder) info(path string, a *blob.Attributes) Info {
	return Info{Path: path, Size: a.Size, ModTime: a.ModTime, ETag: d.f.etag(a), ContentType: TypeOf(path)}
}

// anyBelow reports whether anything is below a directory, be it only its marker.
func (d *Folder) anyBelow(ctx context.Context, path string) (found bool, err error) {
	err = d.each(ctx, d.below(path), "", func(*blob.ListObject) bool {
		found = true
		return false
	})
	if err != nil {
		return false, fault("list", path, err)
	}
	if found {
		return true, nil
	}
	return d.hasMarker(ctx, path)
}

// hasMarker asks for a directory's marker by its key: not every store lists it
// among what begins with that key.
func (d *Folder) hasMarker(ctx context.Context, path string) (bool, error) {
	_, err := d.f.c.Bucket.Attributes(ctx, d.below(path))
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil:
		return false, fault("look at", path, err)
	}
	return true, nil
}

// Open opens a file for reading. nil options mean all of it. A directory is
// ErrNotFound, as what is not there; a [*access.FieldError] names an option that
// can't be.
func (d *Folder) Open(ctx context.Context, path string, opts *ReadOptions) (*Content, error) {
	if opts == nil {
		opts = &ReadOptions{}
	}
	path, err := d.file(path)
	if err != nil {
		return nil, err
	}
	if opts.Length < 0 {
		return nil, &access.FieldError{Field: "Length", Rule: "must not be negative"}
	}
	info, err := d.stat(ctx, path) // before the content: a write in between makes the etag old, never wrong
	if err != nil {
		return nil, err
	}
	if opts.Offset < 0 || opts.Offset > info.Size {
		return nil, &access.FieldError{Field: "Offset", Rule: "must be in the file"}
	}
	if opts.Offset == info.Size { // stores refuse a range of nothing
		return &Content{Info: info, ReadCloser: io.NopCloser(bytes.NewReader(nil))}, nil
	}
	length := opts.Length
	if length == 0 {
		length = -1
	}
	r, err := d.reader(ctx, path, opts.Offset, length)
	if err != nil {
		return nil, fault("read", path, err)
	}
	info.Size, info.ModTime = r.Size(), r.ModTime()
	return &Content{Info: info, ReadCloser: r}, nil
}

// Text is the content of a small file as text.
type Text struct {
	Path    string
	Content string
	ETag    string
}

// ReadText returns a file as UTF-8, with U+FFFD in place of what is not. A file of
// over Config.MaxText bytes is a [*TooLargeError].
func (d *Folder) ReadText(ctx context.Context, path string) (Text, error) {
	c, err := d.Open(ctx, path, nil)
	if err != nil {
		return Text{}, err
	}
	defer c.Close()
	limit := d.f.c.MaxText
	var b strings.Builder
	n, err := io.Copy(&b, io.LimitReader(c, limit+1))
	switch {
	case err != nil:
		return Text{}, fault("read", c.Info.Path, err)
	case n > limit:
		return Text{}, &TooLargeError{Path: c.Info.Path, Limit: limit, Unit: "bytes"}
	}
	return Text{Path: c.Info.Path, Content: strings.ToValidUTF8(b.String(), "\ufffd"), ETag: c.Info.ETag}, nil
}
