package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// Retry says whether it is of use to do the same again.
type Retry uint8

// The answers.
const (
	RetryUnknown     Retry = iota // nobody can say; where the outcome is unknown too, only what does no harm done twice
	RetryNo                       // it will fail again
	RetryYes                      // later, as it is
	RetryAfterChange              // once something else has changed: what was read is read again, a handle had anew, a name freed
)

func (r Retry) String() string {
	switch r {
	case RetryNo:
		return "no"
	case RetryYes:
		return "yes"
	case RetryAfterChange:
		return "after change"
	}
	return "unknown"
}

// Failure is what an error means to who has to go on from it.
type Failure struct {
	// Kind is a stable word for APIs and metrics, in small letters with underscores; "unknown" where nothing is known.
	Kind string
	// Retry says whether to do the same again helps.
	Retry Retry
	// OutcomeUnknown: what was asked for may have been done, or may yet be.
	OutcomeUnknown bool
	// RetryAfter is how long to wait before; 0 where nobody said.
	RetryAfter time.Duration
}

// Classify tells what an error of a [Provider], a [Sandbox] or an [FS] means.
// It knows the errors of this package, of package access, of files and
// contexts, however they are wrapped, and of several the one that says most. Any other
// has the kind "unknown", and an unknown outcome. Of nil it is the zero Failure.
func Classify(err error) Failure {
	if err == nil {
		return Failure{}
	}
	var making *ProvisioningError
	var failing *AttemptsError
	var lost *LostError
	var denied *access.DeniedError
	var field *access.FieldError
	var archive *TarLimitError
	switch {
	case errors.As(err, &making):
		return Failure{Kind: "sandbox_starting", Retry: RetryYes, RetryAfter: making.RetryAfter}
	case errors.As(err, &failing):
		return Failure{Kind: "sandbox_not_started", Retry: RetryYes, RetryAfter: failing.RetryAfter}
	case errors.As(err, &lost):
		return Failure{Kind: "sandbox_lost", Retry: RetryAfterChange}
	case errors.As(err, &denied):
		return Failure{Kind: "denied_access", Retry: RetryNo}
	case errors.As(err, &archive):
		return Failure{Kind: "too_large", Retry: RetryNo}
	case errors.As(err, &field):
		return Failure{Kind: "invalid_argument", Retry: RetryNo}
	}
	for _, k := range kinds() {
		if errors.Is(err, k.of) {
			if about := (*fs.PathError)(nil); k.is.Kind == "invalid_argument" && errors.As(err, &about) {
				k.is.Kind = "invalid_path"
			}
			return k.is
		}
	}
	return Failure{Kind: "unknown", OutcomeUnknown: true}
}

type kind struct {
	of error
	is Failure
}

// kinds are all kinds, what says most first: where an error matches two, as
// that of a full directory matches fs.ErrExist, the first holds.
func kinds() []kind {
	no := func(kind string) Failure { return Failure{Kind: kind, Retry: RetryNo} }
	later := func(kind string) Failure { return Failure{Kind: kind, Retry: RetryYes} }
	changed := func(kind string) Failure { return Failure{Kind: kind, Retry: RetryAfterChange} }
	ended := func(kind string) Failure { return Failure{Kind: kind, Retry: RetryNo, OutcomeUnknown: true} }
	return []kind{
		{ErrLost, Failure{Kind: "outcome_unknown", OutcomeUnknown: true}},
		{ErrUnsupported, no("unsupported")}, // a LimitError too
		{ErrNotSent, later("transport")},
		{ErrStarting, later("sandbox_starting")},
		{ErrUnavailable, later("sandbox_unavailable")},
		{ErrGone, no("sandbox_not_found")},
		{ErrStale, no("stale_incarnation")},
		{ErrWrongHost, changed("wrong_host")},
		{ErrAsleep, changed("sandbox_asleep")},
		{ErrClosed, changed("handle_closed")},
		{ErrEnded, changed("sandbox_ended")},
		{ErrWorking, changed("sandbox_busy")},
		{ErrNotAllowed, changed("transition_conflict")},
		{ErrOutputLost, no("output_lost")},
		{ErrNoProcess, no("process_gone")},
		{ErrPrecondition, changed("precondition")},
		{ErrTooManyWatches, changed("too_many_watches")},
		{ErrArchive, no("corrupt")},

		{syscall.ENOSPC, changed("no_space")},
		{syscall.EDQUOT, changed("quota")},
		{syscall.EFBIG, no("too_large")},
		{syscall.EMFILE, later("no_resources")}, // files, processes or memory of a host, which come free again
		{syscall.ENFILE, later("no_resources")},
		{syscall.EAGAIN, later("no_resources")},
		{syscall.ENOMEM, later("no_resources")},

		{ErrNotStarted, no("start_failed")},
		{ErrEscapes, no("escapes_root")},
		{ErrIsDir, no("is_dir")},
		{ErrNotDir, no("not_dir")},
		{ErrNotEmpty, no("not_empty")},
		{ErrNotLink, no("not_link")},
		{ErrCrossDevice, no("cross_device")},
		{ErrInvalid, no("invalid_argument")},

		{syscall.EISDIR, no("is_dir")},
		{syscall.ENOTDIR, no("not_dir")},
		{syscall.ENOTEMPTY, no("not_empty")},
		{syscall.EXDEV, no("cross_device")},
		{syscall.ENAMETOOLONG, no("name_too_long")},
		{syscall.ELOOP, no("loop")},
		{syscall.EROFS, no("read_only")},
		{fs.ErrNotExist, no("not_exist")},
		{fs.ErrExist, no("exist")},
		{fs.ErrPermission, no("permission")},
		{fs.ErrInvalid, no("invalid_argument")},
		{fs.ErrClosed, changed("handle_closed")},

		{context.Canceled, ended("cancelled")},
		{context.DeadlineExceeded, ended("timeout")},
		{os.ErrDeadlineExceeded, ended("timeout")},
	}
}
