package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// store is a bucket whose driver keeps conditions by itself, and which fails
// where a test wants it to.
type store struct {
	mu   sync.Mutex
	objs map[string]stored
	seq  int

	fail      func(op, key string) error // called before anything is done; may block
	listsSelf bool                       // a directory is listed in itself
	lax       bool                       // conditions are accepted and not kept
	open, max atomic.Int64               // readers
}

type stored struct {
	data []byte
	mod  time.Time
	etag string
	meta map[string]string
}

// wanted is what the driver lets a hook set.
type wanted struct{ etag string }

// ifMatch is the Precondition for a store.
func ifMatch(etag string, as func(any) bool) error {
	var w *wanted
	if !as(&w) {
		return errors.New("not a store")
	}
	w.etag = etag
	return nil
}

var (
	errGone  = errors.New("gone")
	errUnmet = errors.New("unmet")
	errBroke = errors.New("broke")
)

func newStore() *store { return &store{objs: map[string]stored{}} }

func (s *store) bucket() *blob.Bucket { return blob.NewBucket(s) }

func (s *store) try(op, key string) error {
	if s.fail != nil {
		return s.fail(op, key)
	}
	return nil
}

func (s *store) ErrorCode(err error) gcerrors.ErrorCode {
	switch {
	case errors.Is(err, errGone):
		return gcerrors.NotFound
	case errors.Is(err, errUnmet):
		return gcerrors.FailedPrecondition
	}
	return gcerrors.Unknown
}

func (s *store) As(any) bool             { return false }
func (s *store) ErrorAs(error, any) bool { return false }
func (s *store) Close() error            { return nil }
func (s *store) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errBroke
}

func (s *store) get(key string) (stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objs[key]
	if !ok {
		return o, errGone
	}
	return o, nil
}

func (s *store) Attributes(_ context.Context, key string) (*driver.Attributes, error) {
	if err := s.try("attributes", key); err != nil {
		return nil, err
	}
	o, err := s.get(key)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{ModTime: o.mod, Size: int64(len(o.data)), ETag: o.etag, Metadata: o.meta}, nil
}

func (s *store) ListPaged(_ context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if err := s.try("list", o.Prefix); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	page, last := &driver.ListPage{}, ""
	for _, key := range slices.Sorted(maps.Keys(s.objs)) {
		below, ok := strings.CutPrefix(key, o.Prefix)
		if !ok {
			continue
		}
		obj := &driver.ListObject{Key: key, Size: int64(len(s.objs[key].data)), ModTime: s.objs[key].mod}
		if i := strings.Index(below, "/"); o.Delimiter != "" && i >= 0 {
			obj = &driver.ListObject{Key: o.Prefix + below[:i+1], IsDir: true}
		} else if s.listsSelf && below == "" && o.Delimiter != "" {
			obj = &driver.ListObject{Key: key, IsDir: true}
		}
		if obj.Key == last || obj.Key <= string(o.PageToken) {
			continue
		}
		if len(page.Objects) == 1000 {
			page.NextPageToken = []byte(last)
			break
		}
		last = obj.Key
		page.Objects = append(page.Objects, obj)
	}
	return page, nil
}

type storeReader struct {
	io.Reader
	s     *store
	attrs driver.ReaderAttributes
}

func (r *storeReader) Close() error                         { r.s.open.Add(-1); return nil }
func (r *storeReader) Attributes() *driver.ReaderAttributes { return &r.attrs }
func (r *storeReader) As(any) bool                          { return false }

func (s *store) NewRangeReader(_ context.Context, key string, offset, length int64, _ *driver.ReaderOptions) (driver.Reader, error) {
	open := s.open.Add(1)
	for m := s.max.Load(); open > m && !s.max.CompareAndSwap(m, open); m = s.max.Load() {
	}
	o, err := s.get(key)
	if broke := s.try("read", key); broke != nil {
		err = broke
	}
	if err != nil {
		s.open.Add(-1)
		return nil, err
	}
	data := o.data[offset:]
	if length >= 0 {
		data = data[:min(length, int64(len(data)))]
	}
	return &storeReader{bytes.NewReader(data), s, driver.ReaderAttributes{ModTime: o.mod, Size: int64(len(o.data))}}, nil
}

type storeWriter struct {
	bytes.Buffer
	ctx    context.Context
	s      *store
	key    string
	opts   *driver.WriterOptions
	wanted wanted
}

func (s *store) NewTypedWriter(ctx context.Context, key, _ string, opts *driver.WriterOptions) (driver.Writer, error) {
	w := &storeWriter{ctx: ctx, s: s, key: key, opts: opts}
	if opts.BeforeWrite != nil {
		if err := opts.BeforeWrite(w.wanted.as); err != nil {
			return nil, err
		}
	}
	return w, s.try("write", key)
}

func (w *wanted) as(i any) bool {
	p, ok := i.(**wanted)
	if ok {
		*p = w
	}
	return ok
}

func (w *storeWriter) Close() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.s.try("commit", w.key); err != nil {
		return err
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	old, there := w.s.objs[w.key]
	if !w.s.lax && (w.opts.IfNotExist && there || w.wanted.etag != "" && w.wanted.etag != old.etag) {
		return errUnmet
	}
	w.s.put(w.key, w.Bytes(), w.opts.Metadata)
	return nil
}

// put stores an object; the lock is held.
func (s *store) put(key string, data []byte, meta map[string]string) {
	s.seq++
	s.objs[key] = stored{data, time.Unix(int64(1_700_000_000+s.seq), 0), fmt.Sprintf(`"%d"`, s.seq), meta}
}

func (s *store) Copy(_ context.Context, to, from string, _ *driver.CopyOptions) error {
	if err := s.try("copy", from); err != nil {
		return err
	}
	o, err := s.get(from)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(to, o.data, o.meta)
	return nil
}

func (s *store) Delete(_ context.Context, key string, opts *driver.DeleteOptions) error {
	var w wanted
	if opts != nil && opts.BeforeDelete != nil {
		if err := opts.BeforeDelete(w.as); err != nil {
			return err
		}
	}
	if err := s.try("delete", key); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, there := s.objs[key]
	switch {
	case !s.lax && w.etag != "" && w.etag != old.etag:
		return errUnmet
	case !there:
		return errGone
	}
	delete(s.objs, key)
	return nil
}
