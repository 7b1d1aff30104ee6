package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"sync"
	"testing"

	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/memblob"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

func TestWriteThenRead(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		for _, path := range []string{"report (1).md", `say "hi" [x]#é~.txt`, "a/b/c/", "..a/b"} {
			info := write(t, d, path, "text of "+path, nil)
			if want := strings.TrimSuffix(path, "/"); info.Path != want || info.Size != int64(len("text of "+path)) || info.ETag == "" {
				t.Errorf("%s: %+v", path, info)
			}
			got, err := d.Stat(t.Context(), path)
			if err != nil || got.ETag != info.ETag || got.Size != info.Size {
				t.Errorf("%s: Stat %+v, %v; written as %+v", path, got, err, info)
			}
			if got := content(t, d, path); got != "text of "+path {
				t.Errorf("%s: %q", path, got)
			}
		}
		// The same bytes again are another write.
		one, two := write(t, d, "x", "same", nil), write(t, d, "x", "same", nil)
		if one.ETag == two.ETag {
			t.Error("two writes have one etag")
		}
		if info, err := d.Stat(t.Context(), "a/b"); err != nil || !info.Folder {
			t.Errorf("Stat of a directory: %+v, %v", info, err)
		}
	})
}

// mounts trap 30: what is not there is ErrNotFound, and nothing else is.
func TestMissingIsNotFound(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "file", "dir/x", "empty/")
		for _, path := range []string{"nothing", "dir", "dir/", "empty", "file/below", "dir/y"} {
			if _, err := d.Open(t.Context(), path, nil); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), strings.TrimSuffix(path, "/")) {
				t.Errorf("Open(%s) = %v", path, err)
			}
			if _, err := d.ReadText(t.Context(), path); !errors.Is(err, ErrNotFound) {
				t.Errorf("ReadText(%s) = %v", path, err)
			}
		}
		for _, path := range []string{"nothing", "file/below", "file/below/x", "fil", "di"} {
			if _, err := d.Stat(t.Context(), path); !errors.Is(err, ErrNotFound) {
				t.Errorf("Stat(%s) = %v", path, err)
			}
			if _, err := d.Delete(t.Context(), path, nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("Delete(%s) = %v", path, err)
			}
			if _, err := d.Copy(t.Context(), path, "to", nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("Copy(%s) = %v", path, err)
			}
			if _, err := Export(t.Context(), []Source{{Folder: d, Path: path}}, nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("Export(%s) = %v", path, err)
			}
		}
	})
}

// Another mount's files are as if they were not there.
func TestFoldersDoNotMeet(t *testing.T) {
	f, err := New(Config{Bucket: memblob.OpenBucket(nil)})
	if err != nil {
		t.Fatal(err)
	}
	mine := folder(t, f)
	fill(t, mine, "a")
	for _, r := range []mount.Row{otherRow(), {ID: row().ID, Scope: "project:p2"}, {ID: row().ID, Scope: "user:p"}} {
		other, err := f.Folder(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Open(t.Context(), "a", nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v: %v", r, err)
		}
		if l, err := other.Tree(t.Context(), "", ViewAll); err != nil || l.Total != 0 {
			t.Errorf("%+v: %v, %v", r, l, err)
		}
	}
}

// Where a write does not go through, what was there stays.
func TestAWriteIsWholeOrNothing(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("the client hung up")
	buckets(t, func(t *testing.T, c Config) {
		c.MaxFile = 100
		d := open(t, c)
		write(t, d, "x", "before", nil)
		for _, w := range []struct {
			rule string
			ctx  context.Context
			body io.Reader
			opts *WriteOptions
			ok   func(error) bool
		}{
			{"the body breaks", t.Context(), breaks("half", broken), nil, func(err error) bool { return errors.Is(err, broken) && !errors.Is(err, mount.ErrUnavailable) }},
			{"the body breaks after much", t.Context(), breaks(strings.Repeat("x", 90), broken), nil, func(err error) bool { return errors.Is(err, broken) }},
			{"the body is too long", t.Context(), zeros{}, nil, is[*TooLargeError]},
			{"it is longer than this write may be", t.Context(), zeros{}, &WriteOptions{MaxBytes: 10}, is[*TooLargeError]},
			{"it is announced as too long, and not read", t.Context(), unread{t}, &WriteOptions{Size: 101}, is[*TooLargeError]},
			{"it is shorter than announced", t.Context(), strings.NewReader("abc"), &WriteOptions{Size: 4}, func(err error) bool { return errors.Is(err, ErrIncomplete) }},
			{"it is longer than announced", t.Context(), strings.NewReader("abcde"), &WriteOptions{Size: 4}, func(err error) bool { return errors.Is(err, ErrIncomplete) }},
			{"the context has ended", gone, zeros{}, nil, func(err error) bool { return errors.Is(err, context.Canceled) }},
			{"a size is negative", t.Context(), unread{t}, &WriteOptions{Size: -1}, is[*access.FieldError]},
		} {
			if _, err := d.Write(w.ctx, "x", w.body, w.opts); !w.ok(err) {
				t.Errorf("%s: %v", w.rule, err)
			}
			if got := content(t, d, "x"); got != "before" {
				t.Errorf("%s: it holds %.20q", w.rule, got)
			}
		}
		same(t, "keys", keysOf(t, d), []string{"x"})
		if info := write(t, d, "x", strings.Repeat("y", 100), &WriteOptions{Size: 100}); info.Size != 100 {
			t.Errorf("as long as allowed and announced: %+v", info)
		}
	})
}

func TestStorageFaultsAreUnavailable(t *testing.T) {
	s := newStore()
	d := open(t, Config{Bucket: s.bucket(), Precondition: ifMatch})
	fill(t, d, "x")
	s.fail = func(string, string) error { return errBroke }
	for what, err := range map[string]error{
		"Write": func() error { _, err := d.Write(t.Context(), "y", strings.NewReader(""), nil); return err }(),
		"If":    func() error { _, err := d.Write(t.Context(), "x", unread{t}, &WriteOptions{IfMatch: "e"}); return err }(),
		"Open":  func() error { _, err := d.Open(t.Context(), "x", nil); return err }(),
		"Stat":  func() error { _, err := d.Stat(t.Context(), "x"); return err }(),
		"Mkdir": d.Mkdir(t.Context(), "z"),
		"Level": func() error { _, err := d.Level(t.Context(), "", nil); return err }(),
		"List":  func() error { _, err := d.List(t.Context(), "", &ListOptions{View: ViewGit}); return err }(),
		"Copy":  func() error { _, err := d.Copy(t.Context(), "x", "y", nil); return err }(),
		"Zip":   func() error { _, err := Export(t.Context(), []Source{{Folder: d}}, nil); return err }(),
	} {
		if !errors.Is(err, mount.ErrUnavailable) || !strings.Contains(err.Error(), "broke") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTreesOfFilesSayWhatIsInTheWay(t *testing.T) {
	b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, Config{Bucket: b, SoleWriter: true})
	fill(t, d, "file", "dir/x")
	for _, path := range []string{"file/x", "file/x/y", "dir", strings.Repeat("n", 300)} {
		if _, err := d.Write(t.Context(), path, strings.NewReader("new"), nil); !is[*PathError](err) {
			t.Errorf("Write(%.20s) = %v", path, err)
		}
	}
}

func TestMkdir(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		d := open(t, c)
		fill(t, d, "file")
		for range 2 {
			if err := d.Mkdir(t.Context(), "a/b"); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "keys", keysOf(t, d), []string{"a/b/", "file"})
		if info, err := d.Stat(t.Context(), "a/b"); err != nil || !info.Folder {
			t.Errorf("Stat: %+v, %v", info, err)
		}
		if err := d.Mkdir(t.Context(), "file"); !is[*ConflictError](err) {
			t.Errorf("over a file: %v", err)
		}
		if r, err := d.Delete(t.Context(), "a/b", nil); err != nil || r.Done != 1 {
			t.Errorf("Delete of an empty directory: %+v, %v", r, err)
		}
	})
}

func TestUploadPath(t *testing.T) {
	for _, c := range []struct {
		rule, path, name, want string
		ok                     bool
	}{
		{"a path is the place", "a/b.txt", "c.txt", "a/b.txt", true},
		{"no path is the file's name", "", "c (1).txt", "c (1).txt", true},
		{"a slash at the end is a directory", "a/", "c.txt", "a/c.txt", true},
		{"a name is one segment", "", "a/c.txt", "", false},
		{"and not two dots", "a/", "..", "", false},
		{"or nothing", "a/", "", "", false},
	} {
		got, err := UploadPath(c.path, c.name)
		if got != c.want || (err == nil) != c.ok || err != nil && !is[*PathError](err) {
			t.Errorf("%s: %q, %v", c.rule, got, err)
		}
	}
}

func TestUploadOfAForm(t *testing.T) {
	d := open(t, Config{Bucket: memblob.OpenBucket(nil)})
	form := func(parts ...string) *multipart.Reader {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		for _, field := range parts {
			part, err := w.CreateFormFile(field, "given.txt")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(part, "text of %s", field)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return multipart.NewReader(&b, w.Boundary())
	}
	info, err := d.Upload(t.Context(), "in/", form("other", "file"), nil)
	if err != nil || info.Path != "in/given.txt" || content(t, d, "in/given.txt") != "text of file" {
		t.Errorf("%+v, %v", info, err)
	}
	for rule, f := range map[string]*multipart.Reader{"without the part": form("other"), "with many others": form(strings.Split(strings.Repeat("x ", 40), " ")...)} {
		if _, err := d.Upload(t.Context(), "", f, nil); !is[*access.FieldError](err) {
			t.Errorf("a form %s: %v", rule, err)
		}
	}
	if _, err := d.Upload(t.Context(), "", multipart.NewReader(strings.NewReader("--b\r\nhalf"), "b"), nil); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a form cut short: %v", err)
	}
}

func TestReadRangesAndTexts(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		c.MaxText = 10
		d := open(t, c)
		write(t, d, "x", "0123456789", nil)
		for _, r := range []struct {
			opts ReadOptions
			want string
		}{{ReadOptions{}, "0123456789"}, {ReadOptions{Offset: 3}, "3456789"}, {ReadOptions{Offset: 3, Length: 4}, "3456"}, {ReadOptions{Offset: 10}, ""}, {ReadOptions{Offset: 8, Length: 9}, "89"}} {
			c, err := d.Open(t.Context(), "x", &r.opts)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(c)
			if err = errors.Join(err, c.Close()); err != nil || string(data) != r.want || c.Info.Size != 10 {
				t.Errorf("%+v: %q of %d, %v", r.opts, data, c.Info.Size, err)
			}
		}
		for _, o := range []ReadOptions{{Offset: -1}, {Offset: 11}, {Length: -1}} {
			if _, err := d.Open(t.Context(), "x", &o); !is[*access.FieldError](err) {
				t.Errorf("%+v: %v", o, err)
			}
		}
		write(t, d, "bad", "a\xffb", nil)
		if text, err := d.ReadText(t.Context(), "bad"); err != nil || text.Content != "a\ufffdb" || text.ETag == "" {
			t.Errorf("text: %+v, %v", text, err)
		}
		write(t, d, "long", "0123456789a", nil)
		if _, err := d.ReadText(t.Context(), "long"); !is[*TooLargeError](err) {
			t.Errorf("a long text: %v", err)
		}
	})
}

func TestLocksGoAwayAndEndWithTheContext(t *testing.T) {
	var l keyLocks
	unlock, err := l.lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := l.lock(ctx, "k"); !errors.Is(err, context.Canceled) {
			t.Errorf("a lock that is held: %v", err)
		}
	})
	cancel()
	wg.Wait()
	unlock()
	if len(l.held) != 0 {
		t.Errorf("%d locks are left", len(l.held))
	}
}
