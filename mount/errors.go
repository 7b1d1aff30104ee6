package mount

import (
	"fmt"

	"github.com/bunkroom/bunkroom/access"
)

// The outcomes, wrapped with the subject; compare with errors.Is.
var (
	// ErrNotFound: there is no such mount in the scope.
	ErrNotFound = access.NewSentinel("mount: not found", 404, "not_found", "Not found.")
	// ErrTaken: the name stands for another agent's folder. It takes two agent
	// ids made to collide; the folder stays with the agent that had it first.
	ErrTaken = access.NewSentinel("mount: belongs to another agent", 409, "mount_taken", "This folder is not available.")
	// ErrUnavailable: the storage of the folder can't be reached or used. Nothing is lost; retry later.
	ErrUnavailable = access.NewSentinel("mount: storage unavailable", 503, "mount_unavailable", "The folder's storage can't be reached right now. Try again shortly.")
)

// MountError says that a folder that is required could not be carried into the
// sandbox. Everything that was done for it has been undone.
type MountError struct {
	// Outcome is the failed one: its State is Skipped or Failed.
	Outcome Outcome
}

func (e *MountError) Error() string {
	subject := "required folder"
	if id := e.Outcome.Row.ID; id != "" { // else not even the row was had
		subject += " " + string(id)
	}
	return fmt.Sprintf("mount: %s %v: %v", subject, e.Outcome.State, e.Outcome.Cause)
}

// Unwrap returns the outcome's cause.
func (e *MountError) Unwrap() error { return e.Outcome.Cause }

// Problem tells a folder that this kind of sandbox can't have from one that a retry may bring.
func (e *MountError) Problem() (status int, code, sentence string) {
	if e.Outcome.State == Skipped {
		return 501, "folder_unsupported", "This kind of sandbox can't have the agent's durable folder."
	}
	return 503, "folder_unavailable", "The agent's durable folder is not available right now. Try again shortly."
}
