package files

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/access"
)

func TestProbeSaysWhatABucketCanDo(t *testing.T) {
	lax := newStore()
	lax.lax = true
	bare, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rule string
		c    Config
		want Caps
	}{
		{"a store with a hook does all by itself", Config{Bucket: newStore().bucket(), Precondition: ifMatch}, Caps{Native, Native, Native}},
		{"without its hook it only makes new ones", Config{Bucket: newStore().bucket()}, Caps{IfAbsent: Native}},
		{"a store that accepts conditions and does not keep them is found out", Config{Bucket: lax.bucket(), Precondition: ifMatch}, Caps{}},
		{"a hook of another driver is found out", Config{Bucket: memblob.OpenBucket(nil), Precondition: ifMatch}, Caps{IfAbsent: Native}},
		{"memory, others may write", Config{Bucket: memblob.OpenBucket(nil)}, Caps{IfAbsent: Native}},
		{"memory, nobody else writes", Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true}, Caps{Native, Locked, Locked}},
		{"a lax store, nobody else writes", Config{Bucket: lax.bucket(), SoleWriter: true}, Caps{Locked, Locked, Locked}},
		{"files that can't tell two writes apart", Config{Bucket: bare, SoleWriter: true}, Caps{IfAbsent: Native}},
	} {
		f, err := New(c.c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Probe(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.rule, got, err, c.want)
		}
		if n := len(lax.objs); n != 0 {
			t.Errorf("%s: the probe left %d objects", c.rule, n)
		}
	}
}

func TestAProbeThatFailsIsTriedAgain(t *testing.T) {
	s := newStore()
	f, err := New(Config{Bucket: s.bucket(), Precondition: ifMatch})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"write", "commit", "attributes", "delete"} {
		s.fail = func(o, _ string) error {
			if o == op {
				return errBroke
			}
			return nil
		}
		if caps, err := f.Probe(t.Context()); err == nil {
			t.Errorf("with a failing %s: %v", op, caps)
		}
	}
	s.fail = nil
	if caps, err := f.Probe(t.Context()); err != nil || caps.IfMatch != Native {
		t.Errorf("%v, %v", caps, err)
	}
}

// A condition that can't be kept is refused by name, before the body is read.
func TestConditionsAreRefusedByName(t *testing.T) {
	d := open(t, Config{Bucket: memblob.OpenBucket(nil)})
	info := write(t, d, "x", "before", nil)
	_, err := d.Write(t.Context(), "x", unread{t}, &WriteOptions{IfMatch: info.ETag})
	if e, ok := errors.AsType[*UnsupportedError](err); !ok || e.What != "IfMatch" {
		t.Errorf("Write: %v", err)
	}
	if _, err = d.Delete(t.Context(), "x", &DeleteOptions{IfMatch: info.ETag}); !is[*UnsupportedError](err) {
		t.Errorf("Delete: %v", err)
	}
	lax := newStore()
	lax.lax = true
	if _, err = open(t, Config{Bucket: lax.bucket()}).Write(t.Context(), "x", unread{t}, &WriteOptions{IfAbsent: true}); !is[*UnsupportedError](err) {
		t.Errorf("IfAbsent: %v", err)
	}
	for _, o := range []WriteOptions{{IfAbsent: true, IfMatch: "e"}, {IfMatch: `W/"e"`}} {
		if _, err := d.Write(t.Context(), "x", unread{t}, &o); !is[*access.FieldError](err) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if got := content(t, d, "x"); got != "before" {
		t.Errorf("it holds %q", got)
	}
}

func TestConditionalWrites(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		first := write(t, d, "x", "one", &WriteOptions{IfAbsent: true})
		_, err := d.Write(t.Context(), "x", unread{t}, &WriteOptions{IfAbsent: true})
		if e, ok := errors.AsType[*ConflictError](err); !ok || !e.Exists || e.ETag != first.ETag {
			t.Errorf("made new where it is: %v, want the present etag %s", err, first.ETag)
		}
		second := write(t, d, "x", "two", &WriteOptions{IfMatch: first.ETag})
		_, err = d.Write(t.Context(), "x", unread{t}, &WriteOptions{IfMatch: first.ETag})
		if e, ok := errors.AsType[*ConflictError](err); !ok || e.Exists || e.ETag != second.ETag {
			t.Errorf("over what has changed: %v, want the present etag %s", err, second.ETag)
		}
		_, err = d.Write(t.Context(), "none", unread{t}, &WriteOptions{IfMatch: first.ETag})
		if e, ok := errors.AsType[*ConflictError](err); !ok || e.ETag != "" {
			t.Errorf("over what is not there: %v", err)
		}
		if _, err = d.Delete(t.Context(), "x", &DeleteOptions{IfMatch: first.ETag}); !is[*ConflictError](err) {
			t.Errorf("deleting what has changed: %v", err)
		}
		if got := content(t, d, "x"); got != "two" {
			t.Errorf("it holds %q", got)
		}
		if r, err := d.Delete(t.Context(), "x", &DeleteOptions{IfMatch: second.ETag}); err != nil || r.Done != 1 {
			t.Errorf("deleting it as it is: %+v, %v", r, err)
		}
	})
}

// A change that comes while the body is being read is not overwritten.
func TestAWriteInBetweenIsAConflict(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		first := write(t, d, "x", "one", nil)
		body := &meddler{Reader: strings.NewReader("mine"), do: func() { write(t, d, "x", "theirs", nil) }}
		if _, err := d.Write(t.Context(), "x", body, &WriteOptions{IfMatch: first.ETag}); !is[*ConflictError](err) {
			t.Errorf("over a change: %v", err)
		}
		body = &meddler{Reader: strings.NewReader("mine"), do: func() { write(t, d, "new", "theirs", nil) }}
		if _, err := d.Write(t.Context(), "new", body, &WriteOptions{IfAbsent: true}); !is[*ConflictError](err) {
			t.Errorf("over what came: %v", err)
		}
		if x, y := content(t, d, "x"), content(t, d, "new"); x != "theirs" || y != "theirs" {
			t.Errorf("they hold %q and %q", x, y)
		}
	})
}

// meddler does something when it is first read.
type meddler struct {
	io.Reader
	do func()
}

func (m *meddler) Read(p []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Reader.Read(p)
}

// Of many who raise a number by read, add and conditional write, none is lost.
func TestNoConditionalWriteIsLost(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		write(t, d, "n", "0", nil)
		var wg sync.WaitGroup
		var made atomic.Int64
		for range 8 {
			wg.Go(func() {
				for range 10 {
					for {
						text, err := d.ReadText(t.Context(), "n")
						if err != nil {
							t.Error(err)
							return
						}
						var n int
						fmt.Sscan(text.Content, &n)
						_, err = d.Write(t.Context(), "n", strings.NewReader(fmt.Sprint(n+1)), &WriteOptions{IfMatch: text.ETag})
						if is[*ConflictError](err) {
							continue
						}
						if err != nil {
							t.Error(err)
							return
						}
						break
					}
				}
				if _, err := d.Write(t.Context(), "first", strings.NewReader("me"), &WriteOptions{IfAbsent: true}); err == nil {
					made.Add(1)
				} else if !is[*ConflictError](err) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := content(t, d, "n"); got != "80" {
			t.Errorf("it is %s after 80 additions", got)
		}
		if made.Load() != 1 {
			t.Errorf("%d made the same file new", made.Load())
		}
	})
}

// Where a write is overtaken at once, its etag would be that of another's content.
func TestAnOvertakenWriteHasNoETag(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket(), Precondition: ifMatch})
	once := true
	s.fail = func(op, key string) error {
		if op == "attributes" && once {
			once = false
			s.mu.Lock()
			defer s.mu.Unlock()
			s.put(key, []byte("theirs"), map[string]string{metaWrite: "another"})
		}
		return nil
	}
	if info := write(t, d, "x", "mine", nil); info.ETag != "" {
		t.Errorf("%+v", info)
	}
}
