package files

import "strings"

// View says what of a folder is shown. The object that stands for the link in
// a working directory is never shown.
type View uint8

// The views.
const (
	// ViewAll shows everything that is stored.
	ViewAll View = iota
	// ViewGit hides .git, what belongs to Bunkroom's and the host's own
	// programs, and what the .gitignore files in the folder ignore. An entry is
	// ignored when it or any directory above it is; a .gitignore below can
	// ignore more, never less; and a .gitignore is not hidden by a pattern.
	ViewGit
	// ViewGitIgnored is ViewGit, but with what is ignored.
	ViewGitIgnored
)

// internalPrefix begins the names of what belongs to Bunkroom.
const internalPrefix = ".bunkroom-"

// hides reports whether views other than ViewAll hide a path whatever the
// ignore files say.
func (f *Files) hides(path string) bool {
	first := true
	for segment := range strings.SplitSeq(path, "/") {
		if segment == ".git" || strings.HasPrefix(segment, internalPrefix) {
			return true
		}
		if first {
			for _, name := range f.c.Internal {
				if segment == name {
					return true
				}
			}
		}
		first = false
	}
	return false
}

// dotted reports whether any segment of a path begins with a dot.
func dotted(path string) bool {
	return strings.HasPrefix(path, ".") || strings.Contains(path, "/.")
}
