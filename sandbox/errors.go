package sandbox

import (
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes of providers and handles. They are wrapped with the subject; compare with errors.Is.
var (
	// ErrUnsupported: the provider can't do this at all. It never means "could not find out".
	ErrUnsupported = access.NewSentinel("sandbox: unsupported", 501, "unsupported", "This kind of sandbox can't do that.")
	// ErrInvalid: an argument is not allowed here; the text says which. Nothing was done.
	ErrInvalid = access.NewSentinel("sandbox: invalid argument", 400, "invalid_argument", "The sandbox can't accept this argument.")
	// ErrClosed: the handle was closed.
	ErrClosed = access.NewSentinel("sandbox: handle closed", 409, "handle_closed", "The work in this sandbox has ended.")
	// ErrGone: the provider says that it sees no such machine.
	ErrGone = access.NewSentinel("sandbox: machine gone", 410, "machine_gone", "The sandbox's machine is gone.")
	// ErrStale: the name belongs to another incarnation by now.
	ErrStale = access.NewSentinel("sandbox: machine replaced", 410, "machine_replaced", "The sandbox's machine was replaced.")
	// ErrWrongHost: the machine lives on another host. It says nothing about whether it exists.
	ErrWrongHost = access.NewSentinel("sandbox: machine lives on another host", 421, "wrong_host", "This sandbox lives on another host.")
	// ErrAsleep: the machine sleeps, and what was asked would have to wake it.
	ErrAsleep = access.NewSentinel("sandbox: machine asleep", 409, "asleep", "The sandbox is asleep.")
	// ErrNotSent: a Create surely never reached the provider. Retry freely.
	ErrNotSent = access.NewSentinel("sandbox: create not sent", 503, "not_sent", "The sandbox could not be started. Try again.")
	// ErrStarting: the machine exists and is not ready yet. Retry later.
	ErrStarting = access.NewSentinel("sandbox: machine starting", 503, "starting", "The sandbox is starting. Try again shortly.")
	// ErrNotStarted: the process did not start, for a reason in the text that a retry won't change.
	ErrNotStarted = access.NewSentinel("sandbox: process not started", 400, "not_started", "The command could not be started.")
	// ErrLost: the outcome of a process can't be known any more. It may have run.
	ErrLost = access.NewSentinel("sandbox: outcome lost", 502, "outcome_lost", "The command's outcome is not known.")
	// ErrOutputLost: the command has run and how it ended is known, but some of what it wrote is missing.
	ErrOutputLost = access.NewSentinel("sandbox: output lost", 502, "output_lost", "Some of the command's output is missing.")
	// ErrEscapes: the path leads out of the sandbox's files.
	ErrEscapes = access.NewSentinel("sandbox: path escapes", 400, "path_escapes", "The path leads out of the sandbox.")
	// ErrIsDir: the path is a directory.
	ErrIsDir = access.NewSentinel("sandbox: is a directory", 400, "is_a_directory", "The path is a directory.")
	// ErrNotDir: the path is not a directory.
	ErrNotDir = access.NewSentinel("sandbox: not a directory", 400, "not_a_directory", "The path is not a directory.")
	// ErrNotEmpty: the directory has entries.
	ErrNotEmpty = access.NewSentinel("sandbox: directory not empty", 409, "not_empty", "The directory is not empty.")
	// ErrNotLink: the path is not a symbolic link.
	ErrNotLink = access.NewSentinel("sandbox: not a symbolic link", 400, "not_a_link", "The path is not a symbolic link.")
	// ErrPrecondition: the file is not, or no longer, as the caller says.
	ErrPrecondition = access.NewSentinel("sandbox: precondition failed", 412, "precondition_failed", "The file has changed since it was read.")
	// ErrTooManyWatches: this host can't watch any more directories.
	ErrTooManyWatches = access.NewSentinel("sandbox: too many directories watched", 507, "watch_limit", "Too many folders are being watched. Try again later.")
	// ErrNoProcess: there is no such process, or nothing is known of it any more.
	ErrNoProcess = access.NewSentinel("sandbox: no such process", 404, "not_found", "Not found.")
	// ErrArchive: what was to be imported is no archive, or not all of one.
	ErrArchive = access.NewSentinel("sandbox: archive damaged or cut short", 400, "invalid_archive", "The archive is damaged or incomplete.")
	// ErrCrossDevice: a rename between two binds; copy and remove instead.
	ErrCrossDevice = access.NewSentinel("sandbox: rename across binds", 400, "cross_device", "A file can't be renamed across folders of different storage.")
)

// The refusals of [Decide].
var (
	// ErrNotAllowed: the table has no such row. Nothing is written.
	ErrNotAllowed = access.NewSentinel("sandbox: not allowed in this state", 409, "not_allowed", "That is not possible in the sandbox's present state.")
	// ErrEnded: the owner of the sandbox has ended; reopen it first.
	ErrEnded = access.NewSentinel("sandbox: ended", 409, "ended", "The session has ended. Reopen it first.")
	// ErrUnavailable: whether the machine exists could not be established yet. Nothing is changed by it; retry later.
	ErrUnavailable = access.NewSentinel("sandbox: unavailable", 503, "unavailable", "The sandbox can't be reached right now. Try again shortly.")
	// ErrWorking: an idle stop was refused, for somebody is working.
	ErrWorking = access.NewSentinel("sandbox: work in progress", 409, "working", "Somebody is working in the sandbox.")
)

// ProvisioningError says that another caller is having the machine made: wait, never create.
type ProvisioningError struct {
	Sandbox ID
	// RetryAfter is how long the attempt may take at most.
	RetryAfter time.Duration
}

func (e *ProvisioningError) Error() string {
	return fmt.Sprintf("sandbox: %s: machine being made, retry within %v", e.Sandbox, e.RetryAfter)
}

// Problem is the same for every sandbox.
func (e *ProvisioningError) Problem() (status int, code, sentence string) {
	return 503, "provisioning", "The sandbox is being started. Try again shortly."
}

// LostError says that the machine is gone and its files with it. Nothing is
// made in its place until the caller accepts the loss by naming Generation:
// an agent must not wake in an empty directory unawares.
type LostError struct {
	Sandbox    ID
	Generation int64
	// LastSeen is when the machine was last known to be alive; zero where that is not known.
	LastSeen time.Time
}

func (e *LostError) Error() string {
	return fmt.Sprintf("sandbox: %s: machine of generation %d was lost with its files", e.Sandbox, e.Generation)
}

// Problem is the same for every sandbox.
func (e *LostError) Problem() (status int, code, sentence string) {
	return 409, "lost", "The sandbox's machine and its files were lost. Accept the loss to start an empty one."
}

// AttemptsError says that several attempts in a row to have a machine came to
// nothing, and that the next may begin after RetryAfter.
type AttemptsError struct {
	Sandbox    ID
	Attempts   int64
	RetryAfter time.Duration
}

func (e *AttemptsError) Error() string {
	return fmt.Sprintf("sandbox: %s: %d attempts to have a machine failed, retry after %v", e.Sandbox, e.Attempts, e.RetryAfter)
}

// Problem is the same for every sandbox.
func (e *AttemptsError) Problem() (status int, code, sentence string) {
	return 503, "start_failed", "The sandbox could not be started. Try again later."
}
