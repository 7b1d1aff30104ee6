package s3_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
)

// loses is a way to a store on which the answer to one write in two is lost.
type loses struct{ writes, lost atomic.Int64 }

func (l *loses) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := http.DefaultTransport.RoundTrip(q)
	if err != nil || q.Method != http.MethodPut || l.writes.Add(1)%2 == 0 {
		return answer, err
	}
	l.lost.Add(1)
	_ = answer.Body.Close()
	return nil, errors.New("connection reset by peer")
}

// The client of S3 sends a write again whose answer was lost, and a real store
// then refuses the condition that the first one has met. That is no conflict.
func TestAWriteWhoseAnswerIsLost(t *testing.T) {
	s, way := open(t), &loses{}
	bucket := openBucket(t, s3.BucketConfig{
		Bucket: bucketName, Endpoint: s.Endpoint, PathStyle: true, Client: &http.Client{Transport: way},
		Keys: func(context.Context) (s3.Keys, error) { return adminKeys(), nil },
	})
	fs, err := files.New(files.Config{Bucket: bucket, Precondition: s3.Precondition, Namespace: id.New()})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fs.Folder(mount.Row{ID: id1, Scope: "project:again", Kind: mount.KindAgent})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := fs.Probe(ctx); err != nil { // whose lost answers are no conflicts: it has no condition that is met twice
		t.Fatal(err)
	}
	way.lost.Store(0)
	way.writes.Store(0)
	made, err := d.Write(ctx, "a", strings.NewReader("one"), &files.WriteOptions{IfAbsent: true})
	if err != nil {
		t.Fatalf("made new: %v", err)
	}
	way.writes.Store(0)
	if _, err := d.Write(ctx, "a", strings.NewReader("two"), &files.WriteOptions{IfMatch: made.ETag}); err != nil {
		t.Errorf("changed: %v", err)
	}
	way.writes.Store(0)
	_, err = d.Write(ctx, "a", strings.NewReader("three"), &files.WriteOptions{IfMatch: made.ETag})
	if _, ok := errors.AsType[*files.ConflictError](err); !ok {
		t.Errorf("over what has changed: %v", err)
	}
	if way.lost.Load() < 2 {
		t.Errorf("%d answers were lost", way.lost.Load())
	}
	if text, err := d.ReadText(ctx, "a"); err != nil || text.Content != "two" {
		t.Errorf("it holds %q, %v", text.Content, err)
	}
}
