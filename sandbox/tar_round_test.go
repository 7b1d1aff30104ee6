package sandbox_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// powerless has links and no other power.
type powerless struct{ sandbox.Sandbox }

func (p powerless) As(target any) (ok bool) {
	if l, is := target.(*sandbox.Symlinker); is {
		*l, ok = sandbox.As[sandbox.Symlinker](p.Sandbox)
	}
	return ok
}

// hosted sets the attributes of files that lie on this host, where they have the same paths.
type hosted struct{ powerless }

func (h hosted) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(h.Workdir(), path)
}

func (h hosted) Chmod(_ context.Context, path string, mode fs.FileMode) error {
	return os.Chmod(h.at(path), mode)
}

func (h hosted) Chtimes(_ context.Context, path string, modTime time.Time) error {
	return os.Chtimes(h.at(path), modTime, modTime)
}

// localBox is a sandbox of files on this host.
func localBox(t *testing.T) sandbox.Sandbox {
	t.Helper()
	p, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(t, need.Bwrap, cannot.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	m, err := p.Create(t.Context(), sandbox.CreateRequest{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	sb, err := p.Attach(t.Context(), m.Ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// grow makes a tree of any kind at dir.
func grow(r *rapid.T, sb sandbox.Sandbox, dir string) {
	ctx := context.Background()
	element := rapid.SampledFrom([]string{"a", "b", "ünï", "with space", "a\nb", "...", strings.Repeat("long", 40), "%2e%2e", "-x"})
	links, _ := sandbox.As[sandbox.Symlinker](sb)
	attrs, can := sandbox.As[sandbox.AttrSetter](sb)
	var made []string
	if err := sb.FS().Mkdir(ctx, dir); err != nil {
		r.Fatal(err)
	}
	for range rapid.IntRange(0, 12).Draw(r, "steps") {
		name := dir + "/" + strings.Join(rapid.SliceOfN(element, 1, 4).Draw(r, "name"), "/")
		var err error
		switch rapid.SampledFrom([]string{"file", "file", "dir", "link"}).Draw(r, "kind") {
		case "file":
			text := bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{0, 1, 511, 512, 513, 70_000}).Draw(r, "size"))
			mode := rapid.SampledFrom([]fs.FileMode{0, 0o600, 0o755, 0o444}).Draw(r, "mode")
			err = sandbox.WriteFile(ctx, sb.FS(), name, text, &sandbox.CreateOptions{Mode: mode})
		case "dir":
			err = sb.FS().Mkdir(ctx, name)
		case "link":
			_ = links.Symlink(ctx, rapid.SampledFrom([]string{"a", "../a", "/etc", "b/ünï", strings.Repeat("t", 150)}).Draw(r, "target"), name) // fails where something is already
			continue
		}
		if err == nil { // else something else was there
			made = append(made, name)
		}
	}
	for _, name := range slices.Backward(made) {
		when := time.Unix(rapid.Int64Range(-1<<31, 1<<33).Draw(r, "s"), rapid.Int64Range(0, 999_999_999).Draw(r, "ns"))
		if !can {
			continue
		}
		if err := attrs.Chmod(ctx, name, rapid.SampledFrom([]fs.FileMode{0o700, 0o755, 0o500, 0o777}).Draw(r, "mode")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Fatal(err)
		}
		if err := attrs.Chtimes(ctx, name, when); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Fatal(err)
		}
	}
}

// timeless is what an archive holds but for the times.
func timeless(r *rapid.T, archive []byte) (all []string) {
	in := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := in.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			r.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%c %q %q %o %d %x", h.Typeflag, h.Name, h.Linkname, h.Mode, h.Size, text))
	}
}

// What was exported and imported exports to the same bytes; where there are no attributes to set, but for the times.
func TestTarRoundTrip(t *testing.T) {
	onHost := localBox(t)
	for name, c := range map[string]struct {
		sb    sandbox.Sandbox
		exact bool
	}{
		"memory":                   {tarBox(t), true}, // where it is always the same time
		"memory without powers":    {powerless{tarBox(t)}, true},
		"local":                    {hosted{powerless{onHost}}, true},
		"local without attributes": {powerless{onHost}, false},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			rapid.Check(t, func(r *rapid.T) {
				runs++
				dir := fmt.Sprintf("%s-%d", strings.ReplaceAll(name, " ", "-"), runs)
				from, to := dir+"/from", dir+"/to"
				grow(r, c.sb, from)
				var first, second bytes.Buffer
				out, err := sandbox.ExportTar(t.Context(), c.sb, from, &first, nil)
				if err != nil {
					r.Fatal(err)
				}
				in, err := sandbox.ImportTar(t.Context(), c.sb, to, bytes.NewReader(first.Bytes()), nil)
				if err != nil {
					r.Fatal(err)
				}
				if diff := cmp.Diff(out, in); diff != "" {
					r.Errorf("the reports (-export +import)\n%s", diff)
				}
				if _, err := sandbox.ExportTar(t.Context(), c.sb, to, &second, nil); err != nil {
					r.Fatal(err)
				}
				if diff := cmp.Diff(timeless(r, first.Bytes()), timeless(r, second.Bytes())); diff != "" {
					r.Errorf("(-first +second)\n%s", diff)
				}
				if c.exact && !bytes.Equal(first.Bytes(), second.Bytes()) {
					r.Errorf("the archives have the same entries and other bytes")
				}
				if err := c.sb.FS().Remove(t.Context(), dir, &sandbox.RemoveOptions{Recursive: true}); err != nil {
					r.Fatal(err)
				}
			})
		})
	}
}
