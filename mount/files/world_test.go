package files

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/mount"
)

func row() mount.Row {
	return mount.Row{ID: "0192f0c1-2ab4-7cde-8f01-23456789abcd", Scope: "project:p", Kind: mount.KindAgent}
}

func otherRow() mount.Row {
	return mount.Row{ID: "0192f0c1-2ab4-7cde-8f01-23456789abce", Scope: "project:p", Kind: mount.KindAgent}
}

func attachmentsRow() mount.Row {
	return mount.Row{ID: row().ID, Scope: row().Scope, Kind: mount.KindSession, Purpose: mount.PurposeAttachments}
}

// buckets runs a test on every kind of bucket there is here.
func buckets(t *testing.T, test func(t *testing.T, c Config)) {
	t.Run("memblob", func(t *testing.T) {
		test(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true})
	})
	t.Run("fileblob", func(t *testing.T) {
		b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
		if err != nil {
			t.Fatal(err)
		}
		test(t, Config{Bucket: b, SoleWriter: true, Namespace: "some/where"})
	})
	t.Run("conditional", func(t *testing.T) {
		test(t, Config{Bucket: newStore().bucket(), Precondition: ifMatch})
	})
}

func open(t testing.TB, c Config) *Folder {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return folder(t, f)
}

func folder(t testing.TB, f *Files) *Folder {
	t.Helper()
	d, err := f.Folder(row())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func workingDir(t testing.TB, f *Files) *Folder {
	t.Helper()
	d, err := f.WorkingDirectory(row())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fill stores objects by their paths, behind the package's back; a path that
// ends with a slash is a marker.
func fill(t testing.TB, d *Folder, paths ...string) {
	t.Helper()
	for _, p := range paths {
		raw(t, d, p, "content of "+p)
	}
}

func raw(t testing.TB, d *Folder, path, content string) {
	t.Helper()
	if strings.HasSuffix(path, "/") {
		content = ""
	}
	if err := d.f.c.Bucket.WriteAll(t.Context(), d.key(path), []byte(content), &blob.WriterOptions{ContentType: "text/plain"}); err != nil {
		t.Fatal(err)
	}
}

// keysOf are the paths of all objects of a folder.
func keysOf(t testing.TB, d *Folder) []string {
	t.Helper()
	all := []string{}
	if err := d.keys(t.Context(), "", func(path string) bool { all = append(all, path); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

func paths(all []Entry) []string {
	out := []string{}
	for _, e := range all {
		p := e.Path
		if e.Folder {
			p += "/"
		}
		out = append(out, p)
	}
	return out
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func content(t testing.TB, d *Folder, path string) string {
	t.Helper()
	c, err := d.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(c)
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t testing.TB, d *Folder, path, content string, opts *WriteOptions) Info {
	t.Helper()
	info, err := d.Write(t.Context(), path, strings.NewReader(content), opts)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// unread fails the test that reads it: a body that must not be read.
type unread struct{ t testing.TB }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// breaks gives some bytes and then an error.
func breaks(data string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(data), failing{err})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// at is a time some seconds after another, which is the same in every test.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0).UTC() }
