package mount

import (
	"regexp"
	"strings"
)

// The lines that a guidance stands between in a file of instructions. They are
// frozen: what was written by an older version is to be known again.
const (
	fenceBegin = "<!-- bunkroom: about this run only -->"
	fenceEnd   = "<!-- bunkroom: end -->"
)

// guidanceBlock is a block as FenceGuidance writes it, also after an editor has
// changed the ends of its lines; fence is either of the two lines.
var (
	guidanceBlock = regexp.MustCompile(`\r?\n?` + fenceBegin + `[ \t]*\r?\n(?s:.*?)` + fenceEnd + `[ \t]*(\r?\n|$)`)
	fence         = regexp.MustCompile(fenceBegin + `|` + fenceEnd)
)

// FenceGuidance returns the instructions of an agent with a [Carried.Guidance] at
// their end, for programs that are told nothing but by a file. The guidance
// stands between two marks, so that [StripGuidance] finds it; what an earlier
// run has left of one is taken out. An empty guidance adds nothing.
func FenceGuidance(instructions, guidance string) string {
	instructions = StripGuidance(instructions)
	if guidance == "" {
		return instructions
	}
	end := "\n"
	if strings.HasSuffix(instructions, "\r") { // which is theirs, and not half of our line's end
		end = "\r\n"
	}
	return instructions + end + fenceBegin + "\n" + fence.ReplaceAllString(guidance, "") + "\n" + fenceEnd + "\n"
}

// StripGuidance returns a text without what [FenceGuidance] has added. What an
// agent hands in as its instructions goes through it before it is kept: else
// what was said of one run would become the author's own words. A mark that
// has lost its other is taken out alone, for what follows it may be the author's.
func StripGuidance(text string) string {
	return fence.ReplaceAllString(guidanceBlock.ReplaceAllString(text, ""), "")
}
