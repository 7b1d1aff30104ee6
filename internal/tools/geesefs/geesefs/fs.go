package main

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jacobsa/fuse"
	"github.com/jacobsa/fuse/fuseops"
	"github.com/jacobsa/fuse/fuseutil"
)

// cached is how long a listing is believed.
const cached = time.Minute

// node is a file or directory that the kernel knows, or that is open.
type node struct {
	id   fuseops.InodeID
	path string // below the prefix; "" is the root
	dir  bool
	size uint64
	at   time.Time

	data   []byte // the content, where loaded
	loaded bool
	dirty  bool
}

// fileSystem does one thing at a time.
type fileSystem struct {
	fuseutil.NotImplementedFileSystem
	client         *s3.Client
	bucket, prefix string

	mu       sync.Mutex
	listings map[string]*listing // by directory, "" or with a slash at the end
	ids      map[string]fuseops.InodeID
	nodes    map[fuseops.InodeID]*node
	next     fuseops.InodeID
	handles  fuseops.HandleID
	open     map[fuseops.HandleID]fuseops.InodeID
	dirs     map[fuseops.HandleID][]fuseutil.Dirent
}

func newFileSystem(client *s3.Client, bucket, prefix string) *fileSystem {
	root := &node{id: fuseops.RootInodeID, dir: true, at: time.Now()}
	return &fileSystem{
		client: client, bucket: bucket, prefix: prefix, next: fuseops.RootInodeID + 1,
		listings: map[string]*listing{}, dirs: map[fuseops.HandleID][]fuseutil.Dirent{}, open: map[fuseops.HandleID]fuseops.InodeID{},
		ids: map[string]fuseops.InodeID{"": root.id}, nodes: map[fuseops.InodeID]*node{root.id: root},
	}
}

func within(n *node) string {
	if n.path == "" {
		return ""
	}
	return n.path + "/"
}

// list is the directory of a node, from the cache where it is believed.
func (fs *fileSystem) list(ctx context.Context, dir *node) (*listing, error) {
	key := within(dir)
	if l := fs.listings[key]; l != nil && time.Now().Before(l.until) {
		return l, nil
	}
	l, err := fs.fetch(ctx, key)
	if err != nil {
		return nil, errno(err)
	}
	fs.listings[key] = l
	return l, nil
}

// know is the node of a name in a directory.
func (fs *fileSystem) know(dir *node, name string, e entry) *node {
	p := within(dir) + name
	if id, ok := fs.ids[p]; ok {
		n := fs.nodes[id]
		if n.dir == e.dir {
			if !n.dirty && !e.at.Equal(n.at) && !e.dir {
				n.size, n.at, n.loaded, n.data = e.size, e.at, false, nil
			}
			return n
		}
	}
	n := &node{id: fs.next, path: p, dir: e.dir, size: e.size, at: e.at}
	fs.next++
	fs.ids[p], fs.nodes[n.id] = n.id, n
	return n
}

func (n *node) attributes() fuseops.InodeAttributes {
	a := fuseops.InodeAttributes{
		Size: n.size, Nlink: 1, Mode: 0o644, Mtime: n.at, Ctime: n.at, Atime: n.at,
		Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()),
	}
	if n.loaded {
		a.Size = uint64(len(n.data))
	}
	if n.dir {
		a.Mode, a.Size = os.ModeDir|0o755, 4096
	}
	return a
}

func (n *node) entry() fuseops.ChildInodeEntry {
	return fuseops.ChildInodeEntry{Child: n.id, Attributes: n.attributes()}
}

func (fs *fileSystem) StatFS(context.Context, *fuseops.StatFSOp) error { return nil }

func (fs *fileSystem) LookUpInode(ctx context.Context, op *fuseops.LookUpInodeOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.nodes[op.Parent]
	l, err := fs.list(ctx, dir)
	if err != nil {
		return err
	}
	e, ok := l.entries[op.Name]
	if !ok {
		return fuse.ENOENT
	}
	op.Entry = fs.know(dir, op.Name, e).entry()
	return nil
}

func (fs *fileSystem) GetInodeAttributes(_ context.Context, op *fuseops.GetInodeAttributesOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	op.Attributes = fs.nodes[op.Inode].attributes()
	return nil
}

func (fs *fileSystem) ForgetInode(context.Context, *fuseops.ForgetInodeOp) error { return nil }
func (fs *fileSystem) BatchForget(context.Context, *fuseops.BatchForgetOp) error { return nil }

func (fs *fileSystem) OpenDir(ctx context.Context, op *fuseops.OpenDirOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.nodes[op.Inode]
	l, err := fs.list(ctx, dir)
	if err != nil {
		return err
	}
	var all []fuseutil.Dirent
	for name, e := range l.entries {
		kind := fuseutil.DT_File
		if e.dir {
			kind = fuseutil.DT_Directory
		}
		n := fs.know(dir, name, e)
		all = append(all, fuseutil.Dirent{Offset: fuseops.DirOffset(len(all) + 1), Inode: n.id, Name: name, Type: kind})
	}
	fs.handles++
	op.Handle = fs.handles
	fs.dirs[op.Handle] = all
	return nil
}

func (fs *fileSystem) ReadDir(_ context.Context, op *fuseops.ReadDirOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.dirs[op.Handle]
	for _, d := range all[min(int(op.Offset), len(all)):] {
		n := fuseutil.WriteDirent(op.Dst[op.BytesRead:], d)
		if n == 0 {
			break
		}
		op.BytesRead += n
	}
	return nil
}

func (fs *fileSystem) ReleaseDirHandle(_ context.Context, op *fuseops.ReleaseDirHandleOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	delete(fs.dirs, op.Handle)
	return nil
}

// SetXattr has one attribute, which makes all listings forgotten.
func (fs *fileSystem) SetXattr(_ context.Context, op *fuseops.SetXattrOp) error {
	if op.Name != ".invalidate" {
		return syscall.ENOTSUP
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	clear(fs.listings)
	return nil
}

func (fs *fileSystem) CreateLink(context.Context, *fuseops.CreateLinkOp) error {
	return syscall.ENOTSUP
}

// flushAll writes out what was written.
func (fs *fileSystem) flushAll(ctx context.Context) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var all error
	for _, n := range fs.nodes {
		all = errors.Join(all, fs.flush(ctx, n))
	}
	return all
}

func (fs *fileSystem) flush(ctx context.Context, n *node) error {
	if !n.dirty {
		return nil
	}
	data := slices.Clone(n.data)
	if err := fs.put(ctx, n.path, data); err != nil {
		return errno(err)
	}
	n.dirty, n.size = false, uint64(len(data))
	fs.note(n)
	return nil
}

// note puts a node into the cached listing of its directory.
func (fs *fileSystem) note(n *node) {
	dir, name := path.Split(n.path)
	if l := fs.listings[dir]; l != nil {
		l.entries[name] = entry{dir: n.dir, size: n.size, at: n.at}
	}
}

// drop forgets a name.
func (fs *fileSystem) drop(p string) {
	dir, name := path.Split(p)
	if l := fs.listings[dir]; l != nil {
		delete(l.entries, name)
	}
	if id, ok := fs.ids[p]; ok {
		fs.nodes[id].dirty = false
		delete(fs.ids, p)
	}
}
