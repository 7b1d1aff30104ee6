// Package sandbox is the IO boundary: everything that happens in a session's
// sandbox, its files and processes, goes through the few interfaces declared
// here, whoever provides the machine.
//
// Three words. A sandbox is a row ([Row]): our record of one isolated place. A
// machine is what a provider runs for it. A generation counts our attempts to
// have a machine; an incarnation is the provider's identity of one that exists.
//
// [Provider] makes, finds and destroys machines; [Sandbox] is a handle on one.
// Powers that not every provider has are one-method interfaces ([Binder],
// [Symlinker], …) found with [As]. What a provider's answers are worth is in its [Caps].
//
// [Decide] is the lifecycle of one machine as a pure function: what may happen
// to the row, and which effect follows once that is committed. It knows nothing of sessions.
//
// A command in a sandbox, in short:
//
//	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"wc", "-l", "go.mod"}}, os.Stdout, os.Stderr)
//
// A command that fails is a result with an exit code, never an error. An error
// means that nothing ran, or that the outcome is unknown.
package sandbox
