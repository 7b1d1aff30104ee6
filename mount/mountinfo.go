package mount

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	id     string // the kernel's, of this one mount
	device string // "major:minor" of the file system that is mounted
	path   string
	kind   string // of the file system, such as "ext4" or "fuse.geesefs"
}

// mountTable is everything that is mounted, in the kernel's order: what is
// mounted on top of something comes after it.
type mountTable []mountPoint

// parseMountinfo reads the text of /proc/self/mountinfo. It refuses what it
// does not understand as a whole: a line left out would be a mount that nobody knows of.
func parseMountinfo(text string) (mountTable, error) {
	var t mountTable
	for line := range strings.Lines(text) {
		m, err := parseMount(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("mountinfo: line %d: %w", len(t)+1, err)
		}
		t = append(t, m)
	}
	if len(t) == 0 {
		return nil, errors.New("mountinfo: empty")
	}
	return t, nil
}

// parseMount reads one line: id, parent, device, root, mount point, options,
// any number of optional fields, a dash, kind, source and the file system's options.
func parseMount(line string) (mountPoint, error) {
	fields := strings.Split(line, " ")
	dash := 6
	for dash < len(fields) && fields[dash] != "-" {
		dash++
	}
	if dash+1 >= len(fields) {
		return mountPoint{}, errors.New("too few fields")
	}
	path, err := unescape(fields[4])
	if err != nil {
		return mountPoint{}, err
	}
	m := mountPoint{id: fields[0], device: fields[2], path: path, kind: fields[dash+1]}
	if !strings.HasPrefix(m.path, "/") || m.minor() == "" {
		return mountPoint{}, errors.New("no path or no device")
	}
	return m, nil
}

// unescape undoes what the kernel does to spaces, tabs, newlines and backslashes.
func unescape(s string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, `\`)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if len(after) < 3 {
			return "", fmt.Errorf("bad escape in %q", s)
		}
		c, err := strconv.ParseUint(after[:3], 8, 8)
		if err != nil {
			return "", fmt.Errorf("bad escape in %q", s)
		}
		b.WriteByte(byte(c))
		s = after[3:]
	}
}

// minor is the second half of the device, by which the kernel names a FUSE
// connection; empty where it is no number.
func (m mountPoint) minor() string {
	_, minor, _ := strings.Cut(m.device, ":")
	if _, err := strconv.ParseUint(minor, 10, 32); err != nil {
		return ""
	}
	return minor
}

func (m mountPoint) isFUSE() bool { return m.kind == "fuse" || strings.HasPrefix(m.kind, "fuse.") }

// at is the id of what is mounted on top exactly at dir; empty where nothing is.
func (t mountTable) at(dir string) (id string) {
	for _, m := range t {
		if m.path == dir {
			id = m.id
		}
	}
	return id
}

// within is what is mounted at dir and below.
func (t mountTable) within(dir string) mountTable {
	var found mountTable
	for _, m := range t {
		if m.path == dir || strings.HasPrefix(m.path, strings.TrimSuffix(dir, "/")+"/") {
			found = append(found, m)
		}
	}
	return found
}

// own are the minors of the FUSE connections that are mounted at dir or below
// and nowhere else: one that also shows elsewhere serves others too, and
// is not to be cut off because of dir.
func (t mountTable) own(dir string) map[string]bool {
	inside, all := map[string]int{}, map[string]int{}
	for _, m := range t {
		all[m.device]++
	}
	found := map[string]bool{}
	for _, m := range t.within(dir) {
		inside[m.device]++
		if m.isFUSE() && inside[m.device] == all[m.device] {
			found[m.minor()] = true
		}
	}
	return found
}
