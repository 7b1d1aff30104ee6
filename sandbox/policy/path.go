package policy

import (
	"net/url"
	"strings"
)

// maxDecoding is how often a path is decoded.
const maxDecoding = 5

// Path takes a path as a model or a form gives it to one relative to root,
// the absolute path of the sandbox's working directory, which it may begin with. "%2e" and the like
// are decoded, up to five times over, and NUL bytes dropped; what still looks encoded then, and what leaves root in its text in
// any of the ways that Unix, Windows or a URL have for it, is refused with a *[RefusedError]. root itself is ".".
//
// It is for what comes from outside, and spoils a name that has a "%" in it. The
// files of a sandbox take every name as it is, and confine by themselves: see sandbox.FS. A link that leads
// out shows in no text.
func Path(root, p string) (string, error) {
	p, err := decoded(p)
	if err != nil {
		return "", err
	}
	root = strings.TrimRight(root, "/")
	if rest, ok := strings.CutPrefix(p, root); ok && root != "" && (rest == "" || rest[0] == '/') { // not "/workspacefoo"
		if p = strings.TrimLeft(rest, "/"); p == "" {
			return ".", nil
		}
	}
	switch {
	case strings.TrimSpace(p) == "":
		return "", refused(EmptyPath)
	case strings.HasPrefix(p, "/"), strings.HasPrefix(p, `\`), len(p) > 1 && p[1] == ':' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z'):
		return "", refused(AbsolutePath)
	}
	for segment := range strings.FieldsFuncSeq(p, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return "", refused(PathClimbs)
		}
	}
	return strings.Join(strings.FieldsFunc(p, func(r rune) bool { return r == '/' }), "/"), nil // without a//b, and one at the end
}

// decoded is p as it is meant: nothing in it is encoded any more.
func decoded(p string) (string, error) {
	for range maxDecoding {
		p = strings.ReplaceAll(p, "\x00", "")
		if !strings.Contains(p, "%") {
			return p, nil
		}
		next, err := url.PathUnescape(p)
		if err != nil {
			break
		}
		p = next
	}
	if p = strings.ReplaceAll(p, "\x00", ""); !strings.Contains(p, "%") {
		return p, nil
	}
	return "", refused(PathEncoding)
}
