package files

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob/memblob"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/mount"
)

// bounded opens a folder with a quota, whose clock is now.
func bounded(t testing.TB, c Config, q Quota, now *time.Time) *Folder {
	t.Helper()
	c.Quota = func(mount.Row) Quota { return q }
	c.Now = func() time.Time { return *now }
	return open(t, c)
}

// unsized is a body of n bytes that nobody announces.
func unsized(n int) io.Reader {
	return io.LimitReader(strings.NewReader(strings.Repeat("x", n)), int64(n))
}

func wantFull(t *testing.T, what string, err error, unit string) {
	t.Helper()
	if full, ok := errors.AsType[*FullError](err); !ok || full.Unit != unit || full.Used <= full.Limit {
		t.Errorf("%s: %v, want a FullError of %s", what, err, unit)
	}
}

// A folder takes what fits, and refuses the rest with nothing written:
// announced or not, new or in the place of something, uploaded or copied.
func TestQuotaOfBytes(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		ctx, now := t.Context(), time.Now()
		d := bounded(t, c, Quota{Bytes: 100}, &now)
		write := func(path string, n int, announced bool) error {
			o := &WriteOptions{}
			if announced {
				o.Size = int64(n)
			}
			_, err := d.Write(ctx, path, unsized(n), o)
			return err
		}
		for _, announced := range []bool{true, false} {
			if err := write("a", 60, announced); err != nil {
				t.Fatal(err)
			}
			wantFull(t, "a second file", write("b", 41, announced), "bytes")
			wantFull(t, "in the place of another", write("a", 101, announced), "bytes")
			if err := write("a", 100, announced); err != nil {
				t.Errorf("in the place of another, as much as there is room: %v", err)
			}
			if err := write("a", 60, announced); err != nil {
				t.Errorf("in a full folder, less than there was: %v", err)
			}
		}
		if err := write("b", 40, false); err != nil {
			t.Errorf("as much as there is room: %v", err)
		}
		_, err := d.Copy(ctx, "b", "c", nil)
		wantFull(t, "a copy", err, "bytes")
		if _, err := d.Rename(ctx, "b", "c", nil); err != nil {
			t.Errorf("a rename in a full folder: %v", err)
		}
		if _, err := d.Delete(ctx, "a", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Copy(ctx, "c", "d", nil); err != nil {
			t.Errorf("a copy, after something was deleted: %v", err)
		}
		if u, err := d.Usage(ctx); err != nil || u != (Usage{80, 2}) {
			t.Errorf("got %+v, %v; want 80 bytes in 2 objects", u, err)
		}
	})
}

func TestQuotaOfObjects(t *testing.T) {
	buckets(t, func(t *testing.T, c Config) {
		ctx, now := t.Context(), time.Now()
		d := bounded(t, c, Quota{Objects: 3}, &now)
		for range 2 {
			if _, err := d.Write(ctx, "a", unsized(1000), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Mkdir(ctx, "empty"); err != nil {
			t.Fatal(err)
		}
		if err := d.Mkdir(ctx, "empty"); err != nil {
			t.Errorf("a directory that is there: %v", err)
		}
		if _, err := d.Write(ctx, "b", unsized(0), nil); err != nil {
			t.Fatal(err)
		}
		_, err := d.Write(ctx, "c", unsized(0), nil)
		wantFull(t, "one file more", err, "objects")
		wantFull(t, "one directory more", d.Mkdir(ctx, "more"), "objects")
		_, err = d.Copy(ctx, "a", "copy", nil)
		wantFull(t, "a copy", err, "objects")
		if _, err := d.Write(ctx, "a", unsized(10), nil); err != nil {
			t.Errorf("in the place of another: %v", err)
		}
	})
}

// What others write counts as soon as the last count is old.
func TestQuotaCountsWhatOthersWrite(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	d := bounded(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true, CountEvery: time.Minute}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(ctx, "a", unsized(10), nil); err != nil {
		t.Fatal(err)
	}
	raw(t, d, "by an agent", strings.Repeat("x", 90))
	if _, err := d.Write(ctx, "b", unsized(10), nil); err != nil {
		t.Errorf("by the count of a moment ago: %v", err)
	}
	now = now.Add(time.Minute)
	_, err := d.Write(ctx, "c", unsized(1), nil)
	wantFull(t, "by a new count", err, "bytes")
}

// Of many writers at once as many are let in as fit, and what those held that
// failed is given back.
func TestQuotaOfManyWriters(t *testing.T) {
	ctx, now := t.Context(), time.Now()
	d := bounded(t, Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true}, Quota{Bytes: 100}, &now)
	if _, err := d.Write(ctx, "broken", io.MultiReader(unsized(90), failing{io.ErrUnexpectedEOF}), &WriteOptions{Size: 95}); err == nil {
		t.Error("a body that fails was written")
	}
	var errs [32]error
	var writers sync.WaitGroup
	for i := range errs {
		writers.Go(func() {
			_, errs[i] = d.Write(ctx, "f"+strconv.Itoa(i), unsized(10), nil)
		})
	}
	writers.Wait()
	let := 0
	for _, err := range errs {
		if err == nil {
			let++
		} else {
			wantFull(t, "a writer", err, "bytes")
		}
	}
	u, err := d.Usage(ctx)
	if err != nil || u.Bytes > 100 || u.Bytes != int64(10*let) {
		t.Errorf("%d writers were let in, and there are %+v (%v)", let, u, err)
	}
	for i := 0; let < 10; i++ { // the others had to give way to holds of those that failed, or not at all
		if _, err := d.Write(ctx, "g"+strconv.Itoa(i), unsized(10), nil); err != nil {
			t.Fatal(err)
		}
		let++
	}
	_, err = d.Write(ctx, "one more", unsized(1), nil)
	wantFull(t, "one more", err, "bytes")
}

// Whatever is done, there is never more than the quota, and what is known of
// the usage is what a count finds.
func TestQuotaIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, now := t.Context(), time.Now()
		q := Quota{Bytes: rapid.Int64Range(0, 60).Draw(t, "bytes"), Objects: rapid.Int64Range(0, 4).Draw(t, "objects")}
		f, err := New(Config{Bucket: memblob.OpenBucket(nil), SoleWriter: true, Quota: func(mount.Row) Quota { return q }, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		d, err := f.Folder(row())
		if err != nil {
			t.Fatal(err)
		}
		path := rapid.SampledFrom([]string{"a", "b", "c/d", "c/e", "f"})
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			var err error
			at := path.Draw(t, "path")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				n := rapid.IntRange(0, 40).Draw(t, "size")
				o := &WriteOptions{}
				if rapid.Bool().Draw(t, "announced") {
					o.Size = int64(n)
				}
				_, err = d.Write(ctx, at, unsized(n), o)
			case 2:
				err = d.Mkdir(ctx, "dir "+strings.ReplaceAll(at, "/", " "))
			case 3:
				_, err = d.Copy(ctx, at, path.Draw(t, "to"), &MoveOptions{Overwrite: true})
			case 4:
				_, err = d.Delete(ctx, at, nil)
			}
			if full, ok := errors.AsType[*FullError](err); ok && (full.Unit == "bytes" && q.Bytes == 0 || full.Unit == "objects" && q.Objects == 0) {
				t.Fatalf("%v, with the quota %+v", err, q)
			}
			u, err := d.Usage(ctx)
			if err != nil || q.Bytes > 0 && u.Bytes > q.Bytes || q.Objects > 0 && u.Objects > q.Objects {
				t.Fatalf("there are %+v (%v), with the quota %+v", u, err, q)
			}
			if q == (Quota{}) {
				continue
			}
			a := f.accounts.of(d)
			if len(a.open) > 0 || a.twice || !a.counted.IsZero() && a.usage != u || a.users != 1 {
				t.Fatalf("known is %+v, with %d held by %d; there are %+v", a.usage, len(a.open), a.users-1, u)
			}
			f.accounts.leave(a)
		}
	})
}
