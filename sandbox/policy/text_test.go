package policy_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/sandbox/policy"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		rule, in string
		limit    int
		want     string
		cut      bool
	}{
		{"what fits is whole", "abc", 3, "abc", false},
		{"what does not is cut", "abcd", 3, "abc", true},
		{"case 16: a rune is never split", "a界", 3, "a", true},
		{"T-95: what stands for bytes that are no text counts as what it takes", "\xff\xff", 5, "\uFFFD", true},
		{"T-95: and fits where it fits", "\xff\xff", 6, "\uFFFD\uFFFD", false},
		{"half a rune at the end is shown as such", "a\xe7\x95", 9, "a\uFFFD\uFFFD", false},
		{"of nothing nothing is left out", "", 0, "", false},
		{"no limit shows nothing", "a", 0, "", true},
		{"nor does less", "a", -1, "", true},
	} {
		if got, cut := policy.Text([]byte(c.in), c.limit); got != c.want || cut != c.cut {
			t.Errorf("%s: Text(%q, %d) = %q, %v", c.rule, c.in, c.limit, got, cut)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := []byte(strings.Repeat("a", 1000) + strings.Repeat("b", 1000))
	got, cut := policy.Excerpt(long, 200)
	head, tail, found := strings.Cut(got, "\n[… ")
	if !cut || !found || len(got) > 200 || strings.Trim(head, "a") != "" || !strings.HasSuffix(tail, strings.Repeat("b", 50)) {
		t.Errorf("%q", got)
	}
	if shown := strings.Count(got, "a") + strings.Count(got, "b"); !strings.Contains(got, " bytes left out") || shown < 150 {
		t.Errorf("%q shows %d", got, shown)
	}
	if got, cut := policy.Excerpt(long, 40); !cut || got != strings.Repeat("a", 40) {
		t.Errorf("with little room: %q", got)
	}
}

// T-95: whatever the bytes are, what is shown is text, and within the limit; and what is not cut is all.
func TestShownIsTextWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 400), rapid.Map(rapid.StringN(0, 400, -1), func(s string) []byte { return []byte(s) })).Draw(t, "data")
		limit := rapid.IntRange(-1, 500).Draw(t, "limit")
		flagged, mark := rapid.Bool().Draw(t, "flagged"), "m-1"
		all := string(bytes.ToValidUTF8(data, nil))
		for name, show := range map[string]func() (string, bool){
			"Text":    func() (string, bool) { return policy.Text(data, limit) },
			"Excerpt": func() (string, bool) { return policy.Excerpt(data, limit) },
			"Present": func() (string, bool) { return policy.Present(data, limit, flagged, mark) },
		} {
			got, cut := show()
			if len(got) > max(limit, 0) || !utf8.ValidString(got) {
				t.Fatalf("%s: %d bytes of at most %d: %q", name, len(got), limit, got)
			}
			if !cut && len(all) == len(data) && !strings.Contains(got, string(data)) {
				t.Fatalf("%s says it is whole: %q of %q", name, got, data)
			}
			if cut && name == "Text" && utf8.Valid(data) && limit >= 0 && len(data) <= limit {
				t.Fatalf("Text cut what fits: %q to %d", data, limit)
			}
			if name == "Present" && flagged && limit >= 200 && (!strings.HasPrefix(got, "[untrusted output m-1") || !strings.HasSuffix(got, "m-1]")) {
				t.Fatalf("the lines are lost: %q", got)
			}
		}
	})
}
