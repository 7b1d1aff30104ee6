package files

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// linkName is where a session's working directory has the link to the agents'
// folders.
const linkName = "agent-files"

// pathRule says what is wrong with a path, if anything is. It is a list of
// what is refused, and short on purpose: a name that a list shows must be one
// that can be opened.
func pathRule(path string) string {
	switch {
	case strings.HasPrefix(path, "/"):
		return "must not begin with a slash"
	case !utf8.ValidString(path):
		return "must be UTF-8"
	}
	for i := range len(path) {
		if path[i] < 0x20 || path[i] == 0x7f {
			return "must not hold control characters"
		}
	}
	path = strings.TrimRight(path, "/")
	if path == "" {
		return "must not be empty"
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".", "..":
			return "must not have a segment that is empty, . or .."
		}
	}
	return ""
}

// maxKey is the most bytes that a key may have in any store.
const maxKey = 1024

// key is the key of a path below the folder's prefix, which has been checked.
func (d *Folder) key(path string) string { return string(d.prefix) + path }

// below is what the keys below a directory begin with; "" is the root.
func (d *Folder) below(path string) string {
	if path == "" {
		return string(d.prefix)
	}
	return string(d.prefix) + path + "/"
}

// file checks the path of a file or folder, and cuts slashes at its end.
func (d *Folder) file(path string) (string, error) {
	if rule := pathRule(path); rule != "" {
		return "", &PathError{Path: path, Rule: rule}
	}
	path = strings.TrimRight(path, "/")
	if n := len(d.prefix) + len(path) + 1; n > maxKey {
		return "", &PathError{Path: path, Rule: fmt.Sprintf("must be at least %d bytes shorter", n-maxKey)}
	}
	return path, nil
}

// dir checks the path of a directory, where none means the root.
func (d *Folder) dir(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return d.file(path)
}

// target checks a path that something is to be written to.
func (d *Folder) target(path string) (string, error) {
	path, err := d.file(path)
	if err == nil && d.work && within(path, linkName) {
		return "", &PathError{Path: path, Rule: "is the place of the link to the agents' folders"}
	}
	return path, err
}

// isLink reports whether the object at path is what storage makes of the link.
func (d *Folder) isLink(path string) bool { return d.work && path == linkName }

// within reports whether path is dir or below it. The root has everything.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (dir == "" || rest == "" || rest[0] == '/')
}

// join is path below dir, where dir may be the root.
func join(dir, path string) string {
	if dir == "" {
		return path
	}
	return dir + "/" + path
}

// base is the last segment of a path.
func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// parent is the directory of a path; "" is the root.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}
