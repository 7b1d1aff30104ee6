//go:build linux

package local

import "golang.org/x/sys/unix"

// systemCall is a call that confined processes are denied.
type systemCall struct {
	name         string
	amd64, arm64 int  // its number; none where it is not there
	missing      bool // it is denied as if the kernel had no such call

	test   condition // what it is denied with
	arg    int       // the argument that is looked at, of which the lower half counts
	value  uint32
	values []uint32 // of noneOf
}

const none = -1

// condition is what is asked of an argument.
type condition uint8

const (
	always condition = iota
	equals           // it is the value
	anyBit           // it has a bit of the value
	noneOf           // it is none of the values
)

// newNamespaces are the flags by which namespaces are made. CLONE_NEWTIME is
// none of clone's: it would be a part of the signal there.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// families are those of sockets that work is done with. The first is none, which the kernel
// says itself. Some of the others lead out of a machine whatever its network is, as
// AF_VSOCK does to the host of a virtual machine, and most are seldom tried.
var families = []uint32{unix.AF_UNSPEC, unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// deniedCalls are the calls that no work in a sandbox needs, and by which
// kernels have been broken, or that act on the whole host. Without privileges most fail anyway; what is
// denied here can't have a fault there.
var deniedCalls = [...]systemCall{
	// What makes others wait who open a file, or change a directory, as the host does. These are asked for most often, and first.
	{name: "fcntl", amd64: 72, arm64: 25, test: equals, arg: 1, value: unix.F_SETLEASE},
	{name: "fcntl", amd64: 72, arm64: 25, test: equals, arg: 1, value: unix.F_SETDELEG},

	// Ways to others.
	{name: "socket", amd64: 41, arm64: 198, test: noneOf, arg: 0, values: families},
	{name: "socketpair", amd64: 53, arm64: 199, test: noneOf, arg: 0, values: families},

	// What is mounted.
	{name: "mount", amd64: 165, arm64: 40},
	{name: "umount2", amd64: 166, arm64: 39},
	{name: "pivot_root", amd64: 155, arm64: 41},
	{name: "open_tree", amd64: 428, arm64: 428},
	{name: "move_mount", amd64: 429, arm64: 429},
	{name: "fsopen", amd64: 430, arm64: 430},
	{name: "fsconfig", amd64: 431, arm64: 431},
	{name: "fsmount", amd64: 432, arm64: 432},
	{name: "fspick", amd64: 433, arm64: 433},
	{name: "mount_setattr", amd64: 442, arm64: 442},
	{name: "open_tree_attr", amd64: 467, arm64: 467},
	{name: "quotactl", amd64: 179, arm64: 60},
	{name: "quotactl_fd", amd64: 443, arm64: 443},
	{name: "swapon", amd64: 167, arm64: 224},
	{name: "swapoff", amd64: 168, arm64: 225},
	{name: "open_by_handle_at", amd64: 304, arm64: 265},

	// Namespaces. What clone3 is to do can't be looked at; who has no clone3 uses clone.
	{name: "unshare", amd64: 272, arm64: 97, test: anyBit, arg: 0, value: newNamespaces | unix.CLONE_NEWTIME},
	{name: "clone", amd64: 56, arm64: 220, test: anyBit, arg: 0, value: newNamespaces},
	{name: "clone3", amd64: 435, arm64: 435, missing: true},
	{name: "setns", amd64: 308, arm64: 268},

	// Other processes.
	{name: "ptrace", amd64: 101, arm64: 117},
	{name: "process_vm_readv", amd64: 310, arm64: 270},
	{name: "process_vm_writev", amd64: 311, arm64: 271},
	{name: "pidfd_getfd", amd64: 438, arm64: 438},

	// The kernel itself.
	{name: "kexec_load", amd64: 246, arm64: 104},
	{name: "kexec_file_load", amd64: 320, arm64: 294},
	{name: "init_module", amd64: 175, arm64: 105},
	{name: "finit_module", amd64: 313, arm64: 273},
	{name: "delete_module", amd64: 176, arm64: 106},
	{name: "bpf", amd64: 321, arm64: 280},
	{name: "perf_event_open", amd64: 298, arm64: 241},
	{name: "userfaultfd", amd64: 323, arm64: 282},
	{name: "io_uring_setup", amd64: 425, arm64: 425},
	{name: "io_uring_enter", amd64: 426, arm64: 426},
	{name: "io_uring_register", amd64: 427, arm64: 427},
	{name: "add_key", amd64: 248, arm64: 217},
	{name: "request_key", amd64: 249, arm64: 218},
	{name: "keyctl", amd64: 250, arm64: 219},
	{name: "modify_ldt", amd64: 154, arm64: none},

	// The host: its clock, its ports, its accounts, its end.
	{name: "settimeofday", amd64: 164, arm64: 170},
	{name: "clock_settime", amd64: 227, arm64: 112},
	{name: "adjtimex", amd64: 159, arm64: 171},
	{name: "clock_adjtime", amd64: 305, arm64: 266},
	{name: "acct", amd64: 163, arm64: 89},
	{name: "iopl", amd64: 172, arm64: none},
	{name: "ioperm", amd64: 173, arm64: none},
	{name: "reboot", amd64: 169, arm64: 142},
	{name: "syslog", amd64: 103, arm64: 116}, // what it has written to its log

	// Keys pressed for somebody else: what is put into a terminal's input, its owner's shell may read.
	{name: "ioctl", amd64: 16, arm64: 29, test: equals, arg: 1, value: unix.TIOCSTI},
	{name: "ioctl", amd64: 16, arm64: 29, test: equals, arg: 1, value: tioclinux},

	// What else may drive a terminal: faults in such drivers, which the kernel loads for who asks.
	{name: "ioctl", amd64: 16, arm64: 29, test: equals, arg: 1, value: unix.TIOCSETD},
}

// tioclinux is the request TIOCLINUX, which can paste into a console.
const tioclinux = 0x541c
