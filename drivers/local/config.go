package local

import (
	"fmt"
	"log/slog"
)

// name is the provider's name in stored rows.
const name = "local"

// Config says where a provider keeps its machines and how it confines them.
type Config struct {
	// Root is the directory that holds everything. Required; it is made
	// absolute, and created with mode 0700 where it isn't there. It must not
	// lie below a directory that sandboxes see (/usr, and System).
	Root string
	// Unconfined runs commands as ordinary processes of the host, without any
	// confinement. See the package comment.
	Unconfined bool
	// Bwrap is the path of the bubblewrap program, 0.8 or later; empty looks for bwrap on PATH.
	Bwrap string
	// System are further directories of the host that confined processes see,
	// read-only, at the same path; /usr and what belongs to it they always see.
	// Toolchains outside /usr go here. What a sandbox has of its own, such as /tmp and /etc, can't be had from the host.
	System []string
	// UIDs are user ids of the host, and group ids of the same numbers, that
	// nobody else has, also no other root's machines: each machine's processes run as one of
	// them from when it is first attached, so that machines can do nothing to each other even where their confinement has a hole, and
	// UserProcesses is held ([sandbox.Limits]). For a host that runs as root, sandboxes that are confined,
	// Linux 5.12 or later and a file system below Root that can be mounted with other owners (ext4, xfs, btrfs;
	// tmpfs since 6.3). There must be as many as machines at a time. Zero: all run as the host's own user.
	//
	// On disk all files belong to the host's own user, whichever id a machine has, so
	// that a root directory can be used with UIDs and without; and so Root must stay closed to all others,
	// as it is made: a program in it may be set-user-id, and be root's. Of what is bound,
	// the host's own files are the machine's; where a file system can't be mounted so, as
	// with FUSE, the machine's user must be let into it by its own means (allow_other).
	UIDs UIDRange
	// Cgroup is the directory of a cgroup (v2) that holds no process itself,
	// such as /sys/fs/cgroup/system.slice/myapp.service/sandboxes, and is
	// delegated to the user the host runs as, with that which the host itself
	// is in below the same one (systemd: Delegate=yes and DelegateSubgroup). In it each command
	// gets one of its own that has a limit of its tree. Empty: TreeCPU and TreeMemory
	// are refused, and so is TreeProcesses where the host is in no cgroup of the
	// controller pids of v1 in which it can make others. See [sandbox.Limits].
	Cgroup string
	// Proxy says how what restricted machines may reach is reached; see [Provider.Restrict].
	Proxy Proxy
	// Log receives what goes wrong behind the caller's back; nil discards it.
	Log *slog.Logger
}

// UIDRange is the user ids First, First+1 and so on, Count of them.
type UIDRange struct{ First, Count int }

// ConfinementError says that sandboxes can't be confined on this host, and
// that [Config].Unconfined was not asked for.
type ConfinementError struct {
	// Bwrap is the path of the bubblewrap program that was tried, empty where none was found.
	Bwrap string
	// Err is what went wrong.
	Err error
}

func (e *ConfinementError) Error() string {
	if e.Bwrap == "" {
		return fmt.Sprintf("local: sandboxes can't be confined: %v", e.Err)
	}
	return fmt.Sprintf("local: sandboxes can't be confined with %s: %v", e.Bwrap, e.Err)
}

func (e *ConfinementError) Unwrap() error { return e.Err }

// Problem is the same for every host.
func (e *ConfinementError) Problem() (status int, code, sentence string) {
	return 501, "confinement_unavailable", "This host can't confine sandboxes."
}
