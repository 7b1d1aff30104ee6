package files

import (
	"context"
	"strings"
	"sync"

	"gocloud.dev/blob"
)

// MoveOptions are the options of Copy and Rename.
type MoveOptions struct {
	// Overwrite lets files at the destination be replaced, and directories
	// merged. Without it anything there is a [*ConflictError]. That is looked at
	// once, before the first file is copied.
	Overwrite bool
	// Progress is told after each object, one call at a time. Rename tells
	// copies first, then deletions.
	Progress func(Progress)
}

// Copy copies the file at from, and everything below it, to to. The bucket
// copies by itself; no body passes through this process. It is not done in one
// step: where some objects could not be copied, or ctx has ended, the error is
// a [*PartialError], and those that were are there. Into a folder with a [Quota]
// all of it must fit, beside what it may replace. nil options mean the zero ones.
func (d *Folder) Copy(ctx context.Context, from, to string, opts *MoveOptions) (Report, error) {
	m, err := d.move(ctx, from, to, opts)
	if err != nil {
		return Report{}, err
	}
	room, err := d.room(ctx, &claim{held: Usage{m.bytes, int64(len(m.paths))}})
	if err != nil {
		return Report{}, err
	}
	defer room.release()
	defer d.recount() // what was replaced is not known; first, so that at every moment the copies count
	return m.b.end(m.copy(ctx, nil))
}

// Rename copies, and then deletes what it copied. Nothing is deleted unless
// everything was copied, and no file that was written meanwhile: that is a
// failure in the report, and the file is at both places. The report counts
// deletions, or where there were none, copies. See Copy.
func (d *Folder) Rename(ctx context.Context, from, to string, opts *MoveOptions) (Report, error) {
	m, err := d.move(ctx, from, to, opts)
	if err != nil {
		return Report{}, err
	}
	caps, err := d.f.Probe(ctx)
	if err != nil {
		return Report{}, err
	}
	if err := d.fits(ctx); err != nil {
		return Report{}, err
	}
	defer d.recount()
	var mu sync.Mutex
	etags := make(map[string]string, len(m.paths))
	err = m.copy(ctx, func(path, etag string) {
		mu.Lock()
		defer mu.Unlock()
		etags[path] = etag
	})
	if report, err := m.b.end(err); err != nil {
		return report, err
	}
	m.b = &batch{path: m.from, total: len(m.paths), tell: m.b.tell}
	err = m.b.run(ctx, m.each, func(ctx context.Context, path string) error {
		return d.remove(ctx, path, condition{etag: etags[path], power: caps.DeleteIfMatch})
	})
	return m.b.end(err)
}

// move is a copy that is about to be made.
type move struct {
	d        *Folder
	from, to string
	bytes    int64    // of all of it
	paths    []string // as they are stored, with a slash at the end of markers
	b        *batch
}

func (d *Folder) move(ctx context.Context, from, to string, opts *MoveOptions) (*move, error) {
	if opts == nil {
		opts = &MoveOptions{}
	}
	from, err := d.file(from)
	if err != nil {
		return nil, err
	}
	if to, err = d.target(to); err != nil {
		return nil, err
	}
	if within(to, from) {
		return nil, &PathError{Path: to, Rule: "must not be what is copied, or in it"}
	}
	m := &move{d: d, from: from, to: to}
	info, err := d.stat(ctx, from)
	switch {
	case err == nil:
		m.paths, m.bytes = append(m.paths, info.Path), info.Size
	case !isNotFound(err):
		return nil, err
	}
	long, full := "", false
	err = d.sized(ctx, from, func(path string, size int64) bool {
		if len(d.prefix)+len(m.dest(path)) > maxKey {
			long = path
		}
		full = len(m.paths) == d.f.c.MaxScan
		m.paths, m.bytes = append(m.paths, path), m.bytes+size
		return long == "" && !full
	})
	switch {
	case err != nil:
		return nil, err
	case long != "":
		return nil, &PathError{Path: m.dest(long), Rule: "is too long"}
	case full:
		return nil, &TooLargeError{Path: from, Limit: int64(d.f.c.MaxScan), Unit: "files"}
	case len(m.paths) == 0:
		return nil, notFound("copy", from)
	}
	if !opts.Overwrite {
		present, err := d.present(ctx, to, false)
		if err != nil {
			return nil, err
		}
		below, err := d.anyBelow(ctx, to)
		if err != nil {
			return nil, err
		}
		if present != "" || below {
			return nil, &ConflictError{Path: to, ETag: present, Exists: true}
		}
	}
	m.b = &batch{path: from, total: len(m.paths), tell: opts.Progress}
	return m, nil
}

func (m *move) dest(path string) string { return m.to + strings.TrimPrefix(path, m.from) }

func (m *move) each(yield func(string) bool) error {
	for _, path := range m.paths {
		if !yield(path) {
			break
		}
	}
	return nil
}

// copy copies every object. keep, where it is not nil, is told the etag of
// what was there before the copy was begun.
func (m *move) copy(ctx context.Context, keep func(path, etag string)) error {
	return m.b.run(ctx, m.each, func(ctx context.Context, path string) error {
		if err := ctx.Err(); err != nil { // drivers need not look
			return fault("copy", path, err)
		}
		if keep != nil {
			etag, err := m.d.present(ctx, path, false)
			if err != nil {
				return err
			}
			keep(path, etag)
		}
		dest := m.dest(path)
		unlock, err := m.d.turn(ctx, path, dest)
		if err != nil {
			return err
		}
		defer unlock()
		if err := m.d.f.c.Bucket.Copy(ctx, m.d.key(dest), m.d.key(path), &blob.CopyOptions{}); err != nil {
			if isNotFound(err) {
				return fault("copy", path, err)
			}
			return m.d.unwritable(ctx, dest, err)
		}
		return nil
	})
}
