package files

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// maxItems is where the counting of a folder's children stops.
const maxItems = 1000

// Entry is one file or folder of a list.
type Entry struct {
	Path    string // below the mount, without slashes at its ends
	Folder  bool
	Size    int64     // bytes; of a rolled up folder, of all that is in it
	ModTime time.Time // zero where it is not known
	// Items is how many entries a folder shows directly, where that was asked
	// for or it is rolled up; ItemsCapped says that there are more.
	Items       int
	ItemsCapped bool
}

// MarshalJSON writes path, size, is_folder, mtime in milliseconds since 1970
// or null, item_count, and item_count_capped.
func (e Entry) MarshalJSON() ([]byte, error) {
	var millis *int64
	if !e.ModTime.IsZero() {
		ms := e.ModTime.UnixMilli()
		millis = &ms
	}
	return json.Marshal(struct {
		Path   string `json:"path"`
		Size   int64  `json:"size"`
		Folder bool   `json:"is_folder"`
		MTime  *int64 `json:"mtime"`
		Items  int    `json:"item_count"`
		Capped bool   `json:"item_count_capped,omitempty"`
	}{e.Path, e.Size, e.Folder, millis, e.Items, e.ItemsCapped})
}

// Listing is an answer of Level, List or Tree. A directory that is empty, or
// is not there, has an empty one.
type Listing struct {
	Entries []Entry
	Total   int // rows before the limit
	// Capped: a limit of this package ended the look before the end, so that
	// Total is a lower bound.
	Capped bool
}

// LevelOptions are the options of Level.
type LevelOptions struct {
	View View
	// Counts fills Items of each folder, at the price of one list for each.
	Counts bool
}

// Level lists one directory: files first, then folders, each by path. nil
// options mean the zero ones.
func (d *Folder) Level(ctx context.Context, dir string, opts *LevelOptions) (Listing, error) {
	if opts == nil {
		opts = &LevelOptions{}
	}
	dir, err := d.dir(dir)
	if err != nil {
		return Listing{}, err
	}
	w := d.walk(opts.View, d.f.c.MaxScan)
	if opts.View == ViewAll {
		w.hides = func(string) bool { return false }
	}
	n, ok, err := w.start(ctx, dir)
	if err != nil || !ok {
		return Listing{}, err
	}
	nodes := []node{n}
	levels, err := w.open(ctx, nodes, w.limit, w.dirs)
	if err != nil {
		return Listing{}, err
	}
	l := levels[0]
	out := Listing{Entries: l.files, Capped: l.capped}
	children := make([]node, 0, len(l.dirs))
	for _, below := range l.dirs {
		out.Entries = append(out.Entries, Entry{Path: below, Folder: true})
		children = append(children, node{dir: below, chain: nodes[0].chain})
	}
	out.Total = len(out.Entries)
	slices.SortStableFunc(out.Entries, func(a, b Entry) int {
		if a.Folder != b.Folder {
			if b.Folder {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Path, b.Path)
	})
	if !opts.Counts {
		return out, nil
	}
	counts := map[string]level{}
	for group := range slices.Chunk(children, fan) {
		levels, err := w.open(ctx, group, maxItems, maxItems)
		if err != nil {
			return Listing{}, err
		}
		for i := range group {
			counts[group[i].dir] = levels[i]
		}
	}
	for i := range out.Entries {
		if e := &out.Entries[i]; e.Folder {
			c := counts[e.Path]
			n := len(c.files) + len(c.dirs)
			e.Items, e.ItemsCapped = min(n, maxItems), c.capped || n > maxItems
		}
	}
	return out, nil
}

// Order is how a list is sorted.
type Order uint8

// The orders. Equals are sorted by path.
const (
	ByPath Order = iota
	ByName       // by the last segment
	Recent       // newest first; what has no time comes last
)

// ListOptions are the options of List.
type ListOptions struct {
	View  View
	Order Order
	Limit int // 0 = none
}

// List lists the files below dir, at any depth, without folders. nil options
// mean the zero ones. Recent in a git view leaves out all paths with a segment
// that begins with a dot, and shows directories written in one go as one row
// (a clone, an installed package).
func (d *Folder) List(ctx context.Context, dir string, opts *ListOptions) (Listing, error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	switch {
	case opts.Order > Recent:
		return Listing{}, &access.FieldError{Field: "Order", Rule: "must be one of ByPath, ByName, Recent"}
	case opts.Limit < 0:
		return Listing{}, &access.FieldError{Field: "Limit", Rule: "must not be negative"}
	}
	dir, err := d.dir(dir)
	if err != nil {
		return Listing{}, err
	}
	found, _, capped, err := d.scan(ctx, dir, opts.View, d.f.c.MaxScan)
	if err != nil {
		return Listing{}, err
	}
	if opts.Order == Recent && opts.View != ViewAll {
		found = slices.DeleteFunc(found, func(e Entry) bool { return dotted(e.Path) })
		found = rollUp(found)
	}
	sortEntries(found, opts.Order)
	out := Listing{Entries: found, Total: len(found), Capped: capped}
	if opts.Limit > 0 && len(found) > opts.Limit {
		out.Entries = slices.Clip(found[:opts.Limit])
	}
	return out, nil
}

// Tree lists the files below dir and those folders that have a marker, by
// path. Folders that only paths imply are for the reader to derive.
func (d *Folder) Tree(ctx context.Context, dir string, view View) (Listing, error) {
	dir, err := d.dir(dir)
	if err != nil {
		return Listing{}, err
	}
	found, markers, capped, err := d.scan(ctx, dir, view, d.f.c.MaxScan)
	if err != nil {
		return Listing{}, err
	}
	all := append(found, markers...)
	sortEntries(all, ByPath)
	return Listing{Entries: all, Total: len(all), Capped: capped}, nil
}

// Count counts the files below dir, without folders. It stops at
// Config.MaxCount, and then says that there are more.
func (d *Folder) Count(ctx context.Context, dir string, view View) (n int, capped bool, err error) {
	dir, err = d.dir(dir)
	if err != nil {
		return 0, false, err
	}
	found, _, capped, err := d.scan(ctx, dir, view, d.f.c.MaxCount)
	return len(found), capped, err
}

// scan returns the files below dir, and the markers, up to a limit.
func (d *Folder) scan(ctx context.Context, dir string, view View, limit int) (found, markers []Entry, capped bool, err error) {
	if view != ViewAll {
		return d.walk(view, limit).all(ctx, dir)
	}
	err = d.flat(ctx, dir, func(e Entry) bool {
		switch {
		case e.Folder && len(markers) < limit:
			markers = append(markers, e)
		case e.Folder || len(found) == limit:
			capped = true
			return false
		default:
			found = append(found, e)
		}
		return true
	})
	return found, markers, capped, err
}

func sortEntries(all []Entry, order Order) {
	slices.SortFunc(all, func(a, b Entry) int {
		c := 0
		switch order {
		case ByName:
			c = strings.Compare(base(a.Path), base(b.Path))
		case Recent:
			switch known, other := !a.ModTime.IsZero(), !b.ModTime.IsZero(); {
			case known && other:
				c = b.ModTime.Compare(a.ModTime)
			case known:
				c = -1
			case other:
				c = 1
			}
		}
		return cmp.Or(c, strings.Compare(a.Path, b.Path))
	})
}
