package s3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/drivers/s3"
	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/mount"
	"github.com/bunkroom/bunkroom/mount/files"
	"github.com/bunkroom/bunkroom/mount/files/filestest"
)

func openBucket(t testing.TB, c s3.BucketConfig) *blob.Bucket {
	t.Helper()
	b, err := s3.OpenBucket(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (s store) bucket(t testing.TB, k s3.Keys) *blob.Bucket {
	return openBucket(t, s3.BucketConfig{
		Bucket: bucketName, Endpoint: s.Endpoint, PathStyle: true, Keys: func(context.Context) (s3.Keys, error) { return k, nil },
	})
}

// What package files needs of a bucket, a real store does.
func TestFiles(t *testing.T) {
	s := open(t)
	filestest.TestBucket(t, files.Caps{IfAbsent: files.Native, IfMatch: files.Native, DeleteIfMatch: files.Native}, func(t *testing.T) files.Config {
		return files.Config{Bucket: s.bucket(t, adminKeys()), Precondition: s3.Precondition, Namespace: id.New()}
	})
}

// The files of one folder can be kept with nothing but its own credentials.
func TestFilesWithScopedCredentials(t *testing.T) {
	s := open(t)
	row := mount.Row{ID: id1, Scope: "project:scoped", Kind: mount.KindAgent}
	prefix, err := mount.PrefixOf("", row)
	if err != nil {
		t.Fatal(err)
	}
	c := sign(t, s.signer(t, s.ways(t)["AssumeRole"], nil), mount.Grant{Prefix: prefix})
	fs, err := files.New(files.Config{Bucket: s.bucket(t, scoped(c))})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fs.Folder(row)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write(t.Context(), "notes/plan.md", strings.NewReader("plan"), nil); err != nil {
		t.Fatal(err)
	}
	text, err := d.ReadText(t.Context(), "notes/plan.md")
	if err != nil || text.Content != "plan" {
		t.Errorf("%+v, %v", text, err)
	}
	if l, err := d.List(t.Context(), "", nil); err != nil || len(l.Entries) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	row.Scope = "project:other"
	if d, err = fs.Folder(row); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadText(t.Context(), "notes/plan.md"); !errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("another folder: %v", err)
	}
}

// A backslash in a name is told apart from a store that fails, through package
// files too: by an error that names the key, and nothing is written.
func TestBackslashThroughFiles(t *testing.T) {
	s := open(t)
	fs, err := files.New(files.Config{Bucket: s.bucket(t, adminKeys()), Namespace: "backslash"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fs.Folder(mount.Row{ID: id1, Scope: "project:p", Kind: mount.KindAgent})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Write(t.Context(), `notes/a\b.md`, strings.NewReader("plan"), nil)
	if refused, ok := errors.AsType[*s3.NameError](err); !ok || !strings.HasSuffix(refused.Key, `/notes/a\b.md`) {
		t.Errorf("got %v", err)
	}
	if refused, ok := errors.AsType[*files.PathError](err); !ok || errors.Is(err, mount.ErrUnavailable) {
		t.Errorf("told as %v, %v", refused, err)
	}
	if l, err := d.List(t.Context(), "", nil); err != nil || len(l.Entries) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
}

// An upload that is given up leaves no parts behind, whatever ended it.
func TestUploadsGivenUp(t *testing.T) {
	s := open(t)
	fs, err := files.New(files.Config{Bucket: s.bucket(t, adminKeys()), Namespace: "given-up"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fs.Folder(mount.Row{ID: id1, Scope: "project:p", Kind: mount.KindAgent})
	if err != nil {
		t.Fatal(err)
	}
	const large = 17 << 20 // in three parts
	broke := errors.New("broke")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := false
	for what, end := range map[string]func() error{
		"its body broke":    func() error { return broke },
		"its context ended": func() error { cancel(); return io.EOF },
	} {
		body := io.MultiReader(io.LimitReader(zeros{}, large), ends{func() error {
			l, err := s.admin.ListMultipartUploads(t.Context(), &sdk.ListMultipartUploadsInput{Bucket: aws.String(bucketName), Prefix: aws.String("given-up/")})
			begun = begun || err == nil && len(l.Uploads) > 0
			return end()
		}})
		if _, err := d.Write(ctx, "x", body, nil); !errors.Is(err, broke) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		if ctx.Err() != nil {
			ctx = t.Context()
		}
		l, err := s.admin.ListMultipartUploads(t.Context(), &sdk.ListMultipartUploadsInput{Bucket: aws.String(bucketName), Prefix: aws.String("given-up/")})
		if err != nil || len(l.Uploads) != 0 {
			t.Errorf("%s: %d uploads are left, %v", what, len(l.Uploads), err)
		}
	}
	if !begun {
		t.Error("no upload in parts was begun")
	}
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// ends ends a body.
type ends struct{ do func() error }

func (e ends) Read([]byte) (int, error) { return 0, e.do() }

func TestPreconditionOfAnotherBucket(t *testing.T) {
	b := memblob.OpenBucket(nil)
	defer b.Close()
	err := b.WriteAll(t.Context(), "x", nil, &blob.WriterOptions{BeforeWrite: func(as func(any) bool) error { return s3.Precondition("e", as) }})
	if err == nil || !strings.Contains(err.Error(), "not one of this package") {
		t.Errorf("%v", err)
	}
}

// fakeBucket takes every request and remembers it.
func fakeBucket(t *testing.T, got func(request, *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got(request{line: r.Method + "\n" + r.URL.Path, header: r.Header.Clone(), host: r.Host, body: string(body)}, r)
		w.Header().Set("ETag", `"e"`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Where the bucket's name stands is as configured, and the etag goes along.
func TestRequestsOfABucket(t *testing.T) {
	var paths, etags []string
	url := fakeBucket(t, func(_ request, r *http.Request) {
		paths, etags = append(paths, r.Method+" "+r.URL.Path), append(etags, r.Header.Get("If-Match"))
	})
	b := openBucket(t, s3.BucketConfig{Bucket: bucketName, Endpoint: url, PathStyle: true, Keys: keys})
	on := func(as func(any) bool) error { return s3.Precondition(`"e"`, as) }
	if err := b.WriteAll(t.Context(), "a/b", []byte("x"), &blob.WriterOptions{BeforeWrite: on}); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteWithOptions(t.Context(), "a/b", &blob.DeleteOptions{BeforeDelete: on}); err != nil {
		t.Fatal(err)
	}
	want := "PUT /agents/a/b,HEAD /agents/a/b,DELETE /agents/a/b"
	if got := strings.Join(paths, ","); got != want || strings.Join(etags, ",") != `"e",,"e"` {
		t.Errorf("%s with %q, want %s", got, etags, want)
	}
}

// Keys that change are used from the next request on, even where only the
// secret of an access key has changed.
func TestBucketKeysRotate(t *testing.T) {
	var secret string
	url := fakeBucket(t, func(r request, _ *http.Request) {
		if err := r.signed(secret, "s3"); err != nil {
			t.Errorf("with the secret %s: %v", secret, err)
		}
	})
	b := openBucket(t, s3.BucketConfig{Bucket: bucketName, Endpoint: url, PathStyle: true, Keys: func(context.Context) (s3.Keys, error) {
		return s3.Keys{AccessKey: accessKey, SecretKey: secret}, nil
	}})
	for _, secret = range []string{"one", "two", "three"} {
		if _, err := b.Attributes(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
	}
}

// No redirect is followed: what is sent is for the store that was named.
func TestNoRedirects(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(other.Close)
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	b := openBucket(t, s3.BucketConfig{Bucket: bucketName, Endpoint: server.URL, PathStyle: true, Keys: keys})
	if _, err := b.ReadAll(t.Context(), "x"); err == nil {
		t.Error("the bucket was read elsewhere")
	}
	m := &mint{Server: server}
	for action, way := range ways() {
		if _, err := m.signer(t, way, nil).Sign(t.Context(), mount.Grant{Prefix: folder}); !errors.Is(err, mount.ErrUnavailable) {
			t.Errorf("%s: %v", action, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the other was asked %d times", n)
	}
}
