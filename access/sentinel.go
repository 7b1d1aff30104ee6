package access

// Sentinel is an error value that stands for one kind of outcome. Packages
// declare theirs as variables named ErrX and wrap them with the subject;
// callers compare with errors.Is.
type Sentinel struct {
	text     string
	status   int
	code     string
	sentence string
}

// NewSentinel returns a new sentinel: its text for logs, and what
// [Sentinel.Problem] answers.
func NewSentinel(text string, status int, code, sentence string) *Sentinel {
	return &Sentinel{text: text, status: status, code: code, sentence: sentence}
}

func (s *Sentinel) Error() string { return s.text }

// Problem is what a client may see: an HTTP status, a stable code and one fixed sentence.
func (s *Sentinel) Problem() (status int, code, sentence string) {
	return s.status, s.code, s.sentence
}
