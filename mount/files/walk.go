package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

// level is what one directory holds.
type level struct {
	files  []Entry
	dirs   []string // paths
	marker *Entry   // of the directory itself, where there is one
	bare   bool     // nothing was listed at all
	capped bool     // there is more
}

// storage is what a walk asks for.
type storage struct {
	// level lists one directory, to at most so many files and so many directories.
	level func(ctx context.Context, dir string, files, dirs int) (level, error)
	// ignoreFile reads the ignore file of a directory; ok is false where there
	// is none that can be used.
	ignoreFile func(ctx context.Context, dir string) (text string, ok bool, err error)
}

// node is a directory on the way of a walk.
type node struct {
	dir   string
	chain []rules // the ignore files above it, and its own once it is opened
}

// walk goes through the directories of a folder as a view shows them.
type walk struct {
	storage
	hides  func(path string) bool // whatever ignore files say
	ignore bool                   // ignore files count
	left   int                    // how many of them may still be read
	limit  int                    // of files in all
	dirs   int                    // of directories in all
}

// walk returns a walk in one of the git views.
func (d *Folder) walk(view View, limit int) *walk {
	return &walk{
		storage: storage{level: d.level, ignoreFile: d.ignoreFile},
		hides:   d.f.hides, ignore: view == ViewGit, left: maxIgnoreFiles, limit: limit, dirs: d.f.c.MaxScan,
	}
}

// start is the node of dir; ok is false where the view hides it.
func (w *walk) start(ctx context.Context, dir string) (n node, ok bool, err error) {
	n = node{dir: dir}
	if dir == "" {
		return n, true, nil
	}
	if w.hides(dir) {
		return n, false, nil
	}
	if !w.ignore {
		return n, true, nil
	}
	for at := ""; at != dir; {
		if w.left > 0 {
			w.left--
			text, ok, err := w.ignoreFile(ctx, at)
			if err != nil {
				return n, false, err
			}
			if ok {
				n.chain = append(n.chain, parseIgnore(at, text))
			}
		}
		next := dir
		below := strings.TrimPrefix(dir[len(at):], "/")
		if segment, _, more := strings.Cut(below, "/"); more {
			next = join(at, segment)
		}
		if ignored(n.chain, next, true) {
			return n, false, nil
		}
		at = next
	}
	return n, true, nil
}

// open lists nodes and prunes what is hidden. The outcome does not depend on
// which list was faster.
func (w *walk) open(ctx context.Context, nodes []node, files, dirs int) ([]level, error) {
	levels := make([]level, len(nodes))
	err := parallel(ctx, len(nodes), func(ctx context.Context, i int) (err error) {
		levels[i], err = w.level(ctx, nodes[i].dir, files, dirs)
		return err
	})
	if err != nil {
		return nil, err
	}
	var withRules []int
	for i := range levels {
		own := join(nodes[i].dir, ignoreFile)
		has := slices.ContainsFunc(levels[i].files, func(e Entry) bool { return e.Path == own })
		if w.ignore && has && w.left > 0 {
			w.left--
			withRules = append(withRules, i)
		}
	}
	err = parallel(ctx, len(withRules), func(ctx context.Context, i int) error {
		n := &nodes[withRules[i]]
		text, ok, err := w.ignoreFile(ctx, n.dir)
		if ok {
			n.chain = append(slices.Clip(n.chain), parseIgnore(n.dir, text))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range levels {
		chain := nodes[i].chain
		levels[i].files = slices.DeleteFunc(levels[i].files, func(e Entry) bool {
			return w.hides(e.Path) || ignored(chain, e.Path, false)
		})
		levels[i].dirs = slices.DeleteFunc(levels[i].dirs, func(dir string) bool {
			return w.hides(dir) || ignored(chain, dir, true)
		})
	}
	return levels, nil
}

// all returns every file below dir, and the markers of directories, up to the limit.
func (w *walk) all(ctx context.Context, dir string) (found, markers []Entry, capped bool, err error) {
	first, ok, err := w.start(ctx, dir)
	if err != nil || !ok {
		return nil, nil, false, err
	}
	queue, seen := []node{first}, map[string]bool{dir: true}
	for len(queue) > 0 {
		group := queue[:min(fan, len(queue))]
		queue = queue[len(group):]
		levels, err := w.open(ctx, group, w.limit-len(found)+1, w.dirs)
		if err != nil {
			return nil, nil, false, err
		}
		for i, l := range levels {
			found = append(found, l.files...)
			switch at := group[i].dir; {
			case at == dir:
			case l.marker != nil:
				markers = append(markers, *l.marker)
			case l.bare: // only its marker made the level above show it, and this store lists none here
				markers = append(markers, Entry{Path: at, Folder: true})
			}
			capped = capped || l.capped
			for _, below := range l.dirs {
				switch {
				case seen[below]: // a store may list a directory in itself
				case len(seen) > w.dirs:
					capped = true
				default:
					seen[below] = true
					queue = append(queue, node{dir: below, chain: group[i].chain})
				}
			}
		}
		if len(found) > w.limit {
			return found[:min(len(found), w.limit)], markers, true, nil
		}
	}
	return found, markers, capped, nil
}

// level is one delimiter listing. Files come first where a file and a
// directory share a name: the directory is then left out. What has no valid
// path is left out, since it could not be opened.
func (d *Folder) level(ctx context.Context, dir string, files, folders int) (level, error) {
	l := level{bare: true}
	prefix := d.below(dir)
	names := map[string]bool{}
	var dirs []string
	err := d.each(ctx, prefix, "/", func(o *blob.ListObject) bool {
		l.bare = false
		name := o.Key[len(prefix):]
		if o.IsDir {
			name = strings.TrimSuffix(name, "/")
		}
		switch {
		case o.Key == prefix && o.IsDir: // a store may list a directory in itself
			return true
		case o.Key == prefix:
			l.marker = &Entry{Path: dir, Folder: true, ModTime: o.ModTime}
			return true
		case pathRule(name) != "" || strings.HasSuffix(name, "/"):
			return true
		case len(l.files) == files && !o.IsDir, len(dirs) == folders && o.IsDir:
			l.capped = true
			return false
		}
		path := join(dir, name)
		switch {
		case o.IsDir:
			dirs = append(dirs, path)
		case !d.isLink(path) && !names[path]:
			names[path] = true
			l.files = append(l.files, Entry{Path: path, Size: o.Size, ModTime: o.ModTime})
		}
		return true
	})
	if err != nil {
		return level{}, fault("list", dir, err)
	}
	for _, path := range dirs {
		if !names[path] {
			names[path] = true
			l.dirs = append(l.dirs, path)
		}
	}
	return l, nil
}

// flat goes through all objects below dir without regard to directories.
func (d *Folder) flat(ctx context.Context, dir string, visit func(e Entry) bool) error {
	prefix := d.below(dir)
	err := d.each(ctx, prefix, "", func(o *blob.ListObject) bool {
		path := o.Key[len(d.prefix):]
		path, folder := strings.CutSuffix(path, "/")
		if o.Key == prefix || pathRule(path) != "" || strings.HasSuffix(path, "/") || d.isLink(path) && !folder {
			return true
		}
		return visit(Entry{Path: path, Folder: folder, Size: o.Size, ModTime: o.ModTime})
	})
	if err != nil {
		return fault("list", dir, err)
	}
	return nil
}

// each visits the objects with a prefix until visit returns false.
func (d *Folder) each(ctx context.Context, prefix, delimiter string, visit func(*blob.ListObject) bool) error {
	it := d.f.c.Bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: delimiter})
	for {
		if err := ctx.Err(); err != nil { // drivers need not look between pages
			return err
		}
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !visit(o) {
			return nil
		}
	}
}

// ignoreFile reads an ignore file. One that is gone, unreadable or too long does not count.
func (d *Folder) ignoreFile(ctx context.Context, dir string) (text string, ok bool, err error) {
	r, err := d.reader(ctx, join(dir, ignoreFile), 0, -1)
	if err == nil {
		defer r.Close()
		var data []byte
		data, err = io.ReadAll(io.LimitReader(r, maxIgnoreBytes+1))
		if err == nil {
			return string(data), len(data) <= maxIgnoreBytes, nil
		}
	}
	if ended := ctx.Err(); ended != nil {
		return "", false, fmt.Errorf("files: read %q: %w", join(dir, ignoreFile), ended)
	}
	return "", false, nil
}
