package files

import "strings"

const (
	ignoreFile = ".gitignore"
	// maxIgnoreFiles is how many ignore files one list reads at most.
	maxIgnoreFiles = 100
	// maxIgnoreBytes is how long an ignore file may be; a longer one is left out.
	maxIgnoreBytes = 128 << 10
	// maxIgnoreLines is how many patterns of one file count.
	maxIgnoreLines = 1000
	// maxIgnoreLine is how long a pattern may be.
	maxIgnoreLine = 1024
)

// rules are the patterns of one ignore file.
type rules struct {
	dir      string // where it stands
	patterns []pattern
}

type pattern struct {
	glob    glob
	negated bool
	folders bool // matches directories only
	path    bool // matches the path below dir, not the last segment
}

// parseIgnore reads an ignore file that stands in dir.
func parseIgnore(dir, text string) rules {
	r := rules{dir: dir}
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		if len(r.patterns) == maxIgnoreLines {
			break
		}
		if p, ok := parsePattern(strings.TrimSuffix(line, "\r")); ok {
			r.patterns = append(r.patterns, p)
		}
	}
	return r
}

func parsePattern(line string) (p pattern, ok bool) {
	if strings.HasPrefix(line, "#") || len(line) > maxIgnoreLine {
		return p, false
	}
	line = trimSpaces(line)
	line, p.negated = strings.CutPrefix(line, "!")
	if line, p.folders = strings.CutSuffix(line, "/"); line == "" {
		return p, false
	}
	p.path = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	p.glob = compile(line, p.path)
	return p, true
}

// trimSpaces cuts spaces at the end that no backslash keeps.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' && i+1 < len(line) {
			i++
			end = i + 1
		} else if line[i] != ' ' {
			end = i + 1
		}
	}
	return line[:end]
}

// ignores reports whether the file alone ignores a path below its directory.
// The last pattern that matches decides. Directories above the path are not looked at.
func (r *rules) ignores(path string, folder bool) bool {
	below := path
	if r.dir != "" {
		below = path[len(r.dir)+1:]
	}
	name := base(below)
	for i := len(r.patterns) - 1; i >= 0; i-- {
		p := &r.patterns[i]
		if p.folders && !folder {
			continue
		}
		subject := name
		if p.path {
			subject = below
		}
		if p.glob.match(subject) {
			return !p.negated
		}
	}
	return false
}

// ignored reports whether any of the files, each of which stands in a
// directory above the path, ignores it.
func ignored(chain []rules, path string, folder bool) bool {
	if !folder && base(path) == ignoreFile {
		return false
	}
	for i := range chain {
		if chain[i].ignores(path, folder) {
			return true
		}
	}
	return false
}
