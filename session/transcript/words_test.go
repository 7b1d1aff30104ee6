package transcript_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/session/transcript"
)

func TestWords(t *testing.T) {
	long := strings.Repeat("é", transcript.MaxWord)
	for _, c := range []struct {
		rule, text string
		want       []string
	}{
		{"Letters and digits in a run are a word, in lower case.", "Hello, WORLD2 x_y it's", []string{"hello", "world2", "x", "y", "it", "s"}},
		{"Marks belong to the letter that they follow.", "e\u0301cole \u0301x", []string{"e\u0301cole", "x"}},
		{"Scripts without spaces have a word for each character.", "我们abc北京", []string{"我", "们", "abc", "北", "京"}},
		{"A mark stays with such a character.", "ที่", []string{"ที่"}},
		{"What is no digit is none.", "½ ² Ⅷ ١", []string{"١"}},
		{"The first characters of a long word count.", long + "z", []string{long}},
		{"What is no text is no word.", "a\xffb\x00c\ufffdd", []string{"a", "b", "c", "d"}},
		{"Each is as often as it occurs.", "a A a", []string{"a", "a", "a"}},
		{"Of nothing there are none.", " \n!", nil},
	} {
		if got := transcript.Words(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s\n\tof %q: got %q, want %q", c.rule, c.text, got, c.want)
		}
	}
}

func TestWant(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		want       transcript.Wanted
	}{
		{"The last word may be a beginning.", "one two", transcript.Wanted{Words: []string{"one"}, Prefix: "two"}},
		{"What something follows is a whole word.", "one two ", transcript.Wanted{Words: []string{"one", "two"}}},
		{"A word is wanted once.", "one one on", transcript.Wanted{Words: []string{"one"}, Prefix: "on"}},
		{"A character that is a word is no beginning.", "北京", transcript.Wanted{Words: []string{"北", "京"}}},
	} {
		if got := transcript.Want(c.text); !slices.Equal(got.Words, c.want.Words) || got.Prefix != c.want.Prefix {
			t.Errorf("%s\n\tof %q: got %+v, want %+v", c.rule, c.text, got, c.want)
		}
	}
}

// Words are what drivers rely on: not empty, without capitals of their own,
// without quotes, spaces or signs, and the same words again when read alone.
func TestWordsOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, word := range transcript.Words(rapid.String().Draw(t, "text")) {
			n := utf8.RuneCountInString(word)
			if n == 0 || n > transcript.MaxWord || !utf8.ValidString(word) {
				t.Fatalf("%q has %d characters", word, n)
			}
			for _, r := range word {
				if !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
					t.Fatalf("%q has %q", word, r)
				}
			}
			if again := transcript.Words(word); len(again) != 1 || again[0] != word {
				t.Fatalf("%q is %q when it is read again", word, again)
			}
		}
	})
}

// A snippet is one line, and every place in it is one of the words that are wanted.
func TestSnippetOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{" ", "\n", "the", "The needle", "needles", "北京"}))).Draw(t, "text"), "")
		want := transcript.Want(rapid.SampledFrom([]string{"needle", "the ", "needle the", "京", "absent"}).Draw(t, "query"))
		snippet, places := want.Snippet(text)
		if strings.ContainsAny(snippet, "\n\t") || !utf8.ValidString(snippet) || utf8.RuneCountInString(snippet) > transcript.SnippetRunes {
			t.Fatalf("a snippet of %d characters: %q", utf8.RuneCountInString(snippet), snippet)
		}
		for _, p := range places {
			if words := transcript.Words(snippet[p.From:p.To]); len(words) != 1 || !want.Is(words[0]) {
				t.Fatalf("at %+v of %q there is %q", p, snippet, words)
			}
		}
		if found := slices.ContainsFunc(transcript.Words(text), want.Is); found != (len(places) > 0) {
			t.Fatalf("of %q, in which it is %t, the snippet is %q with places %v", text, found, snippet, places)
		}
	})
}

func ExampleWords() {
	fmt.Println(transcript.Words("It's 3 o'clock in Zürich, or 北京"))
	// Output: [it s 3 o clock in zürich or 北 京]
}
