// Package local provides sandboxes on this machine: real processes and real
// files under one root directory.
//
// A machine is a directory. Confined, which is the default, its processes run
// under bubblewrap: they see the system's programs read-only, the machine's
// own files and nothing else of the host, and all processes of a machine see
// each other. The working directory is /workspace, what a handle binds
// appears below /workspace-agent, or as /workspace itself, for the processes of that handle, /tmp is
// the machine's own and lasts as long as it does. No program
// gives them privileges (no-new-privs), and a filter (seccomp) denies the system calls that no work
// in a sandbox needs: to mount, to make or enter namespaces, to look into other processes, to load
// code into the kernel, to set the clock and such. There are filters for amd64 and arm64; on others
// sandboxes can't be confined.
//
// What confinement promises, and what
// it does not, is in docs/threat-model.md, with the tests that show it.
//
// The network is the host's, until [Provider.Restrict] gives a machine rules. From then on
// it has a network of its own, of which its processes share the loopback; what the rules
// allow is reached through a proxy at 127.0.0.1:3128, which http_proxy, https_proxy, all_proxy and the
// same in capitals name, and by nothing else: a program that knows no proxy reaches
// nobody. The proxy resolves names, checks what it is about to connect to, and takes HTTP and CONNECT; it
// opens no TLS. It ends with the process of the host that began the machine's init. Other rules
// end what runs in the machine. All this needs CAP_SYS_ADMIN, as root has; without it, and unconfined, Restrict is sandbox.ErrUnsupported.
//
// Unconfined ([Config].Unconfined), processes are ordinary processes of the
// host and paths are the host's: to run a command is to have access to the
// host, and Caps say so. It is for trusted code, for tests, and for systems without bubblewrap.
//
//	provider, err := local.New(local.Config{Root: "/var/lib/myapp/sandboxes"})
//
// What lasts: the files, over restarts of the process and of the host.
// The first process that is started in a confined machine begins its init, which ends when
// nothing has run there for half a minute: a machine that is only attached has no process and no goroutine. Confined
// processes end when the process of the host ends that began their init, however it
// ends; unconfined ones that are Detached, or whose host process was
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
// What commands may use ([sandbox.Limits]): what a limit of one process bounds
// is held by the kernel's own limit of processes (RLIMIT_CPU, RLIMIT_AS, RLIMIT_FSIZE),
// which is set before the program begins, and that children inherit. Its processor time a process is asked to
// respect by SIGXCPU, and is killed a second later. UserProcesses is RLIMIT_NPROC, and held only where the
// kernel counts the processes of each sandbox apart: confined, and not as root, whom it doesn't count.
// What bounds a command with all it has started is held by a cgroup that it has for itself, where cgroups can be made;
// see [Config].Cgroup. All others are refused, and the bound of a machine's disk ([sandbox.Spec].MachineDisk) always: give the root
// directory a file system of its own. Unconfined, who has root's privileges can raise every one of them, and a
// program with privileges of its own, such as sudo, is not started with any.
//
// What a file was when it was read: its ETag is made of what the kernel keeps
// of it, its number, its size and its times. The kernel's clock goes in ticks
// of some milliseconds, so the ETag of a file that a process has written in this very tick is told once
// that is over; a file written through an FS has an exact time and need not wait. Where
// a file system keeps whole seconds, a file has no ETag while it is younger than two. What a
// process writes through a mapping of its memory the kernel may notice late.
//
// Who writes with [sandbox.CreateOptions].IfMatch holds a lock while it looks and replaces, and
// every other Create, Rename and Remove of a file through an FS waits for that. Processes don't: what they write at
// this very moment may be replaced. The locks are on a file in the root directory. Confined,
// nothing inside can see it, and so nothing can hold up a writer or pass for one; locks on the sandbox's own
// files and directories play no part. They hold between all handles, providers and processes
// of the host that share the root directory: a folder that is bound by providers of different roots is not
// protected from one by the other.
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
// of the host may take it for root, unless each machine has a user of its own ([Config].UIDs).
package local
