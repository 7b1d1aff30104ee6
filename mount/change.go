package mount

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunkroom/bunkroom/access"
)

// The greatest lengths of what users write, beside access.MaxName.
const (
	MaxDescription = 2000 // in runes
	MaxMeta        = 4096 // in bytes
)

// Change is what [Store.Update] does to a row. What is nil stays as it is.
type Change struct {
	By      access.UserID
	Version int64 // that the row must have; 0 = whichever it has

	Name, Description, Meta *string
	Archived                *bool
}

// Applied returns the row after the change, dated at. Where nothing differs
// that is r itself, with its version and dates: so a change can be repeated.
// The error is a [*VersionError].
func (r Row) Applied(c Change, at time.Time) (Row, error) {
	if c.Version != 0 && c.Version != r.Version {
		return Row{}, &VersionError{Mount: r.ID, Expected: c.Version, Actual: r.Version}
	}
	next := r
	set(&next.Name, c.Name)
	set(&next.Description, c.Description)
	set(&next.Meta, c.Meta)
	switch {
	case c.Archived == nil || *c.Archived == r.Archived():
	case *c.Archived:
		next.ArchivedBy, next.ArchivedAt = c.By, at
	default:
		next.ArchivedBy, next.ArchivedAt = "", time.Time{}
	}
	if next == r {
		return r, nil
	}
	next.Version++
	next.UpdatedBy = c.By
	if at.After(next.UpdatedAt) {
		next.UpdatedAt = at
	}
	return next, nil
}

func set(to, from *string) {
	if from != nil {
		*to = *from
	}
}

// Used returns an existing row as GetOrCreate has it for the user by: out of
// the archive, and dated. What users have edited stays.
func (r Row) Used(by access.UserID, at time.Time) Row {
	if r.Archived() {
		r.Version++
		r.ArchivedBy, r.ArchivedAt = "", time.Time{}
	}
	r.UpdatedBy = by
	if at.After(r.UpdatedAt) {
		r.UpdatedAt = at
	}
	return r
}

// checkDescription trims a description and refuses one that can't be kept.
func checkDescription(s string) (string, error) {
	s = strings.TrimSpace(s)
	if err := checkText("description", s); err != nil {
		return "", err
	}
	if n := utf8.RuneCountInString(s); n > MaxDescription {
		return "", &access.FieldError{Field: "description", Rule: fmt.Sprintf("must have at most %d characters, has %d", MaxDescription, n)}
	}
	return s, nil
}

// checkMeta refuses what is no JSON object. Empty is none.
func checkMeta(s string) (string, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return "", nil
	}
	if err := checkText("meta", s); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if s[0] != '{' || json.Compact(&b, []byte(s)) != nil {
		return "", &access.FieldError{Field: "meta", Rule: "must be a JSON object"}
	}
	if b.Len() > MaxMeta {
		return "", &access.FieldError{Field: "meta", Rule: fmt.Sprintf("must have at most %d bytes, has %d", MaxMeta, b.Len())}
	}
	return b.String(), nil
}

func checkText(field, s string) error {
	switch {
	case !utf8.ValidString(s):
		return &access.FieldError{Field: field, Rule: "must be UTF-8"}
	case strings.IndexByte(s, 0) >= 0:
		return &access.FieldError{Field: field, Rule: "must not hold a NUL byte"}
	}
	return nil
}
