package memory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// etag is of what a file holds, and of when it was written: put sees to it that
// this is later each time. So nothing depends on how exact the host's times
// are. Empty where the file can't be read.
func (b *boxBind) etag(rel string) string {
	f, err := b.open(rel)
	if err != nil {
		return ""
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return ""
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return ""
	}
	return fmt.Sprintf("%x-%x", i.ModTime().UnixNano(), sum.Sum(nil)[:16])
}

// free says why a file can't be put at the place.
func (b *boxBind) free(at boxPlace, o sandbox.CreateOptions) error {
	if err := at.free(o); err != nil || at.missing != nil {
		return err
	}
	i, err := b.root.Stat(at.rel)
	switch {
	case err != nil:
		return err
	case i.IsDir():
		return sandbox.ErrIsDir
	case o.IfMatch != "" && b.etag(at.rel) != o.IfMatch:
		return sandbox.ErrPrecondition
	}
	return nil
}

// put puts a file in place: written under a passing name, then moved. Sandboxes.inBinds is held.
func (b *boxBind) put(at boxPlace, data []byte, o sandbox.CreateOptions) error {
	if err := b.free(at, o); err != nil {
		return err
	}
	old, missing := b.root.Stat(at.rel)
	if missing == nil {
		o.Mode = old.Mode().Perm()
	}
	dir := path.Dir(at.rel)
	if len(at.parents()) > 0 {
		if err := b.root.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	temp, err := b.writeTemp(dir, data, o.Mode)
	if err != nil {
		return err
	}
	if missing == nil {
		err = b.later(temp, old.ModTime())
	}
	switch {
	case err != nil:
	case o.Exclusive:
		// Unlike a rename, a hard link never replaces.
		err = b.root.Link(temp, at.rel)
	default:
		if err = b.root.Rename(temp, at.rel); err == nil {
			return nil
		}
	}
	return errors.Join(err, b.root.Remove(temp))
}

// later gives a file a time that is later than another.
func (b *boxBind) later(name string, than time.Time) error {
	i, err := b.root.Stat(name)
	if err == nil && !i.ModTime().After(than) {
		than = than.Add(time.Nanosecond)
		err = b.root.Chtimes(name, than, than)
	}
	return err
}

// writeTemp writes a file of a passing name in dir and returns its path.
func (b *boxBind) writeTemp(dir string, data []byte, mode fs.FileMode) (string, error) {
	var file *os.File
	var name string
	err := fs.ErrExist
	for errors.Is(err, fs.ErrExist) {
		name = path.Join(dir, fmt.Sprintf(".bunkroom-%d-%d.tmp", os.Getpid(), b.temps.Add(1)))
		file, err = b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	// The mode given to OpenFile would be subject to the umask.
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return "", errors.Join(err, b.root.Remove(name))
	}
	return name, nil
}
