package mount_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/mount"
)

// Trap 54: an agent commits its instructions as it found them, and what it
// was told of one run becomes its author's words. What was added is found
// again and taken out, and nothing else is.
func TestGuidanceIsNotKeptInInstructions(t *testing.T) {
	w := newWorld(t)
	c := w.carry(w.manager(nil), w.open("machine"), request("reviewer"))
	const author = "# Reviewer\n\nBe kind.\n<!-- mine -->"
	written := mount.FenceGuidance(author, c.Guidance)
	if !strings.HasPrefix(written, author+"\n") || !strings.Contains(written, c.Guidance) {
		t.Fatalf("written is %q", written)
	}
	for _, c := range []struct{ rule, text, want string }{
		{"as it was", written, author},
		{"with more below it", written + "Be quick.\n", author + "Be quick.\n"},
		{"with other ends of lines", strings.ReplaceAll(written, "\n", "\r\n"), strings.ReplaceAll(author, "\n", "\r\n")},
		{"without the last end of a line", strings.TrimSuffix(written, "\n"), author},
		{"twice, as two runs have left it", written + written, author + author},
		{"of the next run, in place of the last one's", mount.FenceGuidance(written, "another"), author},
		{"where nothing was to be said", mount.FenceGuidance(written, ""), author},
		{"without its end, the author's words stay", strings.SplitAfter(written, "only -->\n")[0] + "Be kind.", author + "\n\nBe kind."},
		{"in text that never had one", author, author},
	} {
		if got := mount.StripGuidance(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.rule, got, c.want)
		}
	}
	if n := strings.Count(mount.FenceGuidance(written, c.Guidance), c.Guidance); n != 1 {
		t.Errorf("it is there %d times", n)
	}
}

// Whatever the author wrote and the guidance says, the author's text comes back.
func TestInstructionsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		author := rapid.String().Draw(t, "author")
		guidance := rapid.OneOf(rapid.String(), rapid.Just("a\n<!-- bunkroom: end -->\nb")).Draw(t, "guidance")
		if got := mount.StripGuidance(mount.FenceGuidance(author, guidance)); got != author {
			t.Errorf("%q, want %q", got, author)
		}
	})
}
