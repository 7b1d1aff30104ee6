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
	// such as {"sh", "-c"}. Scripts use sleep, cat, awk, ln and dd beside what is built in. nil = no shell.
	Shell []string
	// Binds: the sandbox is a Binder. Otherwise As must not find one.
	Binds bool
	// BindsWorkdir: a directory can be bound at the working directory, and the Caps say so. Otherwise they must not.
	BindsWorkdir bool
	// Links: the sandbox is a Symlinker. Otherwise As must not find one.
	Links bool
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
	// ProcessesSeeFiles: processes and the FS work on the same files.
	ProcessesSeeFiles bool
	// Detached: processes can be Detached. Otherwise Start must answer ErrUnsupported to it.
	Detached bool
	// Patience is how long something that must happen may take; 0 means 20 seconds.
	Patience time.Duration
}

func (o *Options) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return 20 * time.Second
}
