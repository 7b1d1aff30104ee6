package pijsonl

// node is what is kept of an entry.
type node struct {
	at   int64 // where its line begins
	size int   // of its line
	line int   // the number of that
	hash uint64
	id   string

	parent int32 // none: a root
	depth  int32 // how many are above it
	jump   int32 // one of those, or itself if it is a root; see above

	speaks int32 // the nearest that says something to a model: itself, or one above it
	said   uint64
	caller int32 // the nearest that calls tools: itself, or one above it
	calls  []call

	kept    int32 // of a compaction: the first that it keeps; none: it keeps nothing
	repeats bool  // its tail is what it keeps
	answers bool  // it is the result of a call
	label   string
}

// call is a call of a tool, in the order of the calls of its entry.
type call struct {
	id     string // as it is in the file, and may be in it twice
	result int32  // none: it has none
}

// none is no entry.
const none = -1

// place puts a node that is new into the tree. Jumps are such that whatever is above one is reached in few of them.
func (s *scan) place(n *node, i, parent int32) {
	n.parent, n.speaks, n.caller, n.kept, n.jump = parent, none, none, none, i
	if parent == none {
		return
	}
	p := s.nodes[parent]
	n.depth, n.speaks, n.caller, n.jump = p.depth+1, p.speaks, p.caller, parent
	if j := s.nodes[p.jump]; p.depth-j.depth == j.depth-s.nodes[j.jump].depth && p.depth > 0 {
		n.jump = j.jump
	}
}

// above reports whether i is j, or above it.
func (f *File) above(i, j int32) bool {
	to := f.nodes[i].depth
	for j != none && f.nodes[j].depth > to {
		if n := f.nodes[j]; f.nodes[n.jump].depth >= to {
			j = n.jump
		} else {
			j = n.parent
		}
	}
	return i == j
}
