package files

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
)

// slowList is a store of which something is done while it lists.
type slowList struct {
	*store
	listed func()
}

func (s *slowList) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	page, err := s.store.ListPaged(ctx, o)
	if s.listed != nil {
		s.listed()
	}
	return page, err
}

// What is written while a count is made is not forgotten.
func TestQuotaCountsWhatIsWrittenMeanwhile(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	s := &slowList{store: newStore()}
	d := bounded(t, Config{Bucket: blob.NewBucket(s), Precondition: ifMatch}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(ctx, "z", unsized(1), nil); err != nil {
		t.Fatal(err)
	}
	hold, reading, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := d.Write(ctx, "slow", &gate{n: 80, wait: hold, reading: reading}, &WriteOptions{Size: 80})
		done <- err
	}()
	<-reading
	now = now.Add(time.Hour)
	var once sync.Once
	s.listed = func() {
		once.Do(func() {
			close(hold)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := d.Write(ctx, "b", unsized(10), nil); err != nil {
		t.Fatal(err)
	}
	_, err := d.Write(ctx, "c", unsized(80), nil)
	wantFull(t, "beyond it", err, "bytes")
	if u, err := d.Usage(ctx); err != nil || u.Bytes != 91 {
		t.Errorf("there are %+v (%v), want 91 bytes", u, err)
	}
}

// gate is a body of n bytes that waits before the first.
type gate struct {
	n             int
	wait, reading chan struct{}
	once          sync.Once
}

func (g *gate) Read(p []byte) (int, error) {
	g.once.Do(func() { close(g.reading); <-g.wait })
	if g.n == 0 {
		return 0, io.EOF
	}
	n := min(len(p), g.n)
	g.n -= n
	return n, nil
}

// Many who replace one file at once free its room once.
func TestQuotaOfOneFileReplacedByMany(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	d := bounded(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(ctx, "a", unsized(90), nil); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	var all sync.WaitGroup
	for range 5 {
		reading := make(chan struct{})
		all.Go(func() {
			_, _ = d.Write(ctx, "a", &gate{n: 1, wait: hold, reading: reading}, nil)
		})
		<-reading
	}
	close(hold)
	all.Wait()
	_, err := d.Write(ctx, "b", unsized(400), &WriteOptions{Size: 400})
	wantFull(t, "beyond it", err, "bytes")
	if _, err := d.Write(ctx, "b", unsized(99), &WriteOptions{Size: 99}); err != nil {
		t.Errorf("as much as there is room: %v", err)
	}
}

// Renames that are broken off don't fill a folder.
func TestQuotaOfRenamesBrokenOff(t *testing.T) {
	now := time.Now()
	d := bounded(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(t.Context(), "a", unsized(100), nil); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"b", "c", "d", "e"} {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := d.Rename(ctx, "a", to, &MoveOptions{Progress: func(Progress) { cancel() }}); err == nil {
			t.Error("it was not broken off")
		}
	}
	_, err := d.Rename(t.Context(), "b", "f", nil)
	wantFull(t, "a rename in a folder that holds too much", err, "bytes")
	if u, err := d.Usage(t.Context()); err != nil || u.Bytes != 200 {
		t.Errorf("there are %+v (%v), want 200 bytes", u, err)
	}
}

// What is written is not counted twice while its writer looks at it.
func TestQuotaCountsOnce(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	s := newStore()
	d := bounded(t, Config{Bucket: s.bucket(), Precondition: ifMatch}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(ctx, "z", unsized(1), nil); err != nil {
		t.Fatal(err)
	}
	committed, nested := false, false
	s.fail = func(op, key string) error {
		committed = committed || op == "commit"
		if op == "attributes" && committed && !nested {
			nested = true
			if _, err := d.Write(ctx, "b", unsized(40), nil); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	if _, err := d.Write(ctx, "a", unsized(50), nil); err != nil {
		t.Error(err)
	}
}
