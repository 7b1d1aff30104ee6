package filestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bunkroom/bunkroom/mount/files"
)

// gone wants that there is nothing.
func gone(err error, path string) error {
	if !errors.Is(err, files.ErrNotFound) {
		return fmt.Errorf("%q: got %v, want ErrNotFound", path, err)
	}
	return nil
}

func checkMissing(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "dir/file"); err != nil {
		return err
	}
	for _, path := range []string{"none", "dir/none", "di", "dir/fil"} {
		_, stat := b.folder.Stat(ctx, path)
		_, open := b.folder.Open(ctx, path, nil)
		_, text := b.folder.ReadText(ctx, path)
		_, remove := b.folder.Delete(ctx, path, nil)
		_, copied := b.folder.Copy(ctx, path, "to", nil)
		for _, err := range []error{stat, open, text, remove, copied} {
			if err := gone(err, path); err != nil {
				return err
			}
		}
	}
	_, err := b.folder.Open(ctx, "dir", nil)
	if err := gone(err, "dir"); err != nil {
		return fmt.Errorf("a directory is no file: %w", err)
	}
	l, err := b.folder.List(ctx, "none", nil)
	if err != nil || len(l.Entries) > 0 {
		return fmt.Errorf("a directory that is not there lists %v, %v", l.Entries, err)
	}
	return b.has(ctx, "dir/file")
}

func checkNames(ctx context.Context, b *bed) error {
	names := []string{
		" lead", "#hash", "%2F", "%zz", "&amp;", "+", "...", "A", "a", "a b", "a+b", "a=b?c", "a~", "ü", "日本", "\u00fc\u0301",
		`quote"'`, "star*", "<xml>", strings.Repeat("long", 50), "🙂",
	}
	if err := b.fill(ctx, names...); err != nil {
		return err
	}
	l, err := b.folder.Tree(ctx, "", files.ViewAll)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, e := range l.Entries {
		there[e.Path] = true
	}
	for _, name := range names {
		if !there[name] {
			return fmt.Errorf("%q is not listed: %q", name, pathsOf(l))
		}
		if err := b.holds(ctx, name, name); err != nil {
			return err
		}
		if _, err := b.folder.Copy(ctx, name, "copied/"+name, nil); err != nil {
			return fmt.Errorf("copy %q: %w", name, err)
		}
		if err := b.holds(ctx, "copied/"+name, name); err != nil {
			return err
		}
	}
	if len(l.Entries) != len(names) {
		return fmt.Errorf("%d of %d are listed", len(l.Entries), len(names))
	}
	return nil
}

func checkBackslash(ctx context.Context, b *bed) error {
	const name = `a\b`
	if err := b.fill(ctx, "a/b"); err != nil {
		return err
	}
	want := []string{"a/b"}
	if _, err := b.put(ctx, name, name, nil); err == nil {
		want = append(want, name)
		if err := b.holds(ctx, name, name); err != nil {
			return err
		}
	} else {
		_, stat := b.folder.Stat(ctx, name)
		_, open := b.folder.Open(ctx, name, nil)
		_, remove := b.folder.Delete(ctx, name, nil)
		if err := errors.Join(gone(stat, name), gone(open, name), gone(remove, name)); err != nil {
			return err
		}
		if _, err := b.folder.Copy(ctx, "a/b", name, nil); err == nil {
			return fmt.Errorf("%q can't be written, and is copied to", name)
		}
	}
	return errors.Join(b.has(ctx, want...), b.holds(ctx, "a/b", "a/b"))
}

func checkRanges(ctx context.Context, b *bed) error {
	const text = "0123456789"
	if _, err := b.put(ctx, "x", text, nil); err != nil {
		return err
	}
	for _, c := range []struct {
		o    files.ReadOptions
		want string
	}{
		{files.ReadOptions{}, text},
		{files.ReadOptions{Offset: 3}, text[3:]},
		{files.ReadOptions{Offset: 3, Length: 4}, text[3:7]},
		{files.ReadOptions{Length: 1}, text[:1]},
		{files.ReadOptions{Offset: 8, Length: 100}, text[8:]},
	} {
		content, err := b.folder.Open(ctx, "x", &c.o)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			return err
		}
		if string(got) != c.want || content.Info.Size != int64(len(text)) {
			return fmt.Errorf("%+v: %q of a file of %d bytes, want %q", c.o, got, content.Info.Size, c.want)
		}
	}
	return nil
}

// large is more than a store takes in one part.
const large = 17<<20 + 5

// period is how many bytes of a pattern differ from those before; no part of
// an upload is as long as a number of them.
const period = 65_521

// pattern is endless. It begins anew after a period.
type pattern struct {
	at    int
	block []byte
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.block == nil {
		p.block = make([]byte, period)
		for i := range p.block {
			p.block[i] = byte(i*31>>3 ^ i>>9)
		}
	}
	n := copy(b, p.block[p.at%period:])
	p.at += n
	return n, nil
}

func checkLarge(ctx context.Context, b *bed) error {
	info, err := b.folder.Write(ctx, "x", io.LimitReader(&pattern{}, large), &files.WriteOptions{Size: large})
	if err != nil {
		return err
	}
	if info.Size != large {
		return fmt.Errorf("it has %d bytes, want %d", info.Size, large)
	}
	c, err := b.folder.Open(ctx, "x", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	want, got, buffer := &pattern{}, make([]byte, 1<<16), make([]byte, 1<<16)
	for n := int64(0); ; {
		k, err := io.ReadFull(c, got)
		_, _ = io.ReadFull(want, buffer[:k]) // it has no end and no errors
		if string(got[:k]) != string(buffer[:k]) {
			return fmt.Errorf("the bytes after %d are others", n)
		}
		n += int64(k)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			if n != large {
				return fmt.Errorf("%d bytes came back, want %d", n, large)
			}
			break
		}
		if err != nil {
			return err
		}
	}
	if b.want.IfMatch == files.Refused {
		return nil
	}
	_, err = b.folder.Write(ctx, "x", io.LimitReader(&pattern{at: 7}, large), &files.WriteOptions{IfMatch: info.ETag})
	if err != nil {
		return fmt.Errorf("over it, by its etag: %w", err)
	}
	_, err = b.folder.Write(ctx, "x", io.LimitReader(&pattern{at: 9}, large), &files.WriteOptions{IfMatch: info.ETag})
	_, err = as[*files.ConflictError](err, "over it, by an old etag")
	return err
}

// failing is what is read after the bytes of a body.
type failing struct{ do func() error }

func (f failing) Read([]byte) (int, error) { return 0, f.do() }

var errBody = errors.New("the body broke")

func checkFailingBody(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "x"); err != nil {
		return err
	}
	for _, size := range []int64{0, 10, large} {
		for _, path := range []string{"x", "new"} {
			body := io.MultiReader(io.LimitReader(&pattern{}, size), failing{func() error { return errBody }})
			if _, err := b.folder.Write(ctx, path, body, nil); !errors.Is(err, errBody) {
				return fmt.Errorf("after %d bytes: got %v, want the body's error", size, err)
			}
		}
	}
	_, err := b.folder.Write(ctx, "x", strings.NewReader("short"), &files.WriteOptions{Size: 6})
	if !errors.Is(err, files.ErrIncomplete) {
		return fmt.Errorf("a body shorter than announced: %v", err)
	}
	return errors.Join(b.holds(ctx, "x", "x"), b.has(ctx, "x"))
}

func checkEndedContext(ctx context.Context, b *bed) error {
	if err := b.fill(ctx, "x"); err != nil {
		return err
	}
	for _, size := range []int64{0, 10, large} {
		ended, cancel := context.WithCancel(ctx)
		body := io.MultiReader(io.LimitReader(&pattern{}, size), failing{func() error { cancel(); return io.EOF }})
		_, err := b.folder.Write(ended, "x", body, nil)
		cancel()
		if !errors.Is(err, context.Canceled) {
			return fmt.Errorf("after %d bytes: got %v, want context.Canceled", size, err)
		}
	}
	return errors.Join(b.holds(ctx, "x", "x"), b.has(ctx, "x"))
}
