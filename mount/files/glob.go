package files

import "strings"

// glob is a compiled pattern of an ignore file. It is matched byte by byte,
// as git does, and in time that grows with pattern and path only linearly in
// each: agents write these patterns.
type glob struct {
	literal string // where the pattern has no wildcards
	steps   []step // else; nil in a glob that matches nothing
}

type stepKind uint8

const (
	stepByte  stepKind = iota // this byte
	stepAny                   // ? one byte but a slash
	stepClass                 // [a-z] one byte of a set, but a slash
	stepStar                  // * bytes but slashes
	stepDeep                  // ** any bytes
	stepDirs                  // the start of **/ : what follows is stepDeep and a slash, or is left out
)

type step struct {
	kind stepKind
	b    byte
	set  *[4]uint64
}

func (s *step) takes(c byte) bool {
	switch s.kind {
	case stepByte:
		return c == s.b
	case stepAny, stepStar:
		return c != '/'
	case stepClass:
		return c != '/' && s.set[c>>6]&(1<<(c&63)) != 0
	case stepDeep:
		return true
	}
	return false
}

// compile reads a pattern. Only where it is for whole paths, ** means more than *.
func compile(p string, paths bool) glob {
	wild := strings.IndexAny(p, `*?[\`)
	if wild < 0 {
		return glob{literal: p}
	}
	var steps []step
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '\\':
			if i++; i == len(p) {
				return glob{} // it escapes nothing
			}
			steps = append(steps, step{kind: stepByte, b: p[i]})
		case '?':
			steps = append(steps, step{kind: stepAny})
		case '[':
			set, n := class(p[i:])
			if n == 0 {
				return glob{} // it never ends
			}
			steps = append(steps, step{kind: stepClass, set: set})
			i += n - 1
		case '*':
			first := i
			for i+1 < len(p) && p[i+1] == '*' {
				i++
			}
			// git compares what stands before the first wildcard by itself, so
			// that ** right after it counts as one at the start.
			whole := paths && i > first && (first == wild || p[first-1] == '/')
			switch rest := p[i+1:]; {
			case whole && strings.HasPrefix(rest, "/"):
				steps = append(steps, step{kind: stepDirs}, step{kind: stepDeep}, step{kind: stepByte, b: '/'})
				i++
			case whole && rest == "":
				steps = append(steps, step{kind: stepDeep})
			default:
				steps = append(steps, step{kind: stepStar})
			}
		default:
			steps = append(steps, step{kind: stepByte, b: c})
		}
	}
	return glob{steps: steps}
}

// match reports whether the whole of s is matched. It follows every way
// through the steps at once.
func (g glob) match(s string) bool {
	if g.steps == nil {
		return g.literal != "" && g.literal == s
	}
	n := len(g.steps)
	now, next := make([]bool, n+1), make([]bool, n+1)
	g.enter(now, 0)
	for i := range len(s) {
		alive := false
		for at := range n {
			if !now[at] || !g.steps[at].takes(s[i]) {
				continue
			}
			alive = true
			if k := g.steps[at].kind; k == stepStar || k == stepDeep {
				g.enter(next, at) // it stays, and by that may also go on
			} else {
				g.enter(next, at+1)
			}
		}
		if !alive {
			return false
		}
		now, next = next, now
		clear(next)
	}
	return now[n]
}

// enter marks a place among the steps, and those reached from it for nothing.
func (g glob) enter(marks []bool, at int) {
	for !marks[at] {
		marks[at] = true
		if at == len(g.steps) {
			return
		}
		switch g.steps[at].kind {
		case stepDirs:
			g.enter(marks, at+3)
		case stepStar, stepDeep:
		default:
			return
		}
		at++
	}
}

// class reads a set of bytes in brackets at the start of p, and how long it
// is; 0 where the brackets don't end.
func class(p string) (set *[4]uint64, n int) {
	set = &[4]uint64{}
	add := func(from, to byte) {
		for c := int(from); c <= int(to); c++ {
			set[c>>6] |= 1 << (c & 63)
		}
	}
	i, negated := 1, false
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		i, negated = i+1, true
	}
	last, ranged := byte(0), false // the byte that a range may begin with
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			if negated {
				for w := range set {
					set[w] = ^set[w]
				}
			}
			return set, i + 1
		case c == '-' && ranged && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return nil, 0
				}
			}
			add(last, p[i])
			ranged = false
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return nil, 0
			}
			name := p[i+2 : i+2+end]
			if !strings.HasSuffix(name, ":") {
				add('[', '[') // it only looked like a name
				last, ranged = '[', true
				break
			}
			if !named(strings.TrimSuffix(name, ":"), add) {
				return nil, 0
			}
			i, ranged = i+2+end, false
		default:
			if c == '\\' {
				if i++; i >= len(p) {
					return nil, 0
				}
				c = p[i]
			}
			add(c, c)
			last, ranged = c, true
		}
		i++
	}
}

// named adds the bytes of a named class.
func named(name string, add func(from, to byte)) bool {
	switch name {
	case "alnum":
		add('0', '9')
		add('A', 'Z')
		add('a', 'z')
	case "alpha":
		add('A', 'Z')
		add('a', 'z')
	case "blank":
		add(' ', ' ')
		add('\t', '\t')
	case "cntrl":
		add(0, 0x1f)
		add(0x7f, 0x7f)
	case "digit":
		add('0', '9')
	case "graph":
		add('!', '~')
	case "lower":
		add('a', 'z')
	case "print":
		add(' ', '~')
	case "punct":
		add('!', '/')
		add(':', '@')
		add('[', '`')
		add('{', '~')
	case "space":
		add('\t', '\r')
		add(' ', ' ')
	case "upper":
		add('A', 'Z')
	case "xdigit":
		add('0', '9')
		add('A', 'F')
		add('a', 'f')
	default:
		return false
	}
	return true
}
