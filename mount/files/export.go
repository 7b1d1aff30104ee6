package files

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

const (
	// readAhead is how many files of an archive are being read at once.
	readAhead = 8
	// aheadBytes is how much of each is held in memory before its turn.
	aheadBytes = 256 << 10
)

// Source is one part of an archive.
type Source struct {
	Folder *Folder
	Path   string // a file or directory; empty = the whole folder
	Prefix string // where it goes in the archive; empty = the root
}

// ExportOptions are the options of Export.
type ExportOptions struct {
	View     View
	MaxBytes int64 // most bytes of all files together; 0 = no limit
}

// Archive is an export that has been resolved: everything that can be refused
// has been, before the first byte is sent.
type Archive struct {
	Files   int
	Bytes   int64  // of all files, as they were listed
	Skipped []Skip // what is left out, known so far

	members []member
}

type member struct {
	folder *Folder
	path   string // in the folder
	name   string // in the archive
	entry  Entry
}

// Export resolves what an archive of the sources has in it. A file's name
// begins with the last segment of Source.Path. Where two files have one name
// the first source's is kept. A path that is not there is ErrNotFound, a bad
// one a [*PathError]; too many files (Config.MaxScan for each source) or bytes
// are a [*TooLargeError]. nil options mean the zero ones.
func Export(ctx context.Context, sources []Source, opts *ExportOptions) (*Archive, error) {
	if opts == nil {
		opts = &ExportOptions{}
	}
	var all []member
	for _, s := range sources {
		found, err := s.resolve(ctx, opts.View)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	a := &Archive{}
	a.members, a.Skipped = planZip(all, func(m member) string { return m.name })
	a.Files = len(a.members)
	for _, m := range a.members {
		a.Bytes += m.entry.Size
	}
	if opts.MaxBytes > 0 && a.Bytes > opts.MaxBytes {
		return nil, &TooLargeError{Path: "archive", Limit: opts.MaxBytes, Unit: "bytes"}
	}
	return a, nil
}

func (s Source) resolve(ctx context.Context, view View) ([]member, error) {
	d := s.Folder
	if d == nil {
		return nil, &access.FieldError{Field: "Folder", Rule: "must not be nil"}
	}
	path, err := d.dir(s.Path)
	if err != nil {
		return nil, err
	}
	prefix := ""
	if s.Prefix != "" {
		if rule := pathRule(s.Prefix); rule != "" {
			return nil, &PathError{Path: s.Prefix, Rule: rule}
		}
		prefix = s.Prefix
	}
	var found []Entry
	if path != "" {
		info, err := d.stat(ctx, path)
		switch {
		case err == nil:
			found = append(found, Entry{Path: path, Size: info.Size, ModTime: info.ModTime})
		case !isNotFound(err):
			return nil, err
		}
	}
	below, markers, capped, err := d.scan(ctx, path, view, d.f.c.MaxScan)
	switch {
	case err != nil:
		return nil, err
	case capped:
		return nil, &TooLargeError{Path: path, Limit: int64(d.f.c.MaxScan), Unit: "files"}
	}
	sortEntries(below, ByPath)
	found = append(found, below...)
	if path != "" && len(found) == 0 && len(markers) == 0 {
		there, err := d.anyBelow(ctx, path)
		if err != nil {
			return nil, err
		}
		if !there {
			return nil, notFound("export", path)
		}
	}
	above := 0
	if up := parent(path); up != "" {
		above = len(up) + 1
	}
	all := make([]member, 0, len(found))
	for _, e := range found {
		all = append(all, member{folder: d, path: e.Path, name: join(prefix, e.Path[above:]), entry: e})
	}
	return all, nil
}

// Exported is what became of an archive.
type Exported struct {
	Files   int
	Bytes   int64  // of the files, as they were read
	Skipped []Skip // what is not in it, the archive's own among them
}

// WriteZip writes the archive. At most 8 files are read at once, and of those
// that wait for their turn at most 256 KiB each are in memory, however many
// and large they are. A file that has been deleted since is skipped; after any
// other failure the archive has no end, so that nobody takes it for whole.
func (a *Archive) WriteZip(ctx context.Context, w io.Writer) (Exported, error) {
	ctx, cancel := context.WithCancel(ctx)
	out := Exported{Skipped: append([]Skip(nil), a.Skipped...)}
	turns := make(chan chan ahead, readAhead-1) // one more is with the loop below
	free := make(chan []byte, readAhead)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(turns)
		for _, m := range a.members {
			got := make(chan ahead, 1)
			select {
			case turns <- got:
			case <-ctx.Done():
				return
			}
			wg.Go(func() { got <- m.fetch(ctx, free) })
		}
	})
	defer func() {
		cancel()
		wg.Wait()
		for got := range turns {
			(<-got).close()
		}
	}()

	z := zip.NewWriter(w)
	i := 0
	for got := range turns {
		m := a.members[i]
		i++
		body := <-got
		if isNotFound(body.err) {
			body.close()
			out.Skipped = append(out.Skipped, Skip{m.name, SkipVanished})
			continue
		}
		n, err := m.write(z, body)
		body.close()
		if err != nil {
			return out, err
		}
		select {
		case free <- body.buf:
		default:
		}
		out.Files++
		out.Bytes += n
	}
	if err := ctx.Err(); err != nil {
		return out, fault("export", "", err)
	}
	return out, z.Close()
}

// ahead is the beginning of a file, and what gives the rest; nil where there is none.
type ahead struct {
	buf  []byte
	n    int
	rest io.ReadCloser
	err  error
}

func (b ahead) close() {
	if b.rest != nil {
		_ = b.rest.Close() // it was read, or is not wanted
	}
}

func (m member) fetch(ctx context.Context, free chan []byte) (b ahead) {
	r, err := m.folder.reader(ctx, m.path, 0, -1)
	if err != nil {
		b.err = fault("read", m.path, err)
		return b
	}
	select {
	case b.buf = <-free:
	default:
		b.buf = make([]byte, aheadBytes)
	}
	b.rest = r
	b.n, err = io.ReadFull(r, b.buf)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		b.close()
		b.rest = nil
	case err != nil:
		b.err = fault("read", m.path, err)
	}
	return b
}

func (m member) write(z *zip.Writer, b ahead) (int64, error) {
	if b.err != nil {
		return 0, b.err
	}
	h := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: zipTime(m.entry.ModTime)}
	h.SetMode(0o644)
	w, err := z.CreateHeader(h)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(b.buf[:b.n])
	if err != nil || b.rest == nil {
		return int64(n), err
	}
	rest, err := io.Copy(w, b.rest)
	return int64(n) + rest, err
}
