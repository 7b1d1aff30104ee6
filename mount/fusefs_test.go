//go:build linux

package mount_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/jacobsa/fuse"
	"github.com/jacobsa/fuse/fuseops"
	"github.com/jacobsa/fuse/fuseutil"
)

// mirror is a FUSE file system that shows a directory: what is written to it is
// there when it is served again. It can be made to hang.
type mirror struct {
	fuseutil.NotImplementedFileSystem
	base string

	mu    sync.Mutex
	paths map[fuseops.InodeID]string
	ids   map[string]fuseops.InodeID
	stall chan struct{} // open while nothing is answered; nil = answers
}

func newMirror(base string) *mirror {
	return &mirror{
		base:  base,
		paths: map[fuseops.InodeID]string{fuseops.RootInodeID: "."},
		ids:   map[string]fuseops.InodeID{".": fuseops.RootInodeID},
	}
}

// serve mounts it at dir.
func (m *mirror) serve(dir string) (*fuse.MountedFileSystem, error) {
	return fuse.Mount(dir, abortable{fuseutil.NewFileSystemServer(m)}, &fuse.MountConfig{FSName: "mirror", Subtype: "mirror"})
}

// abortable is a server whose connection may be aborted, which the library takes
// for the end of the program where the kernel is just about to say so to a reader.
type abortable struct{ fuse.Server }

func (a abortable) ServeOps(c *fuse.Connection) {
	defer func() {
		if p := recover(); p != nil && !strings.Contains(fmt.Sprint(p), syscall.ECONNABORTED.Error()) {
			panic(p)
		}
	}()
	a.Server.ServeOps(c)
}

// hang has everything that is asked from now on wait until answer is called.
func (m *mirror) hang() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stall == nil {
		m.stall = make(chan struct{})
	}
}

func (m *mirror) answer() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stall != nil {
		close(m.stall)
		m.stall = nil
	}
}

// path is where an inode's file is, once it may be told.
func (m *mirror) path(id fuseops.InodeID, name string) string {
	m.mu.Lock()
	stall, rel := m.stall, m.paths[id]
	m.mu.Unlock()
	if stall != nil {
		<-stall
	}
	return filepath.Join(m.base, rel, name)
}

func (m *mirror) entry(parent fuseops.InodeID, name string, e *fuseops.ChildInodeEntry) error {
	attr, err := attributes(m.path(parent, name))
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rel := filepath.Join(m.paths[parent], name)
	id, ok := m.ids[rel]
	if !ok {
		id = fuseops.InodeID(len(m.ids)) + fuseops.RootInodeID
		m.ids[rel], m.paths[id] = id, rel
	}
	e.Child, e.Attributes = id, attr
	return nil
}

func attributes(path string) (fuseops.InodeAttributes, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fuseops.InodeAttributes{}, errno(err)
	}
	return fuseops.InodeAttributes{
		Size: uint64(info.Size()), Nlink: 1, Mode: info.Mode(), Mtime: info.ModTime(),
		Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()),
	}, nil
}

// errno is what the kernel is told.
func errno(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	return fuse.EIO
}

func (m *mirror) StatFS(context.Context, *fuseops.StatFSOp) error { return nil }

func (m *mirror) LookUpInode(_ context.Context, op *fuseops.LookUpInodeOp) error {
	return m.entry(op.Parent, op.Name, &op.Entry)
}

func (m *mirror) GetInodeAttributes(_ context.Context, op *fuseops.GetInodeAttributesOp) (err error) {
	op.Attributes, err = attributes(m.path(op.Inode, ""))
	return err
}

func (m *mirror) SetInodeAttributes(_ context.Context, op *fuseops.SetInodeAttributesOp) (err error) {
	path := m.path(op.Inode, "")
	if op.Size != nil {
		if err := os.Truncate(path, int64(*op.Size)); err != nil {
			return errno(err)
		}
	}
	op.Attributes, err = attributes(path)
	return err
}

func (m *mirror) ForgetInode(context.Context, *fuseops.ForgetInodeOp) error { return nil }

func (m *mirror) MkDir(_ context.Context, op *fuseops.MkDirOp) error {
	if err := os.Mkdir(m.path(op.Parent, op.Name), op.Mode.Perm()); err != nil {
		return errno(err)
	}
	return m.entry(op.Parent, op.Name, &op.Entry)
}

func (m *mirror) CreateFile(_ context.Context, op *fuseops.CreateFileOp) error {
	f, err := os.OpenFile(m.path(op.Parent, op.Name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, op.Mode.Perm())
	if err != nil {
		return errno(err)
	}
	f.Close()
	return m.entry(op.Parent, op.Name, &op.Entry)
}

func (m *mirror) OpenDir(_ context.Context, op *fuseops.OpenDirOp) error {
	m.path(op.Inode, "")
	return nil
}

func (m *mirror) ReadDir(_ context.Context, op *fuseops.ReadDirOp) error {
	entries, err := os.ReadDir(m.path(op.Inode, ""))
	if err != nil {
		return errno(err)
	}
	for i := int(op.Offset); i < len(entries); i++ {
		kind := fuseutil.DT_File
		if entries[i].IsDir() {
			kind = fuseutil.DT_Directory
		}
		n := fuseutil.WriteDirent(op.Dst[op.BytesRead:], fuseutil.Dirent{
			Offset: fuseops.DirOffset(i + 1), Inode: fuseops.InodeID(i + 2), Name: entries[i].Name(), Type: kind,
		})
		if n == 0 {
			break
		}
		op.BytesRead += n
	}
	return nil
}

func (m *mirror) ReleaseDirHandle(context.Context, *fuseops.ReleaseDirHandleOp) error   { return nil }
func (m *mirror) OpenFile(context.Context, *fuseops.OpenFileOp) error                   { return nil }
func (m *mirror) FlushFile(context.Context, *fuseops.FlushFileOp) error                 { return nil }
func (m *mirror) SyncFile(context.Context, *fuseops.SyncFileOp) error                   { return nil }
func (m *mirror) ReleaseFileHandle(context.Context, *fuseops.ReleaseFileHandleOp) error { return nil }

func (m *mirror) ReadFile(_ context.Context, op *fuseops.ReadFileOp) error {
	f, err := os.Open(m.path(op.Inode, ""))
	if err != nil {
		return errno(err)
	}
	defer f.Close()
	op.BytesRead, err = f.ReadAt(op.Dst, op.Offset)
	if err == io.EOF {
		err = nil
	}
	return errno(err)
}

func (m *mirror) WriteFile(_ context.Context, op *fuseops.WriteFileOp) error {
	f, err := os.OpenFile(m.path(op.Inode, ""), os.O_WRONLY, 0)
	if err != nil {
		return errno(err)
	}
	defer f.Close()
	_, err = f.WriteAt(op.Data, op.Offset)
	return errno(err)
}
