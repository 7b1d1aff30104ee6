package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"gocloud.dev/gcerrors"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/mount"
)

// The outcomes, wrapped with the path; compare with errors.Is. Where the
// storage itself fails, errors are mount.ErrUnavailable and may be retried.
var (
	// ErrNotFound: there is nothing at that path.
	ErrNotFound = access.NewSentinel("files: not found", 404, "not_found", "Not found.")
	// ErrIncomplete: the body was shorter or longer than announced. Nothing was written.
	ErrIncomplete = access.NewSentinel("files: the body has another length than announced", 400, "incomplete_body", "The upload did not have the announced length.")
	// ErrLengthRequired: an attachment's size has to be known before its body is read.
	ErrLengthRequired = access.NewSentinel("files: length required", 411, "length_required", "The size of the upload must be given.")
	// ErrKeyReused: the idempotency key stands for another attachment.
	ErrKeyReused = access.NewSentinel("files: idempotency key reused", 409, "idempotency_key_reused", "This idempotency key was used for another upload.")
	// ErrExpired: the upload took longer than it may. Nothing was kept.
	ErrExpired = access.NewSentinel("files: upload expired", 409, "upload_expired", "The upload took too long. Start it again.")
)

// PathError is a path that can't be one.
type PathError struct {
	Path string
	Rule string // what is wrong with it
}

func (e *PathError) Error() string { return fmt.Sprintf("files: path %q %s", e.Path, e.Rule) }

// Problem says that the path is not valid.
func (e *PathError) Problem() (status int, code, sentence string) {
	return 422, "invalid_path", "This is not a valid path here."
}

// ConflictError says that a condition was not met. Nothing was written.
type ConflictError struct {
	Path string
	// ETag is the present one; empty where there is no file, or there is
	// something that has none.
	ETag string
	// Exists: it was to be made new and is there. Otherwise it is not as it was.
	Exists bool
}

func (e *ConflictError) Error() string {
	if e.Exists {
		return fmt.Sprintf("files: %q exists (etag %s)", e.Path, e.ETag)
	}
	return fmt.Sprintf("files: %q has changed (etag %s)", e.Path, e.ETag)
}

// Problem tells what exists from what has changed.
func (e *ConflictError) Problem() (status int, code, sentence string) {
	if e.Exists {
		return 409, "exists", "There is something with this name already."
	}
	return 412, "precondition_failed", "The file has changed since it was read."
}

// TooLargeError says that a limit was exceeded.
type TooLargeError struct {
	Path  string
	Limit int64
	Unit  string // of Limit: "bytes" or "files"
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("files: %q has more than %d %s", e.Path, e.Limit, e.Unit)
}

// Problem says that it is too much.
func (e *TooLargeError) Problem() (status int, code, sentence string) {
	return 413, "too_large", "This is larger than allowed."
}

// UnsupportedError says that the bucket can't keep what was asked, so that
// nothing was tried.
type UnsupportedError struct {
	What string // "IfMatch", "IfAbsent"
}

func (e *UnsupportedError) Error() string { return "files: this bucket can't do " + e.What }

// Problem says that the storage can't do it.
func (e *UnsupportedError) Problem() (status int, code, sentence string) {
	return 501, "unsupported", "This storage can't do that."
}

// PartialError says that an operation on many files was not done to all of
// them. Its report names those that failed.
type PartialError struct {
	Path   string
	Report Report
	Cause  error // why it ended early; nil where it went through all
}

func (e *PartialError) Error() string {
	s := fmt.Sprintf("files: %q: %d done, %d failed", e.Path, e.Report.Done, e.Report.Failed)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *PartialError) Unwrap() error { return e.Cause }

// Problem says that some files are left.
func (e *PartialError) Problem() (status int, code, sentence string) {
	return 503, "partly_done", "Some of the files could not be changed. Try again."
}

// QuotaError says that a session has as many attachments as it may.
type QuotaError struct {
	What  string // "files", "bytes", "pending"
	Limit int64
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("files: attachments: at most %d %s", e.Limit, e.What)
}

// Problem says that there are too many.
func (e *QuotaError) Problem() (status int, code, sentence string) {
	return 429, "attachment_limit", "There are too many attachments here."
}

// InFlightError says that an upload with the same idempotency key is under way.
type InFlightError struct {
	RetryAfter time.Duration // when it is over at the latest
}

func (e *InFlightError) Error() string {
	return fmt.Sprintf("files: the same upload is in flight; retry within %v", e.RetryAfter)
}

// Problem says that it is under way.
func (e *InFlightError) Problem() (status int, code, sentence string) {
	return 409, "upload_in_flight", "The same upload is still under way."
}

// fault is a failure of the bucket at a path, in the words of this package.
func fault(verb, path string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("files: %s %q: %w", verb, path, err)
	case isNotFound(err):
		return notFound(verb, path)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return &PathError{Path: path, Rule: "has a name that is too long for this storage"}
	case errors.Is(err, fs.ErrInvalid):
		return fmt.Errorf("%w: %w", &PathError{Path: path, Rule: "has a name that this storage can't have"}, err)
	}
	return fmt.Errorf("%w: %s %q: %w", mount.ErrUnavailable, verb, path, err)
}

func notFound(verb, path string) error { return fmt.Errorf("%w: %s %q", ErrNotFound, verb, path) }

// isNotFound reports whether a bucket, or this package, says that nothing is
// there. Where a bucket is a tree of files, that is also what it says of a path
// below a file.
func isNotFound(err error) bool {
	return err != nil && (gcerrors.Code(err) == gcerrors.NotFound || errors.Is(err, ErrNotFound) || errors.Is(err, syscall.ENOTDIR))
}
