package mount

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes, wrapped with the subject; compare with errors.Is.
var (
	// ErrNotFound: there is no such mount, or none that the actor may know of.
	ErrNotFound = access.NewSentinel("mount: not found", 404, "not_found", "Not found.")
	// ErrExists: a mount with that slug is there already, be it in the archive.
	ErrExists = access.NewSentinel("mount: exists", 409, "mount_exists", "There is a folder of this name already.")
	// ErrTaken: the name stands for the folder of another agent or session. It
	// takes two ids made to collide; the folder stays with whose it was first.
	ErrTaken = access.NewSentinel("mount: belongs to another", 409, "mount_taken", "This folder is not available.")
	// ErrUndecided: the host could not say what the actor may. Nothing has changed; retry later.
	ErrUndecided = access.NewSentinel("mount: access could not be decided", 503, "unavailable", "This can't be looked up right now. Try again shortly.")
	// ErrTakenOver: the lock of a folder that one at a time may write to was
	// lost, be it to another or because it could not be renewed in time.
	ErrTakenOver = access.NewSentinel("mount: folder taken over", 409, "folder_taken_over", "Somebody else works in this folder now.")
	// ErrUnavailable: the storage of the folder can't be reached or used. Nothing is lost; retry later.
	ErrUnavailable = access.NewSentinel("mount: storage unavailable", 503, "mount_unavailable", "The folder's storage can't be reached right now. Try again shortly.")
)

// VersionError says that somebody else has changed a mount since it was read: read it again.
type VersionError struct {
	Mount            ID
	Expected, Actual int64
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("mount: %s has version %d, expected %d", e.Mount, e.Actual, e.Expected)
}

// Problem does not depend on who was faster.
func (e *VersionError) Problem() (status int, code, sentence string) {
	return 409, "conflict", "Somebody else has changed this folder meanwhile. Look at it again."
}

// MountError says that a folder that is required could not be carried into the
// sandbox. Everything that was done for it has been undone.
type MountError struct {
	// Outcome is the failed one: its State is Skipped or Failed.
	Outcome Outcome
}

func (e *MountError) Error() string {
	subject := "required folder"
	if e.Outcome.Mode == Exclusive {
		subject = "working directory"
	}
	if id := e.Outcome.Row.ID; id != "" { // else not even the row was had
		subject += " " + string(id)
	}
	return fmt.Sprintf("mount: %s %v: %v", subject, e.Outcome.State, e.Outcome.Cause)
}

// Unwrap returns the outcome's cause.
func (e *MountError) Unwrap() error { return e.Outcome.Cause }

// Problem tells a folder that this kind of sandbox can't have from one that a
// retry may bring, and a session's working directory from an agent's folder.
func (e *MountError) Problem() (status int, code, sentence string) {
	if e.Outcome.Mode == Exclusive {
		if e.Outcome.State == Skipped {
			return 501, "workdir_unsupported", "This kind of sandbox can't have a durable working directory."
		}
		return 503, "workdir_unavailable", "The session's working directory is not available right now. Try again shortly."
	}
	if e.Outcome.State == Skipped {
		return 501, "folder_unsupported", "This kind of sandbox can't have the agent's durable folder."
	}
	return 503, "folder_unavailable", "The agent's durable folder is not available right now. Try again shortly."
}
