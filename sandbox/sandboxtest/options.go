package sandboxtest

import (
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Options says what the provider under test has, in the few things that may
// differ. The zero value has files only.
type Options struct {
	// Spec is what machines are asked for.
	Spec sandbox.Spec
	// Commands are the commands the sandbox can run, by their meaning. A nil
	// entry says that there is none, and leaves out the checks that need it.
	// Where all are nil, Start must answer ErrUnsupported.
	Commands Commands
	// Shell is what is put before a script to have a POSIX shell read it,
	// such as {"sh", "-c"}. Scripts use sleep, cat, awk, ln, dd, env and stty beside what is built in. nil = no shell.
	Shell []string
	// Scripts: Cmd.Script is read by a shell such as Shell. Otherwise Start must answer ErrUnsupported to it.
	Scripts bool
	// Binds: the sandbox is a Binder. Otherwise As must not find one.
	Binds bool
	// BindsWorkdir: a directory can be bound at the working directory, and the Caps say so. Otherwise they must not.
	BindsWorkdir bool
	// Links: the sandbox is a Symlinker. Otherwise As must not find one.
	Links bool
	// Attrs: the sandbox is an AttrSetter. Otherwise As must not find one.
	Attrs bool
	// ETags: files have an ETag. Otherwise it must be empty.
	ETags bool
	// Streams: a file is written and read without being held in the memory of this process.
	Streams bool
	// Watches: the sandbox is a Watcher. Otherwise As must not find one.
	Watches bool
	// WatchesBound: it watches what is bound too. Otherwise to watch that must be ErrUnsupported.
	WatchesBound bool
	// Lists: the provider is a Lister. Otherwise As must not find one.
	Lists bool
	// Reaps: the provider is a Reaper. Otherwise As must not find one.
	Reaps bool
	// Measures: the provider is a Measurer, and its machines' files can have
	// holes where there is a Shell to make them. Otherwise As must not find one.
	Measures bool
	// Guards: the provider restricts networks, and the Caps say so. Otherwise
	// they must not, and a Guard that As finds must refuse every machine.
	Guards bool
	// ProcessesSeeFiles: processes and the FS work on the same files.
	ProcessesSeeFiles bool
	// Detached: processes can be Detached. Otherwise Start must answer ErrUnsupported to it.
	Detached bool
	// Limits are those of Cmd.Limits, and of Spec, that are held, as the Caps say. All others must be refused by name.
	Limits sandbox.LimitSet
	// Processes: the sandbox is a ProcessLister. Otherwise As must not find one.
	Processes bool
	// Terminals: the sandbox is a TerminalStarter, and there is a Shell. Otherwise As must not find one.
	Terminals bool
	// Patience is how long something that must happen may take; 0 means 20 seconds.
	Patience time.Duration
}

func (o *Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 20 * time.Second
}
