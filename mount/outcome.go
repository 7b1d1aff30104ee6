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
	// empty where that is not known. It is made of the sandbox's working directory, the agent's name
	// and the mount's id, and of nothing that this host or process has: after a restart the
	// same mount is at the same path. It is good for this work. With another name of the agent, in a sandbox whose working
	// directory is elsewhere, or where another mount whose id ends alike came first, it is another: who
	// stores where a file is stores Row.ID and the path below Path.
	Path  string
	State State
	// Mode is Exclusive where one sandbox at a time writes to the folder, and Epoch then
	// counts who has held it.
	Mode  Mode
	Epoch int64
	// Fenced says of an Exclusive folder that nothing an earlier holder wrote
	// can land any more. False: one at a time is let in, but what serves the folder knows nothing of
	// its lock (geesefs), so that what it had under way when the lock was lost may land late.
	Fenced bool
	// Cause says why it is not Mounted; nil where it is. It is for logs, and
	// may name paths of this host. Where Skipped it matches sandbox.ErrUnsupported.
	Cause error
}
