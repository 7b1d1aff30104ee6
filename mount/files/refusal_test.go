package files

import (
	"errors"
	"testing"
	"time"
)

func TestRefusalsTell(t *testing.T) {
	for _, c := range []struct {
		err interface {
			error
			Problem() (int, string, string)
		}
		status int
		code   string
	}{
		{ErrNotFound, 404, "not_found"},
		{ErrIncomplete, 400, "incomplete_body"},
		{ErrLengthRequired, 411, "length_required"},
		{ErrKeyReused, 409, "idempotency_key_reused"},
		{ErrExpired, 409, "upload_expired"},
		{&PathError{Path: "a//b", Rule: "is bad"}, 422, "invalid_path"},
		{&ConflictError{Path: "a", ETag: `"1"`}, 412, "precondition_failed"},
		{&ConflictError{Path: "a", ETag: `"1"`, Exists: true}, 409, "exists"},
		{&TooLargeError{Path: "a", Limit: 1, Unit: "bytes"}, 413, "too_large"},
		{&UnsupportedError{What: "IfMatch"}, 501, "unsupported"},
		{&PartialError{Path: "a", Cause: errBroke}, 503, "partly_done"},
		{&QuotaError{What: "files", Limit: 1}, 429, "attachment_limit"},
		{&InFlightError{RetryAfter: time.Second}, 409, "upload_in_flight"},
	} {
		status, code, sentence := c.err.Problem()
		if status != c.status || code != c.code || sentence == "" || c.err.Error() == "" {
			t.Errorf("%v: %d %s %q", c.err, status, code, sentence)
		}
	}
	if !errors.Is(&PartialError{Cause: errBroke}, errBroke) {
		t.Error("the cause of a partial error can't be reached")
	}
}
