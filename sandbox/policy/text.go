package policy

import (
	"fmt"
	"unicode/utf8"
)

// Text is data as text of at most limit bytes: cut where a rune ends, and what
// is not UTF-8 shown as U+FFFD, which takes three bytes and counts as such. cut tells that something was left out.
func Text(data []byte, limit int) (text string, cut bool) {
	text, used := ahead(data, limit)
	return text, used < len(data)
}

// Excerpt is as [Text], but where something is left out it is what is in the
// middle: three fifths of limit show the beginning, where a command says what it does, and the rest the end, where it says
// how that went. In between a line tells how many bytes are missing. Where limit is too small for that, it is as Text.
func Excerpt(data []byte, limit int) (text string, cut bool) {
	if whole, cut := Text(data, limit); !cut {
		return whole, false
	}
	room := limit - len(gap(len(data)))
	if room < minExcerpt {
		return Text(data, limit)
	}
	head, used := ahead(data, room*3/5)
	tail, kept := behind(data[used:], room-len(head))
	return head + gap(len(data)-used-kept) + tail, true
}

// minExcerpt is how many bytes have to be left for both ends.
const minExcerpt = 64

func gap(bytes int) string { return fmt.Sprintf("\n[… %d bytes left out …]\n", bytes) }

// ahead is the text of the first of data, of at most limit bytes, and how many of data that is.
func ahead(data []byte, limit int) (text string, used int) {
	out := make([]byte, 0, min(len(data), max(limit, 0)))
	for used < len(data) {
		r, size := utf8.DecodeRune(data[used:])
		if len(out)+utf8.RuneLen(r) > limit {
			break
		}
		out, used = utf8.AppendRune(out, r), used+size
	}
	return string(out), used
}

// behind is the text of the last of data, of at most limit bytes, and how many of data that is.
func behind(data []byte, limit int) (text string, used int) {
	size := 0 // of the text
	for used < len(data) {
		r, n := utf8.DecodeLastRune(data[:len(data)-used])
		if size+utf8.RuneLen(r) > limit {
			break
		}
		size, used = size+utf8.RuneLen(r), used+n
	}
	text, _ = ahead(data[len(data)-used:], size)
	return text, used
}
