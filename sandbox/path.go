package sandbox

import (
	"path"
	"strings"
	"unicode/utf8"
)

// ResolvePath returns the absolute path that p means where the working
// directory is workdir. "." and ".." are resolved in the text, whatever is on disk; nothing is
// decoded. ErrInvalid: p is empty, holds a NUL byte or is not UTF-8. Whether the
// result lies inside the sandbox is the caller's to check, with [PathWithin].
func ResolvePath(workdir, p string) (string, error) {
	if p == "" || strings.IndexByte(p, 0) >= 0 || !utf8.ValidString(p) {
		return "", ErrInvalid
	}
	if path.IsAbs(p) {
		return path.Clean(p), nil
	}
	return path.Join(workdir, p), nil
}

// PathWithin reports whether the clean absolute path p is root or lies below
// it, and p's path relative to root ("." for root itself). It goes by
// segments: "/workspacefoo" is not within "/workspace".
func PathWithin(root, p string) (rel string, ok bool) {
	if p == root {
		return ".", true
	}
	rel, ok = strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/")
	return rel, ok
}
