//go:build linux

package local_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jacobsa/fuse"
	"github.com/jacobsa/fuse/fuseops"
	"github.com/jacobsa/fuse/fuseutil"

	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
)

// storage is a folder as one in object storage: one large file is in it, each look at
// it is a request that costs, and it may answer none.
type storage struct {
	fuseutil.NotImplementedFileSystem
	requests atomic.Int64
	silent   atomic.Bool
	goOn     chan struct{}
}

const largeFile = 8 << 20

// asked counts a request, and waits where nobody answers.
func (s *storage) asked() {
	s.requests.Add(1)
	if s.silent.Load() {
		<-s.goOn
	}
}

func (s *storage) attributes(id fuseops.InodeID) fuseops.InodeAttributes {
	if id == fuseops.RootInodeID {
		return fuseops.InodeAttributes{Nlink: 1, Mode: os.ModeDir | 0o777}
	}
	return fuseops.InodeAttributes{Nlink: 1, Mode: 0o666, Size: largeFile}
}

func (s *storage) StatFS(context.Context, *fuseops.StatFSOp) error { return nil }

func (s *storage) GetInodeAttributes(_ context.Context, op *fuseops.GetInodeAttributesOp) error {
	s.asked()
	op.Attributes = s.attributes(op.Inode)
	return nil
}

func (s *storage) LookUpInode(_ context.Context, op *fuseops.LookUpInodeOp) error {
	s.asked()
	if op.Name != "large" {
		return fuse.ENOENT
	}
	op.Entry.Child, op.Entry.Attributes = 2, s.attributes(2)
	return nil
}

func (s *storage) OpenDir(context.Context, *fuseops.OpenDirOp) error { s.asked(); return nil }

func (s *storage) ReadDir(_ context.Context, op *fuseops.ReadDirOp) error {
	s.asked()
	if op.Offset == 0 {
		op.BytesRead = fuseutil.WriteDirent(op.Dst, fuseutil.Dirent{Offset: 1, Inode: 2, Name: "large", Type: fuseutil.DT_File})
	}
	return nil
}

func (s *storage) ReleaseDirHandle(context.Context, *fuseops.ReleaseDirHandleOp) error { return nil }

// mounted is where it is mounted on the host.
func (s *storage) mounted(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	s.goOn = make(chan struct{})
	dir := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := fuse.Mount(dir, fuseutil.NewFileSystemServer(s), &fuse.MountConfig{FSName: "storage", Subtype: "storage"})
	if err != nil {
		need.Missing(t, need.FUSE, err.Error())
	}
	t.Cleanup(func() {
		s.silent.Store(false)
		close(s.goOn)
		if err := fuse.Unmount(dir); err != nil {
			syscall.Unmount(dir, syscall.MNT_DETACH)
		}
		if err := m.Join(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// A durable folder is in a sandbox, as its working directory or an agent's, and
// its storage asks money for each request, or answers none: to measure the machine
// asks nothing of it, does not wait for it, and counts nothing that is in it, so that
// nobody pays for it as for a disk.
func TestMeasureAsksNothingOfDurableFolders(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			root, folder := t.TempDir(), &storage{}
			dir := folder.mounted(t)
			p, other := openAt(t, root, unconfined), openAt(t, root, unconfined)
			ref := create(t, p, "m-g1")
			sb := attach(t, p, ref)
			put(t, filepath.Join(root, "machines", "m-g1", "workspace", "own"), 1<<20) // what a bind hides is the machine's still
			before := measure(t, p, ref)
			binder, ok := sandbox.As[sandbox.Binder](sb)
			if !ok {
				t.Fatal("nothing can be bound")
			}
			at := []string{sandbox.BindRoot(sb) + "/agent"}
			if p.Info().Caps.BindsWorkdir {
				at = append([]string{sb.Workdir()}, at...)
			}
			for _, path := range at {
				if _, err := binder.Bind(deadline(t), dir, path); err != nil {
					t.Fatal(err)
				}
				if out := sh(t, sb, "ls "+path); out != "large\n" {
					t.Fatalf("in %s there is %q", path, out)
				}
			}
			running := start(t, sb, sandbox.Cmd{}, "echo ready; exec sleep 600") // its binds stand
			folder.silent.Store(true)
			asked := folder.requests.Load()
			for _, who := range []interface {
				Measure(context.Context, sandbox.Ref) (int64, error)
			}{p, other} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				n, err := who.Measure(ctx, ref)
				cancel()
				const stubs = 64 << 10 // what things are bound at
				if err != nil || n < before || n > before+stubs {
					t.Errorf("%d bytes, %v; before there were %d", n, err, before)
				}
			}
			if n := folder.requests.Load() - asked; n != 0 {
				t.Errorf("%d requests of the storage", n)
			}
			folder.silent.Store(false)
			running.Close()
		})
	}
}
