package mount

// State is what became of a mount that was to be carried into a sandbox.
type State uint8

// The states. The zero State is none of them: nothing was attempted.
const (
	Mounted State = 1 // it is there, and has been listed
	Skipped State = 2 // this host or this kind of sandbox can't have it
	Failed  State = 3 // it should be there and is not
)

func (s State) String() string {
	switch s {
	case Mounted:
		return "mounted"
	case Skipped:
		return "skipped"
	case Failed:
		return "failed"
	}
	return "not attempted"
}

// Outcome is what became of one mount.
type Outcome struct {
	// Row is the mount; zero where not even that was had.
	Row Row
	// Path is where the folder is in the sandbox, or would be: absolute, and
	// empty where that is not known.
	Path  string
	State State
	// Cause says why it is not Mounted; nil where it is. It is for logs, and
	// may name paths of this host. Where Skipped it matches sandbox.ErrUnsupported.
	Cause error
}
