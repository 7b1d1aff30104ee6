package files

import (
	"context"

	"gocloud.dev/blob"

	"github.com/bunkroom/bunkroom/mount"
)

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	// IfMatch: only the file with this etag, and nothing below that name; else
	// a [*ConflictError].
	IfMatch string
	// Progress is told after each object, one call at a time.
	Progress func(Progress)
}

// Delete removes the file at path and everything below it. What is not there
// is ErrNotFound. What could not be removed is in the report, and then the
// error is a [*PartialError]; call it again. The root is no path: a folder is
// never deleted here. nil options mean the zero ones.
func (d *Folder) Delete(ctx context.Context, path string, opts *DeleteOptions) (Report, error) {
	if opts == nil {
		opts = &DeleteOptions{}
	}
	path, err := d.file(path)
	if err != nil {
		return Report{}, err
	}
	if opts.IfMatch != "" {
		cond, err := d.f.condition(ctx, false, opts.IfMatch, toDelete)
		if err != nil {
			return Report{}, err
		}
		if err := d.remove(ctx, path, cond); err != nil {
			return Report{}, err
		}
		d.recount()
		return Report{Done: 1}, nil
	}
	b := &batch{path: path, tell: opts.Progress}
	present, err := d.present(ctx, path, false) // a tree of files takes the deletion of a directory for that of a file
	if err != nil {
		return Report{}, err
	}
	if present != "" {
		if err := d.remove(ctx, path, condition{}); !isNotFound(err) {
			b.note(path, err)
		}
	}
	err = b.run(ctx, func(yield func(string) bool) error {
		return d.keys(ctx, path, yield)
	}, func(ctx context.Context, path string) error {
		err := d.remove(ctx, path, condition{})
		if isNotFound(err) {
			return nil // somebody else did it
		}
		return err
	})
	report, err := b.end(err)
	d.recount()
	if err == nil && report.Done == 0 {
		return report, notFound("delete", path)
	}
	return report, err
}

// keys yields what stands after the folder's prefix in every key below a
// directory, as it is stored.
func (d *Folder) keys(ctx context.Context, dir string, yield func(path string) bool) error {
	return d.sized(ctx, dir, func(path string, _ int64) bool { return yield(path) })
}

// sized is keys, with the size of each.
func (d *Folder) sized(ctx context.Context, dir string, yield func(path string, size int64) bool) error {
	prefix, marked, more := d.below(dir), dir == "", true
	err := d.each(ctx, prefix, "", func(o *blob.ListObject) bool {
		marked = marked || o.Key == prefix
		more = yield(o.Key[len(d.prefix):], o.Size)
		return more
	})
	if err != nil {
		return fault("list", dir, err)
	}
	if marked || !more {
		return nil
	}
	marked, err = d.hasMarker(ctx, dir)
	if err == nil && marked {
		yield(dir+"/", 0)
	}
	return err
}

// remove removes one object, under a condition.
func (d *Folder) remove(ctx context.Context, path string, cond condition) error {
	if err := ctx.Err(); err != nil { // drivers need not look
		return fault("delete", path, err)
	}
	unlock, err := d.turn(ctx, path)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.check(ctx, path, cond, true); err != nil {
		return err
	}
	var opts *blob.DeleteOptions
	if hook := cond.hook(d.f); hook != nil {
		opts = &blob.DeleteOptions{BeforeDelete: hook}
	}
	if err := d.f.c.Bucket.DeleteWithOptions(ctx, d.key(path), opts); err != nil {
		if refused := d.refused(ctx, path, cond, err, true); refused != nil {
			return refused
		}
		return fault("delete", path, err)
	}
	return nil
}

// Purge removes everything of a mount whose row is gone: it is what
// mount.PurgerConfig.Remove asks for. It succeeds where there is nothing (left).
// Where some objects could not be removed the error is a [*PartialError].
//
// In a bucket that keeps versions a deletion only hides, and Purge removes what it hides too if
// Config.Unversion is set. Where it is not, all that was ever written to the folder stays readable to whoever
// may read versions, and is paid for, until the bucket's own lifecycle rules remove it.
func (f *Files) Purge(ctx context.Context, t mount.Tombstone) error {
	d, err := f.folder(mount.Row{ID: t.ID, Scope: t.Scope})
	if err != nil {
		return err
	}
	b := &batch{path: string(t.ID)}
	_, err = b.end(b.run(ctx, func(yield func(string) bool) error {
		return d.keys(ctx, "", yield)
	}, func(ctx context.Context, path string) error {
		err := d.remove(ctx, path, condition{})
		if isNotFound(err) {
			return nil // another purge did it
		}
		return err
	}))
	if err != nil {
		return err
	}
	locks, path, err := f.lockOf(d.prefix)
	if err != nil {
		return err
	}
	if err := locks.remove(ctx, path, condition{}); err != nil && !isNotFound(err) {
		return err
	}
	if f.c.Unversion == nil {
		return nil
	}
	for _, prefix := range []string{string(d.prefix), locks.key(path)} {
		if err := f.c.Unversion(ctx, f.c.Bucket, prefix); err != nil {
			return fault("purge", string(t.ID), err)
		}
	}
	return nil
}
