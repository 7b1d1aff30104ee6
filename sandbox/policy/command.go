package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// DefaultMaxCommand is how many bytes a script has at most where [Commands] names no other number.
const DefaultMaxCommand = 16 << 10

// Commands says what scripts are refused. The zero value refuses what is
// blank, what is too large, and what names the address where clouds keep a machine's own credentials.
type Commands struct {
	// MaxBytes is how long a script may be; 0 means [DefaultMaxCommand].
	MaxBytes int
	// Instead are programs that agents are told to use something else for.
	Instead []Instead
}

// Instead tells of a program that something else does better, as the tools for
// git do which have the user's own credentials.
type Instead struct {
	// Program is the program's name, as it is typed. Required.
	Program string
	// Verbs are the first arguments it is about; none: any, and none.
	Verbs []string
	// Hint is the sentence that who typed it is told. Required.
	Hint string
}

// Check refuses a script, with a *[RefusedError] that says why. It reads the
// text only: a program counts where a command may begin, which is at the start of a line and after ; & and |,
// and is not looked for in any other way. So it guides, and confines nobody.
// The time it takes grows with the length of the script, and no faster.
func (c Commands) Check(script string) error {
	most := c.MaxBytes
	if most == 0 {
		most = DefaultMaxCommand
	}
	switch {
	case strings.TrimSpace(script) == "":
		return refused(EmptyCommand)
	case len(script) > most:
		return &RefusedError{CommandTooLarge, fmt.Sprintf("The command is longer than %d bytes. Write it to a file and run that.", most)}
	case namesMetadata(script):
		return refused(MetadataAddress)
	}
	for rest := range commands(script) {
		for _, i := range c.Instead {
			if i.begins(rest) {
				return &RefusedError{UseToolInstead, i.Hint}
			}
		}
	}
	return nil
}

// commands yields what follows each place where a command may begin.
func commands(script string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for {
			script = strings.TrimLeft(script, " \t")
			if !yield(script) {
				return
			}
			next := strings.IndexAny(script, "\n\r;&|")
			if next < 0 {
				return
			}
			script = script[next+1:]
		}
	}
}

// begins reports whether a command is the program's, with one of the verbs.
func (i Instead) begins(command string) bool {
	rest, ok := word(command, i.Program)
	if !ok || i.Program == "" {
		return false
	}
	if len(i.Verbs) == 0 {
		return true
	}
	arguments := strings.TrimLeft(rest, " \t")
	return arguments != rest && slices.ContainsFunc(i.Verbs, func(verb string) bool {
		_, ok := word(arguments, verb)
		return ok
	})
}

// word cuts w off the front of text, where no word goes on with it: "gh-pages"
// does not begin with the word "gh".
func word(text, w string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(text, w)
	if next, _ := utf8.DecodeRuneInString(rest); ok && rest != "" {
		ok = !strings.ContainsRune("-_=./", next) && !isLetter(next)
	}
	return rest, ok
}

func isLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r >= utf8.RuneSelf
}
