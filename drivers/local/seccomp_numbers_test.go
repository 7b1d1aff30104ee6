//go:build linux && (amd64 || arm64)

package local

import (
	"testing"

	"golang.org/x/sys/unix"
)

type numbered struct {
	name   string
	number int
}

// The numbers in the list are those that the calls have, on the architecture that this runs on.
func TestFilterNumbers(t *testing.T) {
	known := map[string]int{}
	for _, n := range append(onlyHere[:], []numbered{
		{"mount", unix.SYS_MOUNT}, {"umount2", unix.SYS_UMOUNT2}, {"pivot_root", unix.SYS_PIVOT_ROOT}, {"open_tree", unix.SYS_OPEN_TREE},
		{"move_mount", unix.SYS_MOVE_MOUNT}, {"fsopen", unix.SYS_FSOPEN}, {"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT},
		{"fspick", unix.SYS_FSPICK}, {"mount_setattr", unix.SYS_MOUNT_SETATTR}, {"open_tree_attr", unix.SYS_OPEN_TREE_ATTR},
		{"quotactl", unix.SYS_QUOTACTL}, {"quotactl_fd", unix.SYS_QUOTACTL_FD}, {"swapon", unix.SYS_SWAPON}, {"swapoff", unix.SYS_SWAPOFF},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT}, {"unshare", unix.SYS_UNSHARE}, {"clone", unix.SYS_CLONE}, {"clone3", unix.SYS_CLONE3},
		{"setns", unix.SYS_SETNS}, {"ptrace", unix.SYS_PTRACE}, {"process_vm_readv", unix.SYS_PROCESS_VM_READV},
		{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV}, {"pidfd_getfd", unix.SYS_PIDFD_GETFD}, {"kexec_load", unix.SYS_KEXEC_LOAD},
		{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD}, {"init_module", unix.SYS_INIT_MODULE}, {"finit_module", unix.SYS_FINIT_MODULE},
		{"delete_module", unix.SYS_DELETE_MODULE}, {"bpf", unix.SYS_BPF}, {"perf_event_open", unix.SYS_PERF_EVENT_OPEN},
		{"userfaultfd", unix.SYS_USERFAULTFD}, {"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER},
		{"io_uring_register", unix.SYS_IO_URING_REGISTER}, {"add_key", unix.SYS_ADD_KEY}, {"request_key", unix.SYS_REQUEST_KEY},
		{"keyctl", unix.SYS_KEYCTL}, {"settimeofday", unix.SYS_SETTIMEOFDAY}, {"clock_settime", unix.SYS_CLOCK_SETTIME},
		{"adjtimex", unix.SYS_ADJTIMEX}, {"clock_adjtime", unix.SYS_CLOCK_ADJTIME}, {"acct", unix.SYS_ACCT}, {"reboot", unix.SYS_REBOOT},
		{"ioctl", unix.SYS_IOCTL}, {"fcntl", unix.SYS_FCNTL}, {"socket", unix.SYS_SOCKET}, {"socketpair", unix.SYS_SOCKETPAIR}, {"syslog", unix.SYS_SYSLOG},
	}...) {
		known[n.name] = n.number
	}
	for _, c := range deniedCalls {
		want, ok := known[c.name]
		if !ok {
			want = none
		}
		if got := numbers(c); got != want {
			t.Errorf("%s has the number %d, want %d", c.name, got, want)
		}
	}
}
