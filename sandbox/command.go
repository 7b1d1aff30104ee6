package sandbox

import (
	"fmt"
	"io"
	"time"
)

// Cmd says what to start.
type Cmd struct {
	// Argv is the program and its arguments, never read by a shell. Required, unless there is a Script.
	Argv []string
	// Script is read by the sandbox's POSIX shell, as it stands: it is part of
	// no other command, so that nothing need be quoted, and leaves Stdin to what
	// it runs. Argv are then its parameters, $1 and so on, and may be none. Nothing
	// looks at it before the shell does, whose verdict on what it can't read is a result like any other.
	// It holds no NUL byte. Where there is no shell, ErrUnsupported.
	Script string
	// Dir is where it starts; empty is the working directory, a relative path starts there.
	Dir string
	// Env are variables, "NAME=value", beside those the sandbox gives every
	// process. A later one wins. The host's own environment is never passed on.
	Env []string
	// ClearEnv: the process has the variables of Env and no others, not even
	// those that the sandbox gives every process. Only PWD may say where it starts, and names that
	// begin with BUNKROOM_ be there, by which a provider finds its processes again. Without a PATH
	// programs are looked for where they usually are.
	ClearEnv bool
	// Stdin is read until it ends; nil is an empty input, already ended.
	Stdin io.Reader
	// Timeout stops the process after this long; 0 = no limit of its own.
	Timeout time.Duration
	// KillGrace is how long a process that is being stopped has between the
	// request to end and the kill; 0 means [DefaultKillGrace].
	KillGrace time.Duration
	// OutputLimit is how many bytes of output are kept for replay; older ones
	// are dropped and reported as a gap. 0 means [DefaultOutputLimit]. A
	// process is never held up by output that nobody reads.
	OutputLimit int64
	// Detached: the process outlives ctx and this handle, at most until the
	// machine is destroyed. Where a provider can't, ErrUnsupported.
	Detached bool
	// Tag names whom the process, with all that it starts, belongs to, for a
	// [Reaper]; empty is nobody. Letters, digits, '-', '_' and '.', at most 64 of them.
	Tag string
	// Limits are what it may use at most.
	Limits Limits
}

// Limits are what a command, and all that it starts, may use at most. A zero is
// no limit. Each has one meaning, which its name and its text say: a provider
// that can't hold a limit in this meaning refuses it with a [*LimitError],
// which is ErrUnsupported, and never holds another in its place. Which it can is in [Caps].Limits.
type Limits struct {
	// ProcessCPUTime is how much processor time any one process may use in all,
	// in whole seconds. One that uses more is ended: at once, or where it wants
	// to end by itself after one second more.
	ProcessCPUTime time.Duration
	// ProcessMemory is the address space that any one process may have, in
	// bytes, be it in use or not. One that asks for more is refused it.
	ProcessMemory int64
	// ProcessFileSize is how large a file any one process may make, in bytes. One that writes more is ended or refused it.
	ProcessFileSize int64
	// TreeCPU is how many processors' time the command and all that it has
	// started may use together at any time, in thousandths of one: 1500 = one and a half. More makes them slower.
	TreeCPU int64
	// TreeMemory is how much memory they may use together, in bytes. With more some or all of them are ended.
	TreeMemory int64
	// TreeProcesses is how many processes and threads they may be together. More can't be started.
	TreeProcesses int64
	// UserProcesses is how many processes and threads the user that the command
	// runs as may have, in this sandbox and whatever started them. More can't be started.
	UserProcesses int64
}

// LimitSet is a set of the fields of [Limits], and of the limits in [Spec].
type LimitSet uint8

// The limits.
const (
	LimitProcessCPUTime LimitSet = 1 << iota
	LimitProcessMemory
	LimitProcessFileSize
	LimitTreeCPU
	LimitTreeMemory
	LimitTreeProcesses
	LimitUserProcesses
	LimitMachineDisk
)

// CheckTag refuses, with ErrInvalid, what can't be a [Cmd].Tag. No tag can.
func CheckTag(tag string) error {
	ok := len(tag) <= 64
	for _, c := range []byte(tag) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return fmt.Errorf("%w: Tag %q must be at most 64 letters, digits, dashes, underscores or dots", ErrInvalid, tag)
	}
	return nil
}

// Defaults of Cmd.
const (
	DefaultKillGrace   = 2 * time.Second
	DefaultOutputLimit = 1 << 20
)

// fields are the fields of l, in their order.
func (l Limits) fields() []limitField {
	return []limitField{
		{"ProcessCPUTime", LimitProcessCPUTime, int64(l.ProcessCPUTime)},
		{"ProcessMemory", LimitProcessMemory, l.ProcessMemory},
		{"ProcessFileSize", LimitProcessFileSize, l.ProcessFileSize},
		{"TreeCPU", LimitTreeCPU, l.TreeCPU},
		{"TreeMemory", LimitTreeMemory, l.TreeMemory},
		{"TreeProcesses", LimitTreeProcesses, l.TreeProcesses},
		{"UserProcesses", LimitUserProcesses, l.UserProcesses},
	}
}

type limitField struct {
	name string
	of   LimitSet
	max  int64
}

// CheckLimits refuses, naming the first that is wrong, limits that are
// negative or no whole seconds (ErrInvalid), and those not in held (a [*LimitError]).
func CheckLimits(l Limits, held LimitSet) error {
	for _, f := range l.fields() {
		switch {
		case f.max < 0:
			return fmt.Errorf("%w: Limits.%s must not be negative", ErrInvalid, f.name)
		case f.max > 0 && held&f.of == 0:
			return &LimitError{Limit: f.name}
		}
	}
	if l.ProcessCPUTime%time.Second != 0 {
		return fmt.Errorf("%w: Limits.ProcessCPUTime must be whole seconds", ErrInvalid)
	}
	return nil
}

// CheckSpec refuses the limits of s that are negative (ErrInvalid) or not in held (a [*LimitError]).
func CheckSpec(s Spec, held LimitSet) error {
	switch {
	case s.MachineDisk < 0:
		return fmt.Errorf("%w: Spec.MachineDisk must not be negative", ErrInvalid)
	case s.MachineDisk > 0 && held&LimitMachineDisk == 0:
		return &LimitError{Limit: "MachineDisk"}
	}
	return nil
}

// LimitError says that a provider can't hold a limit in the meaning it has. It
// matches ErrUnsupported. Nothing was started or made.
type LimitError struct {
	Limit string // the field of Limits, or of Spec
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%v: the limit %s can't be held here", ErrUnsupported, e.Limit)
}

func (e *LimitError) Unwrap() error { return ErrUnsupported }

// Problem is the same for every limit.
func (e *LimitError) Problem() (status int, code, sentence string) {
	return 501, "limit_unsupported", "This kind of sandbox can't hold one of the limits that were asked for."
}
