package main

import (
	"context"
	"time"

	"github.com/jacobsa/fuse"
	"github.com/jacobsa/fuse/fuseops"
)

// load has the content of a file at hand.
func (fs *fileSystem) load(ctx context.Context, n *node) error {
	if n.loaded {
		return nil
	}
	data, err := fs.get(ctx, n.path)
	if err != nil {
		return errno(err)
	}
	n.data, n.loaded = data, true
	return nil
}

func (fs *fileSystem) CreateFile(ctx context.Context, op *fuseops.CreateFileOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.nodes[op.Parent]
	l, err := fs.list(ctx, dir)
	if err != nil {
		return err
	}
	if _, taken := l.entries[op.Name]; taken {
		return fuse.EEXIST
	}
	n := fs.know(dir, op.Name, entry{at: time.Now()})
	n.loaded, n.dirty, n.data = true, true, nil
	fs.note(n)
	op.Entry, op.Handle = n.entry(), fs.opened(n)
	return nil
}

func (fs *fileSystem) MkDir(ctx context.Context, op *fuseops.MkDirOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	dir := fs.nodes[op.Parent]
	l, err := fs.list(ctx, dir)
	if err != nil {
		return err
	}
	if _, taken := l.entries[op.Name]; taken {
		return fuse.EEXIST
	}
	if err := fs.put(ctx, within(dir)+op.Name+"/", nil); err != nil {
		return errno(err)
	}
	n := fs.know(dir, op.Name, entry{dir: true, at: time.Now()})
	fs.note(n)
	op.Entry = n.entry()
	return nil
}

func (fs *fileSystem) OpenFile(ctx context.Context, op *fuseops.OpenFileOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.nodes[op.Inode]
	op.Handle = fs.opened(n)
	return fs.load(ctx, n)
}

func (fs *fileSystem) ReadFile(ctx context.Context, op *fuseops.ReadFileOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.nodes[op.Inode]
	if err := fs.load(ctx, n); err != nil {
		return err
	}
	if op.Offset < int64(len(n.data)) {
		op.BytesRead = copy(op.Dst, n.data[op.Offset:])
	}
	return nil
}

func (fs *fileSystem) WriteFile(ctx context.Context, op *fuseops.WriteFileOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.nodes[op.Inode]
	if err := fs.load(ctx, n); err != nil {
		return err
	}
	n.resize(max(uint64(len(n.data)), uint64(op.Offset)+uint64(len(op.Data))))
	copy(n.data[op.Offset:], op.Data)
	return nil
}

func (n *node) resize(size uint64) {
	if grow := int(size) - len(n.data); grow > 0 {
		n.data = append(n.data, make([]byte, grow)...)
	}
	n.data, n.dirty, n.at = n.data[:size], true, time.Now()
}

func (fs *fileSystem) SetInodeAttributes(ctx context.Context, op *fuseops.SetInodeAttributesOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.nodes[op.Inode]
	if op.Size != nil {
		if err := fs.load(ctx, n); err != nil {
			return err
		}
		n.resize(*op.Size)
	}
	op.Attributes = n.attributes()
	return nil
}

func (fs *fileSystem) SyncFile(ctx context.Context, op *fuseops.SyncFileOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.flush(ctx, fs.nodes[op.Inode])
}

// FlushFile is called at each close, and has nothing to do.
func (fs *fileSystem) FlushFile(context.Context, *fuseops.FlushFileOp) error { return nil }

// ReleaseFileHandle writes a file out after its last close, which has not
// waited for that, and does not hear of what becomes of it.
func (fs *fileSystem) ReleaseFileHandle(ctx context.Context, op *fuseops.ReleaseFileHandleOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.flush(ctx, fs.nodes[fs.open[op.Handle]])
}

// opened gives out a handle.
func (fs *fileSystem) opened(n *node) fuseops.HandleID {
	fs.handles++
	fs.open[fs.handles] = n.id
	return fs.handles
}

func (fs *fileSystem) Unlink(ctx context.Context, op *fuseops.UnlinkOp) error {
	return fs.delete(ctx, op.Parent, op.Name, "")
}

func (fs *fileSystem) RmDir(ctx context.Context, op *fuseops.RmDirOp) error {
	return fs.delete(ctx, op.Parent, op.Name, "/")
}

func (fs *fileSystem) delete(ctx context.Context, parent fuseops.InodeID, name, slash string) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	p := within(fs.nodes[parent]) + name
	if slash != "" {
		l, err := fs.fetch(ctx, p+slash)
		if err != nil {
			return errno(err)
		}
		if len(l.entries) > 0 {
			return fuse.ENOTEMPTY
		}
	}
	if err := fs.remove(ctx, p+slash); err != nil {
		return errno(err)
	}
	fs.drop(p)
	return nil
}

// Rename moves files.
func (fs *fileSystem) Rename(ctx context.Context, op *fuseops.RenameOp) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	from, to := within(fs.nodes[op.OldParent])+op.OldName, within(fs.nodes[op.NewParent])+op.NewName
	n := fs.nodes[fs.ids[from]]
	if n == nil || n.dir {
		return fuse.ENOSYS
	}
	if err := fs.load(ctx, n); err != nil {
		return err
	}
	if err := fs.put(ctx, to, n.data); err != nil {
		return errno(err)
	}
	if err := fs.remove(ctx, from); err != nil {
		return errno(err)
	}
	fs.drop(to)
	fs.drop(from)
	n.path, n.dirty = to, false
	fs.ids[to] = n.id
	fs.note(n)
	return nil
}
