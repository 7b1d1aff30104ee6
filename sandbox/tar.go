package sandbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"
)

// The defaults of [TarOptions].
const (
	DefaultTarEntries = 1_000_000
	DefaultTarBytes   = 4 << 30
)

// MaxTarNotes is how many of its notes a [TarReport] keeps.
const MaxTarNotes = 1000

// TarOptions are the options of [ExportTar] and [ImportTar].
type TarOptions struct {
	// MaxEntries is how many entries there may be, those that are left out included, and directories
	// that are made though they have no entry of their own. 0 means [DefaultTarEntries].
	MaxEntries int64
	// MaxBytes is how much content all files together may have, in bytes. What a sparse file
	// leaves out counts, and a hard link as the copy that is made of it. 0 means [DefaultTarBytes].
	MaxBytes int64
	// Progress, unless nil, is called as each entry begins and after each piece of a file's content, of a few
	// dozen kilobytes, by the goroutine of the call, which goes on once it returns.
	Progress func(TarProgress)
}

// TarProgress is how far an archive has come.
type TarProgress struct {
	Path    string // of the entry, as it is in the archive
	Entries int64  // that are done
	Bytes   int64  // of the content of files, those of this one included
}

// TarReport is what was done, of which an error takes nothing back.
type TarReport struct {
	Entries int64 // files, directories and links that are in the archive, or were made
	Bytes   int64 // of the content of files
	Skipped int64 // entries that were left out
	// Notes say what was left out, and what is not as it was, in the order of the archive: the first [MaxTarNotes].
	Notes []TarNote
}

// TarNote is about one entry of an archive.
type TarNote struct {
	Path   string // as it is in the archive, or would be; of a very long one the beginning
	Reason TarReason
}

// TarReason says what is to be told about an entry of an archive.
type TarReason uint8

// The reasons. All but TarChanged say that the entry was left out.
const (
	TarUnknown    TarReason = iota
	TarKind                 // it is no file, directory or link
	TarName                 // its name, or the text of the link, is not allowed: it leads out, is too long, or no text
	TarThrough              // something that is no directory, such as a link, stands where a directory above it should
	TarInTheWay             // there is a directory where something else should be
	TarNoTarget             // the hard link leads to no file in the directory
	TarNoLinks              // the sandbox has no symbolic links
	TarUnreadable           // it may not be read
	TarGone                 // it was removed, or became something else, as it was looked at
	TarChanged              // it shrank or grew as it was read: it is cut, or filled up with zeros, to the size it had
)

func (r TarReason) String() string {
	switch r {
	case TarKind:
		return "no file, directory or link"
	case TarName:
		return "name not allowed"
	case TarThrough:
		return "leads through what is no directory"
	case TarInTheWay:
		return "a directory is in the way"
	case TarNoTarget:
		return "hard link to what is no file"
	case TarNoLinks:
		return "no symbolic links here"
	case TarUnreadable:
		return "not readable"
	case TarGone:
		return "gone meanwhile"
	case TarChanged:
		return "changed while it was read"
	}
	return "unknown"
}

// TarLimitError says that an archive has more than it may.
type TarLimitError struct {
	Limit string // the field of [TarOptions]: "MaxEntries" or "MaxBytes"
	Max   int64
	Path  string // the entry that is too much
}

func (e *TarLimitError) Error() string {
	return fmt.Sprintf("sandbox: archive: %q is more than %s of %d", e.Path, e.Limit, e.Max)
}

// Problem is the same for every archive.
func (e *TarLimitError) Problem() (status int, code, sentence string) {
	return 413, "archive_too_large", "The archive is too large."
}

// tarRun is one export or import.
type tarRun struct {
	ctx    context.Context
	fsys   FS
	links  Symlinker  // nil where there are none
	attrs  AttrSetter // nil where there is none
	dir    string     // as given
	opts   TarOptions
	report TarReport
	seen   int64 // what counts towards MaxEntries
	buf    []byte
}

// tarPiece is how much of a file is copied at a time.
const tarPiece = 64 << 10

func newTarRun(ctx context.Context, sb Sandbox, dir string, opts *TarOptions) (*tarRun, error) {
	t := &tarRun{ctx: ctx, fsys: sb.FS(), dir: dir, buf: make([]byte, tarPiece)}
	if opts != nil {
		t.opts = *opts
	}
	switch {
	case t.opts.MaxEntries < 0:
		return nil, fmt.Errorf("%w: MaxEntries must not be negative", ErrInvalid)
	case t.opts.MaxBytes < 0:
		return nil, fmt.Errorf("%w: MaxBytes must not be negative", ErrInvalid)
	}
	if t.opts.MaxEntries == 0 {
		t.opts.MaxEntries = DefaultTarEntries
	}
	if t.opts.MaxBytes == 0 {
		t.opts.MaxBytes = DefaultTarBytes
	}
	t.links, _ = As[Symlinker](sb)
	t.attrs, _ = As[AttrSetter](sb)
	return t, nil
}

// at is the path of what has this name in the archive.
func (t *tarRun) at(name string) string { return path.Join(t.dir, name) }

// count takes one entry more, as far as there may be one.
func (t *tarRun) count(name string) error {
	if err := t.ended(); err != nil {
		return err
	}
	if t.seen++; t.seen > t.opts.MaxEntries {
		return &TarLimitError{Limit: "MaxEntries", Max: t.opts.MaxEntries, Path: short(name)}
	}
	return nil
}

// room says whether there may be size bytes more.
func (t *tarRun) room(name string, size int64) error {
	if size > t.opts.MaxBytes-t.report.Bytes {
		return &TarLimitError{Limit: "MaxBytes", Max: t.opts.MaxBytes, Path: short(name)}
	}
	return nil
}

func (t *tarRun) ended() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

func (t *tarRun) progress(name string) {
	if t.opts.Progress != nil {
		t.opts.Progress(TarProgress{Path: name, Entries: t.report.Entries, Bytes: t.report.Bytes})
	}
}

func (t *tarRun) skip(name string, why TarReason) {
	t.report.Skipped++
	t.note(name, why)
}

func (t *tarRun) note(name string, why TarReason) {
	if len(t.report.Notes) < MaxTarNotes {
		t.report.Notes = append(t.report.Notes, TarNote{Path: short(name), Reason: why})
	}
}

// maxTarName is how long a name may be, in bytes: longer ones no system has.
const maxTarName = 4096

func short(name string) string { return name[:min(len(name), maxTarName)] }

// copy copies what r has. read tells whose the error is.
func (t *tarRun) copy(w io.Writer, r io.Reader, name string) (n int64, read bool, err error) {
	for {
		if err := t.ended(); err != nil {
			return n, false, err
		}
		got, failed := r.Read(t.buf)
		if got > 0 {
			if _, err := w.Write(t.buf[:got]); err != nil {
				return n, false, err
			}
			n += int64(got)
			t.report.Bytes += int64(got)
			t.progress(name)
		}
		switch {
		case failed == io.EOF:
			return n, true, nil
		case failed != nil:
			return n, true, failed
		}
	}
}

// tarAttrs are what an archive says of a file beside its content.
type tarAttrs struct {
	mode    fs.FileMode // permission bits
	modTime time.Time
}
