package transcript

import (
	"bytes"
	"encoding/json"
)

// Bodies are decoded by hand too, for a page of a path does little else: those
// of messages, just as appendDoc writes them. Whatever is not exactly that, and what is damaged, is left to encoding/json.

// decodeDoc reads a document of appendDoc. False: it is left to encoding/json, whatever doc has by then.
func decodeDoc(kept []byte, doc *body) bool {
	c := cursor{rest: kept}
	all := fields{&c, '{'}
	if all.has("parts") && c.must("[") {
		for more := true; more && !c.lost; more = c.take(',') {
			doc.Parts = append(doc.Parts, c.part())
		}
		c.must("]")
	}
	if all.has("payload") {
		doc.Payload = c.value()
	}
	if all.has("usage") {
		doc.Usage = c.usage()
	}
	all.end()
	return !c.lost && len(c.rest) == 0
}

// cursor reads JSON without white space. Once it is lost it stays so.
type cursor struct {
	rest []byte
	lost bool
}

// fields reads those of an object, which are there in their order or not at all.
type fields struct {
	*cursor
	before byte // what is before the next: a brace, a comma
}

// has reports whether the next field has that name, and reads that.
func (o *fields) has(name string) bool {
	n := len(name)
	if b := o.rest; len(b) < n+4 || b[0] != o.before || b[1] != '"' || string(b[2:2+n]) != name || b[2+n] != '"' || b[3+n] != ':' {
		return false
	}
	o.rest, o.before = o.rest[n+4:], ','
	return true
}

// end reads its end.
func (o *fields) end() {
	if o.before == '{' {
		o.must("{}")
	} else {
		o.must("}")
	}
}

// take reads a byte if it is next.
func (c *cursor) take(b byte) bool {
	if len(c.rest) == 0 || c.rest[0] != b {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

// must reads what has to be next.
func (c *cursor) must(text string) bool {
	if len(c.rest) < len(text) || string(c.rest[:len(text)]) != text {
		c.lost = true
		return false
	}
	c.rest = c.rest[len(text):]
	return true
}

// part is one as appendPart has it.
func (c *cursor) part() (p Part) {
	o := fields{c, '{'}
	c.lost = c.lost || !o.has("type")
	switch name := c.plain(); string(name) {
	case PartText:
		p.Type = PartText
	case PartCall:
		p.Type = PartCall
	default:
		p.Type = string(name)
	}
	if o.has("data") {
		p.Data = c.value()
	}
	if o.has("call") {
		p.Call = c.call()
	}
	if o.has("blob") {
		p.Blob = &Blob{}
		b := fields{c, '{'}
		c.lost = c.lost || !b.has("hash")
		p.Blob.Hash = string(c.plain())
		c.lost = c.lost || !b.has("size")
		p.Blob.Size = c.whole()
		b.end()
	}
	o.end()
	return p
}

func (c *cursor) call() *Call {
	call, o := &Call{}, fields{c, '{'}
	c.lost = c.lost || !o.has("id")
	call.ID = CallID(c.plain())
	c.lost = c.lost || !o.has("name")
	call.Name = string(c.plain())
	c.lost = c.lost || !o.has("arguments")
	call.Arguments = c.value()
	c.must(`,"status":""}`)
	return call
}

func (c *cursor) usage() *Usage {
	u, o := &Usage{}, fields{c, '{'}
	for _, f := range [...]struct {
		name string
		to   *int64
	}{{"input", &u.Input}, {"output", &u.Output}, {"cache_read", &u.CacheRead}, {"cache_write", &u.CacheWrite}, {"cost_micros", &u.CostMicros}} {
		if o.has(f.name) {
			*f.to = c.whole()
		}
	}
	o.end()
	return u
}

// plain is a text in which nothing is said in other words.
func (c *cursor) plain() []byte {
	n := -1
	if len(c.rest) > 0 && c.rest[0] == '"' {
		n = bytes.IndexByte(c.rest[1:], '"')
	}
	if n < 0 {
		c.lost = true
		return nil
	}
	text := c.rest[1 : n+1]
	for _, b := range text {
		if b < ' ' || b > '~' || b == '\\' {
			c.lost = true
			return nil
		}
	}
	c.rest = c.rest[n+2:]
	return text
}

// whole is a whole number that surely is none too great.
func (c *cursor) whole() (n int64) {
	negative := c.take('-')
	digits := 0
	for digits < len(c.rest) && isDigit(c.rest[digits]) {
		n = n*10 + int64(c.rest[digits]-'0')
		if digits++; digits > 18 {
			break
		}
	}
	if digits == 0 || digits > 18 || digits > 1 && c.rest[0] == '0' {
		c.lost = true
		return 0
	}
	c.rest = c.rest[digits:]
	if negative {
		return -n
	}
	return n
}

// value is any JSON, in memory of its own.
func (c *cursor) value() json.RawMessage {
	n := valueLen(c.rest, 0)
	if n < 0 {
		c.lost = true
		return nil
	}
	var value json.RawMessage = bytes.Clone(c.rest[:n])
	c.rest = c.rest[n:]
	return value
}

// deepest is how deep a value is looked into.
const deepest = 50

// valueLen is how long the value is with which b begins; -1: it is none, has white space, or is too deep.
func valueLen(b []byte, depth int) int {
	if len(b) == 0 || depth > deepest {
		return -1
	}
	switch b[0] {
	case '"':
		return textLen(b)
	case '{', '[':
		return membersLen(b, depth)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b) >= len(word) && string(b[:len(word)]) == word {
			return len(word)
		}
	}
	return numberLen(b)
}

// membersLen is the length of an object or an array.
func membersLen(b []byte, depth int) int {
	isObject, end := b[0] == '{', b[0]+2 // as ASCII has them
	n := 1
	if n < len(b) && b[n] == end {
		return n + 1
	}
	for n < len(b) {
		if isObject {
			k := textLen(b[n:])
			if n += k; k < 0 || n >= len(b) || b[n] != ':' {
				return -1
			}
			n++
		}
		k := valueLen(b[n:], depth+1)
		if n += k; k < 0 || n >= len(b) {
			return -1
		}
		switch b[n] {
		case ',':
			n++
		case end:
			return n + 1
		default:
			return -1
		}
	}
	return -1
}

// textLen is the length of a text in its quotes.
func textLen(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for n := 1; n < len(b); n++ {
		switch c := b[n]; {
		case c == '"':
			return n + 1
		case c < ' ':
			return -1
		case c == '\\':
			if n++; n == len(b) {
				return -1
			}
			switch b[n] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if n++; n == len(b) || !isHex(b[n]) {
						return -1
					}
				}
			default:
				return -1
			}
		}
	}
	return -1
}

// numberLen is the length of a number.
func numberLen(b []byte) (n int) {
	digits := func() bool {
		from := n
		for n < len(b) && isDigit(b[n]) {
			n++
		}
		return n > from
	}
	if b[0] == '-' {
		n++
	}
	from := n
	if !digits() || b[from] == '0' && n > from+1 {
		return -1
	}
	if n < len(b) && b[n] == '.' {
		if n++; !digits() {
			return -1
		}
	}
	if n < len(b) && (b[n] == 'e' || b[n] == 'E') {
		if n++; n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
		if !digits() {
			return -1
		}
	}
	return n
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }
func isHex(b byte) bool   { return isDigit(b) || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F' }
