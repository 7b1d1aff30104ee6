//go:build linux

package local

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// The variables by which the processes of a machine, what one of them has
// started, and what was started with a tag, are found again. A process can
// clear its environment, so each has a mark beside it that the kernel keeps:
// confined a seal, unconfined and with a tag a limit.
const (
	machineVar = "BUNKROOM_MACHINE"
	processVar = "BUNKROOM_PROCESS"
	tagVar     = "BUNKROOM_TAG"
)

// marks are the variables that every process has.
func marks(m *machine, p *process) []string {
	all := []string{machineVar + "=" + string(m.rec.Incarnation), processVar + "=" + p.id}
	if p.tag != "" {
		all = append(all, tagVar+"="+p.tag)
	}
	return all
}

// sealFile is a link in the root directory that a confined process has for
// itself, with all that it starts. It can't be changed from inside: nothing
// there can be written, mounted, or left for another root. From outside it is
// seen through /proc.
const sealFile = "/var/bunkroom.process"

// seal is the link's text.
func (p *process) seal() string { return p.id + "/" + p.tag }

// seal reads the seal of the process s; ok is false where it has none, as the
// machine's init and what is being set up.
func (p procfs) seal(s stat) (id, tag string, ok bool) {
	for _, at := range p.parts(s) {
		if text, err := p.readlink(at + "/root" + sealFile); err == nil {
			return strings.Cut(text, "/")
		}
	}
	return "", "", false
}

// sealed tells of processes whether their seal is one that match accepts.
func (p procfs) sealed(match func(id, tag string) bool) func(stat) (is, known bool) {
	return func(s stat) (is, known bool) {
		id, tag, ok := p.seal(s)
		return ok && match(id, tag), ok
	}
}

// lockLimit is the limit on file locks of processes with this tag in this
// machine. The kernel keeps it and has not enforced it since long; children
// inherit it, and nobody without privileges can raise it again.
func lockLimit(incarnation sandbox.Incarnation, tag string) uint64 {
	sum := sha256.Sum256([]byte(string(incarnation) + "\x00" + tag))
	return binary.BigEndian.Uint64(sum[:])>>2 | 1<<62 // below infinity, and above what anybody means
}

// lockLimit reads the hard limit on file locks of a process.
func (p procfs) lockLimit(pid int) (uint64, bool) {
	var buf [4096]byte
	b, err := p.read(strconv.Itoa(pid)+"/limits", buf[:])
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("Max file locks")); ok {
			f := bytes.Fields(rest) // soft, hard, unit
			if len(f) < 2 {
				return 0, false
			}
			n, err := strconv.ParseUint(string(f[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// taggedDir holds, by its name, each tag with which a process was started in
// an unconfined machine, so that Destroy knows the marks to look for.
const taggedDir = "tagged"

// tagFile is the name of a file about a tag. A tag may be "..".
func tagFile(tag string) string { return "tag-" + tag }

// admitTag notes that a process is about to be started with tag.
func (m *machine) admitTag(tag string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tags[tag] {
		return nil
	}
	err := noteTag(filepath.Join(m.dir, taggedDir), tag)
	if err == nil {
		m.tags[tag] = true
	}
	return err
}

func noteTag(dir, tag string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, tagFile(tag)), nil, 0o600)
}

// tagged tells of processes whether their mark is one of those given out in
// the machine in dir; nil where there are none.
func (p procfs) tagged(dir string, incarnation sandbox.Incarnation) func(stat) (is, known bool) {
	limits := map[uint64]bool{}
	for _, e := range list(filepath.Join(dir, taggedDir)) {
		if tag, ok := strings.CutPrefix(e.Name(), tagFile("")); ok {
			limits[lockLimit(incarnation, tag)] = true
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return func(s stat) (is, known bool) {
		its, ok := p.lockLimit(s.pid)
		return true, ok && limits[its]
	}
}

// unmarkedDir holds, by its name, each tag of an unconfined machine with
// which a process was started that the kernel would not mark.
const unmarkedDir = "unmarked"

// admitUnmarked notes that of tag not all can be known.
func (m *machine) admitUnmarked(tag string) error {
	return noteTag(filepath.Join(m.dir, unmarkedDir), tag)
}

// unmarked reports whether a process with tag was started unmarked in the machine in dir.
func unmarked(dir, tag string) bool {
	_, err := os.Lstat(filepath.Join(dir, unmarkedDir, tagFile(tag)))
	return err == nil
}
