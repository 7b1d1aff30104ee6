package filestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/mount/files"
)

func checkProbe(ctx context.Context, b *bed) error {
	got, err := b.files.Probe(ctx)
	if err != nil {
		return err
	}
	if got != b.want {
		return fmt.Errorf("it can do %v, want %v", got, b.want)
	}
	return b.has(ctx)
}

// conflict wants the conflict of a condition, or where the bucket can't keep
// such, that it is refused.
func conflict(err error, power files.Power, etag string, doing string) error {
	if power == files.Refused {
		_, err := as[*files.UnsupportedError](err, doing)
		return err
	}
	e, err := as[*files.ConflictError](err, doing)
	if err == nil && e.ETag != etag {
		err = fmt.Errorf("%s: the conflict tells the etag %s, want %s", doing, e.ETag, etag)
	}
	return err
}

func checkConditions(ctx context.Context, b *bed) error {
	first, err := b.put(ctx, "x", "one", nil)
	if err != nil {
		return err
	}
	_, err = b.put(ctx, "x", "new", &files.WriteOptions{IfAbsent: true})
	if err := conflict(err, b.want.IfAbsent, first.ETag, "making new what is there"); err != nil {
		return err
	}
	if b.want.IfAbsent != files.Refused {
		if _, err := b.put(ctx, "y", "new", &files.WriteOptions{IfAbsent: true}); err != nil {
			return err
		}
	}
	if b.want.IfMatch != files.Refused {
		if _, err := b.put(ctx, "x", "two", &files.WriteOptions{IfMatch: first.ETag}); err != nil {
			return err
		}
	} else if _, err := b.put(ctx, "x", "two", nil); err != nil {
		return err
	}
	second, err := b.folder.Stat(ctx, "x")
	if err != nil {
		return err
	}
	_, err = b.put(ctx, "x", "three", &files.WriteOptions{IfMatch: first.ETag})
	if err := conflict(err, b.want.IfMatch, second.ETag, "writing over what has changed"); err != nil {
		return err
	}
	_, err = b.put(ctx, "none", "three", &files.WriteOptions{IfMatch: first.ETag})
	if err := conflict(err, b.want.IfMatch, "", "writing over what is not there"); err != nil {
		return err
	}
	_, err = b.folder.Delete(ctx, "x", &files.DeleteOptions{IfMatch: first.ETag})
	if err := conflict(err, b.want.DeleteIfMatch, second.ETag, "deleting what has changed"); err != nil {
		return err
	}
	if err := b.holds(ctx, "x", "two"); err != nil {
		return err
	}
	if b.want.DeleteIfMatch == files.Refused {
		return nil
	}
	if _, err = b.folder.Delete(ctx, "x", &files.DeleteOptions{IfMatch: second.ETag}); err != nil {
		return fmt.Errorf("deleting what has not changed: %w", err)
	}
	_, err = b.folder.Stat(ctx, "x")
	return gone(err, "x")
}

// meddler does something when it is first read.
type meddler struct {
	io.Reader
	once sync.Once
	do   func() error
	err  error
}

func (m *meddler) Read(p []byte) (int, error) {
	m.once.Do(func() { m.err = m.do() })
	if m.err != nil {
		return 0, m.err
	}
	return m.Reader.Read(p)
}

func checkOvertaken(ctx context.Context, b *bed) error {
	first, err := b.put(ctx, "x", "one", nil)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		path  string
		o     files.WriteOptions
		power files.Power
	}{
		{"x", files.WriteOptions{IfMatch: first.ETag}, b.want.IfMatch},
		{"new", files.WriteOptions{IfAbsent: true}, b.want.IfAbsent},
	} {
		if c.power == files.Refused {
			continue
		}
		body := &meddler{Reader: strings.NewReader("mine"), do: func() error {
			_, err := b.put(ctx, c.path, "theirs", nil)
			return err
		}}
		_, err := b.folder.Write(ctx, c.path, body, &c.o)
		if _, err := as[*files.ConflictError](err, "writing "+c.path); err != nil {
			return err
		}
		if err := b.holds(ctx, c.path, "theirs"); err != nil {
			return err
		}
	}
	return nil
}

// many runs f at once, as often as many would.
func many(f func() error) error {
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	return errors.Join(errs...)
}

func checkNothingLost(ctx context.Context, b *bed) error {
	if b.want.IfMatch == files.Refused {
		return nil
	}
	if _, err := b.put(ctx, "n", "0", nil); err != nil {
		return err
	}
	err := many(func() error {
		for range 3 {
			for {
				text, err := b.folder.ReadText(ctx, "n")
				if err != nil {
					return err
				}
				var n int
				if _, err := fmt.Sscan(text.Content, &n); err != nil {
					return err
				}
				_, err = b.put(ctx, "n", fmt.Sprint(n+1), &files.WriteOptions{IfMatch: text.ETag})
				if _, ok := errors.AsType[*files.ConflictError](err); ok {
					continue
				}
				if err != nil {
					return err
				}
				break
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.holds(ctx, "n", "24")
}

func checkOneMakes(ctx context.Context, b *bed) error {
	if b.want.IfAbsent == files.Refused {
		return nil
	}
	var made atomic.Int64
	err := many(func() error {
		_, err := b.put(ctx, "new", "mine", &files.WriteOptions{IfAbsent: true})
		if _, ok := errors.AsType[*files.ConflictError](err); ok {
			return nil
		}
		if err == nil {
			made.Add(1)
		}
		return err
	})
	if err == nil && made.Load() != 1 {
		err = fmt.Errorf("%d made it", made.Load())
	}
	return err
}
