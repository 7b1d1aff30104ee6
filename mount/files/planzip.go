package files

import (
	"strings"
	"time"
)

// Skip is a file that an archive does not have.
type Skip struct {
	Name   string // as it would have been in the archive
	Reason SkipReason
}

// SkipReason says why a file is not in an archive.
type SkipReason string

// The reasons.
const (
	SkipUnsafe    SkipReason = "unsafe name"    // a segment between slashes or backslashes is empty, . or ..
	SkipDirectory SkipReason = "is a directory" // other files are below that name
	SkipDuplicate SkipReason = "duplicate"      // an earlier file has that name
	SkipVanished  SkipReason = "vanished"       // it was deleted while the archive was written
)

// planZip decides which of the members are in an archive. Names are never
// rewritten: a made up name could be that of another file.
func planZip[T any](all []T, name func(T) string) (members []T, skipped []Skip) {
	// Who unpacks may take a backslash for a slash.
	place := func(n string) string { return strings.ReplaceAll(n, `\`, "/") }
	dirs := map[string]bool{}
	for _, m := range all {
		if n := place(name(m)); safe(n) {
			for dir := parent(n); dir != "" && !dirs[dir]; dir = parent(dir) {
				dirs[dir] = true
			}
		}
	}
	taken := map[string]bool{}
	for _, m := range all {
		at := place(name(m))
		switch {
		case !safe(at):
			skipped = append(skipped, Skip{name(m), SkipUnsafe})
		case dirs[at]:
			skipped = append(skipped, Skip{name(m), SkipDirectory})
		case taken[at]:
			skipped = append(skipped, Skip{name(m), SkipDuplicate})
		default:
			taken[at] = true
			members = append(members, m)
		}
	}
	return members, skipped
}

func safe(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// zipTime is a time as an archive can hold it: between 1980 and 2106, the
// ends of its two forms of a time.
func zipTime(t time.Time) time.Time {
	first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Date(2106, 1, 1, 0, 0, 0, 0, time.UTC)
	switch t = t.UTC(); {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}
