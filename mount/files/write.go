package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// WriteOptions are the options of Write.
type WriteOptions struct {
	// IfMatch: only over the file with this etag; else a [*ConflictError].
	IfMatch string
	// IfAbsent: only where there is no file; else a [*ConflictError].
	IfAbsent bool
	// Size is the announced number of bytes; 0 = none was announced. A body of
	// another length is ErrIncomplete.
	Size int64
	// MaxBytes is the most that is written, where that is less than Config.MaxFile; 0 = that.
	MaxBytes int64
}

// Write streams body into the file at path, which needs no parents. Nothing is
// written unless all of it was read: where body fails, is too long
// ([*TooLargeError]) or a condition is not met, what was there stays. Conditions
// are checked before body is read, and again at the end. nil options mean the
// zero ones: the last writer wins.
func (d *Folder) Write(ctx context.Context, path string, body io.Reader, opts *WriteOptions) (Info, error) {
	if opts == nil {
		opts = &WriteOptions{}
	}
	path, err := d.target(path)
	if err != nil {
		return Info{}, err
	}
	if opts.Size < 0 || opts.MaxBytes < 0 {
		return Info{}, &access.FieldError{Field: "Size", Rule: "must not be negative"}
	}
	limit := d.f.c.MaxFile
	if opts.MaxBytes > 0 {
		limit = min(limit, opts.MaxBytes)
	}
	if opts.Size > limit {
		return Info{}, &TooLargeError{Path: path, Limit: limit, Unit: "bytes"}
	}
	cond, err := d.f.condition(ctx, opts.IfAbsent, opts.IfMatch, toWrite)
	if err != nil {
		return Info{}, err
	}
	if err := d.check(ctx, path, cond, false); err != nil {
		return Info{}, err
	}
	announced := opts.Size
	if announced == 0 {
		announced = -1
	}
	return d.put(ctx, path, &bodyReader{r: body, ended: ctx.Err, path: path, limit: limit, size: announced}, cond)
}

// put writes one object.
func (d *Folder) put(ctx context.Context, path string, body *bodyReader, cond condition) (Info, error) {
	room, err := d.claim(ctx, path, max(0, body.size))
	if err != nil {
		return Info{}, err
	}
	defer room.release()
	body.room = room
	writing, cancel := context.WithCancel(ctx)
	defer cancel()
	mark := d.f.c.NewID()
	w, err := d.f.c.Bucket.NewWriter(writing, d.key(path), &blob.WriterOptions{
		ContentType: TypeOf(path),
		Metadata:    map[string]string{metaWrite: mark},
		IfNotExist:  cond.absent && cond.power == Native,
		BeforeWrite: cond.hook(d.f),
	})
	if err != nil {
		return Info{}, d.unwritable(ctx, path, err)
	}
	abort := func() {
		cancel()      // which makes Close drop what was written
		_ = w.Close() // its error is that it was cancelled
	}
	if _, err := io.Copy(w, body); err != nil || body.err != nil {
		abort()
		switch refused := d.refused(ctx, path, cond, err, false); {
		case body.err != nil:
			return Info{}, body.err
		case refused != nil:
			return Info{}, refused
		}
		return Info{}, d.unwritable(ctx, path, err)
	}
	if body.size >= 0 && body.n != body.size {
		abort()
		return Info{}, fmt.Errorf("%w: %q: %d of %d bytes", ErrIncomplete, path, body.n, body.size)
	}
	unlock, err := d.turn(ctx, path)
	if err != nil {
		abort()
		return Info{}, err
	}
	defer unlock()
	if cond.power == Locked {
		if err := d.check(ctx, path, cond, true); err != nil {
			abort()
			return Info{}, err
		}
	}
	if err := w.Close(); err != nil {
		refused := d.refused(ctx, path, cond, err, true)
		switch {
		case refused == nil:
			return Info{}, d.unwritable(ctx, path, err)
		case !d.landed(ctx, path, mark):
			return Info{}, refused
		}
	}
	room.wrote(body.n)
	attrs, err := d.attributes(ctx, path, true)
	if isNotFound(err) || err == nil && len(attrs.Metadata) > 0 && attrs.Metadata[metaWrite] != mark {
		// It was replaced already: the etag is that of another content.
		return Info{Path: path, Size: body.n, ContentType: TypeOf(path)}, nil
	}
	if err != nil {
		return Info{}, fault("look at", path, err)
	}
	return d.info(path, attrs), nil
}

// landed reports whether what is there is what was written with that mark.
// Clients of buckets send a request again whose answer was lost: the second
// one finds what the first has written, and is refused because of it.
func (d *Folder) landed(ctx context.Context, path, mark string) bool {
	attrs, err := d.attributes(ctx, path, true)
	return err == nil && attrs.Metadata[metaWrite] == mark
}

// unwritable says why a write failed: where the bucket is a tree of files, a
// file and a directory can't share a name.
func (d *Folder) unwritable(ctx context.Context, path string, err error) error {
	if gcerrors.Code(err) == gcerrors.Unknown && ctx.Err() == nil {
		for above := parent(path); above != ""; above = parent(above) {
			if at, _ := d.present(ctx, above, true); at != "" { // never waits: the caller may hold a turn
				return &PathError{Path: path, Rule: fmt.Sprintf("has the file %q above it", above)}
			}
		}
		if below, _ := d.anyBelow(ctx, path); below {
			return &PathError{Path: path, Rule: "is a directory"}
		}
	}
	if isNotFound(err) { // which to a writer is no answer
		return fmt.Errorf("%w: write %q: %w", mount.ErrUnavailable, path, err)
	}
	return fault("write", path, err)
}

// Mkdir makes an empty directory, by its marker. One that is there is fine; a
// file is a [*ConflictError].
func (d *Folder) Mkdir(ctx context.Context, path string) error {
	path, err := d.target(path)
	if err != nil {
		return err
	}
	present, err := d.present(ctx, path, false)
	if err != nil {
		return err
	}
	if present != "" {
		return &ConflictError{Path: path, ETag: present, Exists: true}
	}
	room, err := d.claim(ctx, path+"/", 0)
	if err != nil {
		return err
	}
	defer room.release()
	err = d.f.c.Bucket.WriteAll(ctx, d.below(path), nil, &blob.WriterOptions{ContentType: "application/x-directory"})
	if err != nil {
		return d.unwritable(ctx, path, err)
	}
	room.wrote(0)
	return nil
}

// UploadPath is where an uploaded file goes: to path, or where that is empty or
// ends with a slash, below it by the name the file came with. The error is a
// [*PathError].
func UploadPath(path, name string) (string, error) {
	if path != "" && !strings.HasSuffix(path, "/") {
		return path, nil
	}
	if rule := pathRule(name); rule != "" || strings.Contains(name, "/") {
		return "", &PathError{Path: name, Rule: "is no name of a file"}
	}
	return path + name, nil
}

// maxParts is how many parts of a form may stand before the file.
const maxParts = 32

// Upload streams the part "file" of a multipart form into the folder; see
// UploadPath for where it goes. Parts before it are skipped. A form without
// that part is a [*access.FieldError].
func (d *Folder) Upload(ctx context.Context, path string, form *multipart.Reader, opts *WriteOptions) (Info, error) {
	for range maxParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Info{}, fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
		if part.FormName() != "file" {
			continue
		}
		to, err := UploadPath(path, part.FileName())
		if err != nil {
			return Info{}, err
		}
		return d.Write(ctx, to, part, opts)
	}
	return Info{}, &access.FieldError{Field: "file", Rule: "must be a part of the form"}
}

// bodyReader reads a body up to a limit, and keeps what went wrong with it
// apart from what goes wrong with the bucket.
type bodyReader struct {
	r     io.Reader
	ended func() error // says whether the reading is over, as Context.Err does
	path  string
	limit int64
	size  int64 // announced; negative = not
	n     int64
	err   error
	room  *claim    // what is read must fit into; nil = anything does
	sum   io.Writer // is given what was read; may be nil
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if ended := b.ended(); b.err == nil && ended != nil {
		b.err = fmt.Errorf("files: write %q: %w", b.path, ended)
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	if b.sum != nil {
		_, _ = b.sum.Write(p[:n]) // hashes don't fail
	}
	switch {
	case b.size >= 0 && b.n > b.size:
		b.err = fmt.Errorf("%w: %q: over %d bytes", ErrIncomplete, b.path, b.size)
	case b.n > b.limit:
		b.err = &TooLargeError{Path: b.path, Limit: b.limit, Unit: "bytes"}
	case b.full():
	case err != nil && !errors.Is(err, io.EOF):
		b.err = fmt.Errorf("files: body of %q: %w", b.path, err)
	default:
		return n, err
	}
	return n, b.err
}

// full reports whether there is no room for what was read, which is the error then.
func (b *bodyReader) full() bool {
	if err := b.room.read(b.n); err != nil {
		b.err = err
	}
	return b.err != nil
}
