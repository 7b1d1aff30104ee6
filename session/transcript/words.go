package transcript

import (
	"encoding/json"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSearched is how much of an entry's text is searched, in bytes from its
// beginning, and MaxWord how many characters of a word count.
const (
	MaxSearched = 256 << 10
	MaxWord     = 64
)

// Words are those of a text, in its order, each as often as it occurs. They
// are what [Store.Search] goes by, in every store:
//
// A word is a run of letters and digits, each with the marks that follow it, in
// lower case, character by character. Of scripts that are written without spaces, as Chinese, Japanese
// and Thai, each character is a word. A letter and its mark are not the same as
// the one character that stands for both. Of a word that is longer, the first [MaxWord] characters count.
func Words(text string) []string {
	var all []string
	for w := range words(text) {
		all = append(all, w.text)
	}
	return all
}

// word is a word and where it stands, in bytes.
type word struct {
	text     string
	from, to int
}

func words(text string) iter.Seq[word] {
	return func(yield func(word) bool) {
		var b strings.Builder
		from, runes, alone := -1, 0, false
		end := func(to int) bool {
			if from < 0 {
				return true
			}
			w := word{b.String(), from, to}
			b.Reset()
			from, runes = -1, 0
			return yield(w)
		}
		for i, r := range text {
			letter := r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
			mark := unicode.IsMark(r) && from >= 0
			single := letter && spaceless(r)
			if !mark && (!letter || single || alone) && !end(i) {
				return
			}
			if !letter && !mark {
				continue
			}
			if from < 0 {
				from, alone = i, single
			}
			if runes++; runes <= MaxWord {
				b.WriteRune(unicode.ToLower(r))
			}
		}
		end(len(text))
	}
}

// spaceless reports whether a character is of a script that is written without spaces between words.
func spaceless(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Searched is the text of an entry that is searched: of its text and thinking,
// of the names of its tools, and of the summary of a compaction, each on lines of its own; at
// most [MaxSearched] bytes. What is large has to be in its place, not as a [Blob].
func Searched(e NewEntry) string {
	var b strings.Builder
	add := func(text string) {
		if b.Len() > 0 && b.Len() < MaxSearched {
			b.WriteByte('\n')
		}
		b.WriteString(text[:min(len(text), MaxSearched-b.Len())])
	}
	if e.Compaction != nil {
		add(e.Compaction.Summary)
	}
	for _, p := range e.Parts {
		switch {
		case b.Len() >= MaxSearched:
		case p.Call != nil:
			add(p.Call.Name)
		case Texts(p):
			var t struct {
				Text string `json:"text"`
			}
			if json.Unmarshal(p.Data, &t) == nil {
				add(t.Text)
			}
		}
	}
	return b.String()
}

// Texts reports whether the data of a part is searched.
func Texts(p Part) bool { return p.Type == PartText || p.Type == PartThinking }

// Wanted are the words that are searched for. All of them have to occur.
type Wanted struct {
	Words  []string // each once, in the order of the query
	Prefix string   // what one word begins with; empty: nothing more
}

// Want takes a query apart. The last word of a query that ends with it may be
// the beginning of one.
func Want(query string) (w Wanted) {
	seen := map[string]bool{}
	for next := range words(query) {
		if next.to == len(query) && !alone(next.text) {
			w.Prefix = next.text
		} else if !seen[next.text] {
			seen[next.text] = true
			w.Words = append(w.Words, next.text)
		}
	}
	return w
}

// alone reports whether a word is one character of a script without spaces.
func alone(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return spaceless(r)
}

// Empty reports whether nothing is wanted.
func (w Wanted) Empty() bool { return len(w.Words) == 0 && w.Prefix == "" }

// Is reports whether a word is one of those that are wanted.
func (w Wanted) Is(text string) bool {
	for _, one := range w.Words {
		if one == text {
			return true
		}
	}
	return w.Prefix != "" && strings.HasPrefix(text, w.Prefix)
}

// SnippetRunes is about how long a snippet is.
const SnippetRunes = 160

// Snippet is how a text reads around the first word that is wanted, on one
// line, and where in it such words stand, in bytes. A text that has none is shown from its beginning.
func (w Wanted) Snippet(text string) (snippet string, at []Place) {
	from := 0
	for one := range words(text) {
		if w.Is(one.text) {
			from = one.from
			break
		}
	}
	snippet = around(text, from)
	for one := range words(snippet) {
		if w.Is(one.text) {
			at = append(at, Place{one.from, one.to})
		}
	}
	return snippet, at
}

// around is a stretch of a text that begins a little before a place, with whole words, on one line.
func around(text string, at int) string {
	const before = SnippetRunes / 4
	from, n := at, 0
	for n < before && from > 0 {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
		n++
	}
	from = starts(text, from, at)
	to := from
	for n = 0; n < SnippetRunes && to < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[to:])
		to += size
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text[from:ends(text, from, to)], "")), " ")
}

// starts is where the first word begins that is not before a place.
func starts(text string, from, most int) int {
	if from == 0 {
		return 0
	}
	for i, r := range text[from:most] {
		if unicode.IsSpace(r) {
			return from + i
		}
	}
	return most
}

// ends is where the last word ends that is not behind a place. One that is longer than all there is room for is cut.
func ends(text string, from, to int) int {
	if to == len(text) {
		return to
	}
	if next, _ := utf8.DecodeRuneInString(text[to:]); unicode.IsSpace(next) {
		return to
	}
	if i := strings.LastIndexFunc(text[from:to], unicode.IsSpace); i > 0 {
		return from + i
	}
	return to
}
