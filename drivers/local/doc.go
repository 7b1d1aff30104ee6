// Package local provides sandboxes on this machine: real processes and real
// files under one root directory.
//
// A machine is a directory. Confined, which is the default, its processes run
// under bubblewrap: they see the system's programs read-only, the machine's
// own files and nothing else of the host, and all processes of a machine see
// each other. The working directory is /workspace, what a handle binds
// appears below /workspace-agent, or as /workspace itself, for the processes of that handle, /tmp is
// the machine's own and lasts as long as it does. The network is the host's.
//
// Unconfined ([Config].Unconfined), processes are ordinary processes of the
// host and paths are the host's: to run a command is to have access to the
// host, and Caps say so. It is for trusted code, for tests, and for systems without bubblewrap.
//
//	provider, err := local.New(local.Config{Root: "/var/lib/myapp/sandboxes"})
//
// What lasts: the files, over restarts of the process and of the host.
// Confined processes end when the process that attached the machine first ends, however
// it ends; unconfined ones that are Detached, or whose host process was
// killed, run on until their machine is destroyed.
//
// A terminal ([sandbox.TerminalStarter]) is one of the host's, whose other end
// this process has: with it the terminal ends, and what runs there is sent SIGHUP, Detached or not. Confined it
// controls the program as well, which a shell of the sandbox sees to, and has no name but /dev/console and /dev/tty.
// To stop what is on a terminal it is sent SIGHUP as well, for a shell that somebody types to hears no other request.
//
// Processes are found again ([sandbox.ProcessLister]) by every handle of this
// process of the host, while they run and, of each machine the last 64, for ten minutes after.
// Of those that another process of the host has started, perhaps a dead one, what is Detached
// and runs is found: a small file in the machine's directory says which it is. It can be waited for and ended; its
// outcome, and what it writes, only who started it could tell, and so both are ErrLost. Who writes to a dead process is sent SIGPIPE.
//
// Whose a process is: [Provider.Reap] ends what was started with a tag
// ([sandbox.Cmd].Tag), by whichever process of the host. Confined, nothing
// can shake its tag off: it is in the root directory that a process has for
// itself and all that it starts, which nothing in there can change.
// Unconfined, what the kernel keeps is the limit on file locks (RLIMIT_LOCKS),
// which it does not enforce and which children inherit; each tag has a value
// of its own. Who has no privileges can lower it, and then also has to clear
// its environment and leave its session and its parents, to be missed; who has root's can do as he likes.
// Programs with privileges of their own, such as sudo, would lose them by
// being marked, and some systems forbid it: what is started unmarked is found
// by its environment and its parents alone, and Reap of such a tag is an error
// for as long as the machine lasts.
//
// A script ([sandbox.Cmd].Script) is read by /bin/sh, from a file that is its
// own: confined in the root directory of the process, which only that has,
// unconfined in the machine's directory, until the process has ended. What it runs has nothing of it open.
//
// Several processes may share a root directory, if they run on one host as
// one user and see each other's process ids.
//
// The user the host runs as: an ordinary one is best. A confined process has
// the same user id outside its user namespace. Where that is root's, it has
// none of root's capabilities and sees no file that matters, but a daemon on an abstract socket
// of the host may take it for root.
package local
