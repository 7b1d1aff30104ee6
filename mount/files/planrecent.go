package files

import (
	"slices"
	"strings"
	"time"
)

// rollUp replaces the files of each directory that was written in one go by
// one row for the directory, so that a clone or an installation does not hide
// everything else that is recent.
//
// A directory was written in one go when it has at least two files, all with
// known times, and the time from its oldest to its newest is not longer than
// the time to the nearest file outside that was written before all of them, or
// to the nearest written after, whichever is longer. Where nothing is outside
// at all, it was; where all that is outside was written in between, it was not.
// The root never is. The first such directory from the top stands for a file.
//
// The answer is in no particular order.
func rollUp(all []Entry) []Entry {
	times := make([]time.Time, 0, len(all))
	dirs := map[string]*span{}
	for _, e := range all {
		if !e.ModTime.IsZero() {
			times = append(times, e.ModTime)
		}
		child := e.Path
		for dir := parent(e.Path); dir != ""; child, dir = dir, parent(dir) {
			s := dirs[dir]
			if s == nil {
				s = &span{children: map[string]bool{}}
				dirs[dir] = s
			}
			s.add(e)
			s.children[child] = true
		}
	}
	slices.SortFunc(times, time.Time.Compare)

	var out []Entry
	rolled := map[string]bool{}
	for _, e := range all {
		dir := top(e.Path, func(dir string) bool { return dirs[dir].cohesive(times, len(all)) })
		switch {
		case dir == "":
			out = append(out, e)
		case !rolled[dir]:
			rolled[dir] = true
			s := dirs[dir]
			out = append(out, Entry{Path: dir, Folder: true, Size: s.size, ModTime: s.newest, Items: len(s.children)})
		}
	}
	return out
}

// span is what is known of the files below one directory.
type span struct {
	files, unknown int
	size           int64
	oldest, newest time.Time
	children       map[string]bool
	verdict        int8 // 0 = not decided yet, 1 = cohesive, -1 = not
}

func (s *span) add(e Entry) {
	s.files++
	s.size += e.Size
	if e.ModTime.IsZero() {
		s.unknown++
		return
	}
	if s.oldest.IsZero() || e.ModTime.Before(s.oldest) {
		s.oldest = e.ModTime
	}
	if e.ModTime.After(s.newest) {
		s.newest = e.ModTime
	}
}

func (s *span) cohesive(times []time.Time, total int) bool {
	if s.verdict == 0 {
		s.verdict = -1
		if s.decide(times, total) {
			s.verdict = 1
		}
	}
	return s.verdict > 0
}

// decide looks at the sorted times of all files, of which there are total.
func (s *span) decide(times []time.Time, total int) bool {
	switch {
	case s.files < 2 || s.unknown > 0:
		return false
	case s.files == total:
		return true
	}
	var gap time.Duration
	first, _ := slices.BinarySearchFunc(times, s.oldest, time.Time.Compare)
	if first > 0 {
		gap = s.oldest.Sub(times[first-1])
	}
	after, _ := slices.BinarySearchFunc(times, s.newest, func(t, newest time.Time) int {
		if t.After(newest) {
			return 1
		}
		return -1
	})
	if after < len(times) {
		gap = max(gap, times[after].Sub(s.newest))
	}
	return s.newest.Sub(s.oldest) <= gap
}

// top is the first directory of a path, from the root down, for which ok is
// true; empty where there is none.
func top(path string, ok func(dir string) bool) string {
	for i := 0; ; i++ {
		n := strings.IndexByte(path[i:], '/')
		if n < 0 {
			return ""
		}
		i += n
		if ok(path[:i]) {
			return path[:i]
		}
	}
}
