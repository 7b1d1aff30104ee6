package memory

import (
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxNode is a file, directory or link of a machine. Nodes are guarded by
// Sandboxes.mu, except that data is never changed: a write makes a new node.
type boxNode struct {
	kind    sandbox.FileKind
	mode    fs.FileMode
	mtime   time.Time
	data    []byte              // of a file
	version int64               // of a file: every content that is written has its own
	target  string              // of a link
	entries map[string]*boxNode // of a directory
}

func newBoxDir(now time.Time) *boxNode {
	return &boxNode{kind: sandbox.KindDir, mode: 0o755, mtime: now, entries: map[string]*boxNode{}}
}

// newBoxRoot returns the root of a machine: a directory that holds the working directory.
func newBoxRoot(now time.Time) *boxNode {
	root := newBoxDir(now)
	root.entries[strings.TrimPrefix(boxWorkdir, "/")] = newBoxDir(now)
	return root
}

func (n *boxNode) info(name string) sandbox.FileInfo {
	return sandbox.FileInfo{Name: name, Kind: n.kind, Size: int64(len(n.data)), Mode: n.mode, ModTime: n.mtime, ETag: n.etag()}
}

func (n *boxNode) etag() string {
	if n.kind != sandbox.KindFile {
		return ""
	}
	return strconv.FormatInt(n.version, 10)
}

// list streams the entries that the directory has now, sorted by name.
func (n *boxNode) list() iter.Seq2[sandbox.FileInfo, error] {
	var all []sandbox.FileInfo
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		all = append(all, n.entries[name].info(name))
	}
	return func(yield func(sandbox.FileInfo, error) bool) {
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}

// put makes child the entry called name of the directory, nil removes it.
func (n *boxNode) put(name string, child *boxNode, now time.Time) {
	n.mtime = now
	if child == nil {
		delete(n.entries, name)
		return
	}
	n.entries[name] = child
}

// bindAt returns the latest bind at the path, nil for none.
func (f *boxFS) bindAt(at string) *boxBind {
	for _, b := range slices.Backward(f.binds()) {
		if b.at == at {
			return b
		}
	}
	return nil
}

// mkdirs makes directories below one, each in the one before, and returns the last.
func (n *boxNode) mkdirs(names []string, now time.Time) *boxNode {
	for _, name := range names {
		next := newBoxDir(now)
		n.put(name, next, now)
		n = next
	}
	return n
}

// towardsBinds returns the directory at a path outside the working directory:
// one that leads to binds, made up as it is looked at, or nil for none. It
// lists what leads on, and takes no other entries.
func (f *boxFS) towardsBinds(at string) *boxNode {
	var dir *boxNode
	for _, b := range f.binds() {
		if rel, ok := sandbox.PathWithin(at, b.at); ok && rel != "." {
			if dir == nil {
				dir = newBoxDir(f.m.root.mtime)
				dir.mode = 0o555
			}
			name, _, _ := strings.Cut(rel, "/")
			dir.entries[name] = newBoxDir(f.m.root.mtime)
		}
	}
	return dir
}
