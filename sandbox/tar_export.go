package sandbox

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// ExportTar writes the directory path as an archive in the format of tar, with
// the extensions of POSIX (PAX): its files, directories and symbolic links, not what those lead to, with
// permission bits and times. Names are relative to the directory, which has no entry of its own. Where path
// is a file it is the one entry. Nothing is compressed. A nil opts is all defaults.
//
// The same tree gives the same bytes, wherever it is: entries are sorted, and say nothing of owners. A
// link has no time. What is neither file, directory nor link is left out, and so is what may not be read, or has a name
// in the archive that [ImportTar] would not take; the report tells.
//
// The directory may change meanwhile. Then what there is of the archive is sound all the same: a file has
// as many bytes as it was said to have when it began, and the report tells where it has others by now. What takes
// the place of something else as it is looked at may be read in its place, if it is in the sandbox.
//
// It takes little memory: the names in one directory of each level, and a piece of one file. An error may
// leave an archive without an end in w: that of w, of the sandbox, a [*TarLimitError], or ctx's cause where that
// has ended, which is looked at between the pieces of a file too.
func ExportTar(ctx context.Context, sb Sandbox, path string, w io.Writer, opts *TarOptions) (TarReport, error) {
	t, err := newTarRun(ctx, sb, path, opts)
	if err != nil {
		return TarReport{}, fmt.Errorf("sandbox: export %q: %w", path, err)
	}
	x := &tarExport{tarRun: t, out: tar.NewWriter(w)}
	if err = x.export(); err == nil {
		err = x.out.Close()
	}
	if err != nil {
		err = fmt.Errorf("sandbox: export %q: %w", path, err)
	}
	return t.report, err
}

type tarExport struct {
	*tarRun
	out *tar.Writer
}

func (x *tarExport) export() error {
	info, err := x.fsys.Stat(x.ctx, x.dir)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return x.entries("")
	}
	if err := x.count(info.Name); err != nil {
		return err
	}
	return x.file(x.dir, info.Name, info)
}

// entries exports what is in the directory that has this name in the archive, or none.
func (x *tarExport) entries(dir string) error {
	var names []string
	for info, err := range x.fsys.ReadDir(x.ctx, x.at(dir)) {
		if err != nil {
			return x.unless(dir, err)
		}
		names = append(names, info.Name)
	}
	slices.Sort(names)
	for _, name := range names {
		if dir != "" {
			name = dir + "/" + name
		}
		if err := x.entry(name); err != nil {
			return err
		}
	}
	return nil
}

// unless leaves out what can't be had because of what it is, and else returns err.
func (x *tarExport) unless(name string, err error) error {
	var why TarReason
	switch {
	case name == "": // the directory itself
		return err
	case errors.Is(err, fs.ErrPermission):
		why = TarUnreadable
	case errors.Is(err, ErrClosed), errors.Is(err, ErrGone), errors.Is(err, ErrStale):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrEscapes), errors.Is(err, ErrNotDir), errors.Is(err, ErrIsDir), errors.Is(err, ErrNotLink):
		why = TarGone
	case errors.Is(err, ErrInvalid): // a name that is no text, or a file that is none any more
		why = TarName
	default:
		return err
	}
	x.skip(name, why)
	return nil
}

func (x *tarExport) entry(name string) error {
	if err := x.count(name); err != nil {
		return err
	}
	if _, ok := tarName(name + "/"); !ok { // directories may be nested without end
		x.skip(name, TarName)
		return nil
	}
	info, err := x.fsys.Lstat(x.ctx, x.at(name))
	if err != nil {
		return x.unless(name, err)
	}
	switch info.Kind {
	case KindDir:
		if err := x.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: int64(info.Mode.Perm()), ModTime: info.ModTime}); err != nil {
			return err
		}
		x.report.Entries++
		return x.entries(name)
	case KindFile:
		return x.file(x.at(name), name, info)
	case KindSymlink:
		return x.link(name)
	}
	x.skip(name, TarKind)
	return nil
}

func (x *tarExport) header(h *tar.Header) error {
	h.Format = tar.FormatPAX
	x.progress(h.Name)
	return x.out.WriteHeader(h)
}

func (x *tarExport) link(name string) error {
	if x.links == nil {
		x.skip(name, TarNoLinks)
		return nil
	}
	target, err := x.links.Readlink(x.ctx, x.at(name))
	if err != nil {
		return x.unless(name, err)
	}
	if err := x.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}); err != nil {
		return err
	}
	x.report.Entries++
	return nil
}

func (x *tarExport) file(at, name string, info FileInfo) error {
	if err := x.room(name, info.Size); err != nil {
		return err
	}
	r, err := x.fsys.Open(x.ctx, at, nil)
	if err != nil {
		return x.unless(name, err)
	}
	defer r.Close()
	if err := x.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size, Mode: int64(info.Mode.Perm()), ModTime: info.ModTime}); err != nil {
		return err
	}
	n, _, err := x.copy(x.out, io.LimitReader(r, info.Size), name)
	if err != nil {
		return err
	}
	changed := n < info.Size
	if changed {
		if _, _, err := x.copy(x.out, io.LimitReader(zeros{}, info.Size-n), name); err != nil {
			return err
		}
	} else if more, err := r.Read(x.buf[:1]); more > 0 {
		changed = true
	} else if err != nil && err != io.EOF {
		return err
	}
	if changed {
		x.note(name, TarChanged)
	}
	x.report.Entries++
	return nil
}

// zeros is as many of them as are asked for.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
