package s3

import (
	"fmt"
	"io/fs"
)

// NameError says that a store can't have an object of that key: it would be
// kept under another, which may be somebody else's. Nothing was written. It is fs.ErrInvalid.
type NameError struct {
	Key  string
	Rule string // what is wrong with it
}

func (e *NameError) Error() string { return fmt.Sprintf("s3: key %q %s", e.Key, e.Rule) }

// Is reports whether target is fs.ErrInvalid.
func (e *NameError) Is(target error) bool { return target == fs.ErrInvalid }

// Problem says that the path is not valid.
func (e *NameError) Problem() (status int, code, sentence string) {
	return 422, "invalid_path", "This is not a valid path here."
}
