package mount

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Proof says that somebody has looked, and found a directory and all below it
// free of mounts. Only looking makes one: see [Prove]. It is as old as
// the look, and good for as long as nobody mounts anything there.
//
// What is behind a mount is the durable folder itself, and to remove a
// directory recursively through a mount that is still there is to delete it.
// So nothing of this package removes recursively at all, and what it removes
// takes a Proof: an empty directory, which the kernel would refuse to remove while something is mounted at it.
type Proof struct{ dir string }

// Dir is the directory that was looked at; empty in a zero Proof, which proves nothing.
func (p Proof) Dir() string { return p.dir }

// Prove looks whether anything is mounted at dir, an absolute path without
// symbolic links, or below it, as this process sees it. With Detached there is a proof and no error;
// otherwise the error says what is mounted, or why it can't be known.
// It asks the kernel's list and touches no file system, so that it answers also where a mount hangs.
func Prove(dir string) (Proof, Detachment, error) {
	k, err := newKernel()
	if err != nil {
		return Proof{}, Inconclusive, err
	}
	return prove(k, dir)
}

func prove(k kernel, dir string) (Proof, Detachment, error) {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return Proof{}, Inconclusive, fmt.Errorf("mount: %q is no clean absolute path", dir)
	}
	t, err := table(k)
	if err != nil {
		return Proof{}, Inconclusive, fmt.Errorf("mount: what is mounted at %s can't be known: %w", dir, err)
	}
	if inside := t.within(dir); len(inside) > 0 {
		return Proof{}, Attached, fmt.Errorf("mount: %s is mounted at %s", inside[0].kind, inside[0].path)
	}
	return Proof{dir: dir}, Detached, nil
}

func table(k kernel) (mountTable, error) {
	text, err := k.mountinfo()
	if err != nil {
		return nil, err
	}
	return parseMountinfo(text)
}

var errNoProof = errors.New("mount: nothing is removed without a proof of detachment")
