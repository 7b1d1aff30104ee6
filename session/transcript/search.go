package transcript

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// SearchQuery asks for committed entries by the words of their text, newest first; see [Words].
type SearchQuery struct {
	Conversation access.ConversationID
	// Text has the words, all of which an entry must have. The last may be the
	// beginning of a word, unless something follows it, as a space.
	Text  string
	Kinds []Kind // empty: all
	// Path: only what is on the path to At.
	Path   bool
	At     Position // with Path; zero: the head
	Before int64    // a Seq; 0: from the newest
	Limit  int
}

// SearchPage is a page of what was found.
type SearchPage struct {
	Hits []Hit
	Next int64 // Before of the page after this; 0: that was all
}

// Hit is an entry that was found.
type Hit struct {
	Header
	Snippet string  // how its text reads where the first of the words is, on one line
	Places  []Place // where the words are in Snippet
}

// Place is a stretch of a text, in bytes.
type Place struct{ From, To int }

// MaxQuery is how long the text of a search may be, in bytes, and MaxWanted how many words it may have.
const (
	MaxQuery  = 1024
	MaxWanted = 32
)

// Check refuses a query that no store has to look at, by a *access.FieldError.
func (q SearchQuery) Check() error {
	if err := checkPage(q.Conversation, q.Limit); err != nil {
		return err
	}
	if q.Before < 0 {
		return &access.FieldError{Field: "Before", Rule: "not negative"}
	}
	if len(q.Text) > MaxQuery {
		return &access.FieldError{Field: "Text", Rule: fmt.Sprintf("at most %d bytes", MaxQuery)}
	}
	if w := Want(q.Text); w.Empty() || len(w.Words) >= MaxWanted {
		return &access.FieldError{Field: "Text", Rule: fmt.Sprintf("1 to %d words", MaxWanted)}
	}
	for i, kind := range q.Kinds {
		if err := checkName(fmt.Sprintf("Kinds[%d]", i), string(kind)); err != nil {
			return err
		}
	}
	if !q.Path && !q.At.IsZero() {
		return &access.FieldError{Field: "At", Rule: "only with Path"}
	}
	return q.At.Check("At")
}
