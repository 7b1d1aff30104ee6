package files

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
)

// mute is a way to a store that answers no write while it is silent.
type mute struct {
	*store
	deaf  bool // it looks at no context
	hangs chan struct{}
	now   func() bool
}

func (m *mute) NewTypedWriter(ctx context.Context, key, kind string, o *driver.WriterOptions) (driver.Writer, error) {
	if !m.now() {
		return m.store.NewTypedWriter(ctx, key, kind, o)
	}
	ended := ctx.Done()
	if m.deaf {
		ended = nil
	}
	select {
	case <-m.hangs:
		return nil, errBroke
	case <-ended:
		return nil, ctx.Err()
	}
}

// again is a bucket whose client sends a write again of which the answer was lost.
type again struct {
	*store
	between func() // what happens between the two; nil = nothing
}

func (a *again) NewTypedWriter(ctx context.Context, key, kind string, o *driver.WriterOptions) (driver.Writer, error) {
	first, err := a.store.NewTypedWriter(ctx, key, kind, o)
	if err != nil {
		return nil, err
	}
	second, err := a.store.NewTypedWriter(ctx, key, kind, o)
	return twice{first, second, a}, err
}

type twice struct {
	driver.Writer
	second driver.Writer
	a      *again
}

func (w twice) Write(p []byte) (int, error) {
	_, _ = w.second.Write(p)
	return w.Writer.Write(p)
}

func (w twice) Close() error {
	if err := w.Writer.Close(); err != nil {
		return errors.Join(err, w.second.Close())
	}
	if w.a.between != nil {
		w.a.between()
	}
	return w.second.Close()
}

// A write under a condition that is sent twice, because its answer was lost,
// has been done: what it finds there is its own. What somebody else has put
// there is a conflict still.
func TestAWriteThatWasSentTwice(t *testing.T) {
	ctx, s := t.Context(), newStore()
	way := &again{store: s}
	f, err := New(Config{Bucket: s.bucket(), Precondition: ifMatch})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	f.c.Bucket = blob.NewBucket(way)
	d := folder(t, f)
	made, err := d.Write(ctx, "a", strings.NewReader("one"), &WriteOptions{IfAbsent: true})
	if err != nil || made.ETag == "" {
		t.Fatalf("made new: %+v, %v", made, err)
	}
	changed, err := d.Write(ctx, "a", strings.NewReader("two"), &WriteOptions{IfMatch: made.ETag})
	if err != nil || changed.ETag == made.ETag || content(t, d, "a") != "two" {
		t.Fatalf("changed: %+v, %v, %q", changed, err, content(t, d, "a"))
	}
	if _, err := d.Write(ctx, "a", strings.NewReader("three"), &WriteOptions{IfMatch: made.ETag}); !is[*ConflictError](err) {
		t.Errorf("over what has changed: %v", err)
	}
	way.between = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.put(d.key("b"), []byte("of another"), nil)
	}
	if _, err := d.Write(ctx, "b", strings.NewReader("mine"), &WriteOptions{IfAbsent: true}); !is[*ConflictError](err) || content(t, d, "b") != "of another" {
		t.Errorf("where another has written since: %v, %q", err, content(t, d, "b"))
	}
}
