package pijsonl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/session/transcript"
)

var (
	errForm   = errors.New("not a line of a session file")
	errParent = errors.New("what it follows is not before it")
	errTwice  = errors.New("another entry has its id")
)

// fields are those of an object, by their exact names.
type fields map[string]json.RawMessage

// parse reads a line. What is not UTF-8 in it becomes U+FFFD, as it does for pi.
func parse(text []byte) (fields, error) {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	var f fields
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: it is null", errForm)
	}
	return f, nil
}

// text is a field that is a string; empty where it is none.
func (f fields) text(name string) (s string) {
	if json.Unmarshal(f[name], &s) != nil {
		return ""
	}
	return s
}

// take is a field that is a string, which is taken out; what is none stays.
func (f fields) take(name string) string {
	text := f.text(name)
	if bytes.HasPrefix(f[name], []byte(`"`)) {
		delete(f, name)
	}
	return text
}

// object is a field that is an object; nil where it is none.
func (f fields) object(name string) (o fields) {
	if json.Unmarshal(f[name], &o) != nil {
		return nil
	}
	return o
}

// is reports whether a field is true.
func (f fields) is(name string) bool { return string(f[name]) == "true" }

// has reports whether there is a field, and not null.
func (f fields) has(name string) bool { return len(f[name]) > 0 && string(f[name]) != "null" }

// number is a field that is a number, from 0 to most.
func (f fields) number(name string, times, most float64) int64 {
	var n float64
	if json.Unmarshal(f[name], &n) != nil {
		return 0
	}
	return int64(math.Round(min(max(n*times, 0), most)))
}

// when is a field that is a date; zero where it is none.
func (f fields) when(name string) time.Time {
	at, err := time.Parse(time.RFC3339, f.text(name))
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// raw is JSON without what only matters to browsers.
func raw(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// clean makes a name of what is one to pi: at most [transcript.MaxName] bytes, without control characters.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, name)
	name = strings.TrimSpace(name)
	for len(name) > transcript.MaxName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return strings.TrimSpace(name)
}
