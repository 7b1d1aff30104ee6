package sandbox

import (
	"context"
	"iter"
	"time"
)

// Process is one started process with all that it has started in turn.
type Process interface {
	// ID identifies the process within its machine.
	ID() string
	// Output replays the output from byte offset from (both streams count as
	// one, in the order they arrived) and then follows it until it ends. What
	// was dropped shows as Chunk.Lost. Chunks are the caller's to keep. Each
	// call has its own position; ctx ends only this reading.
	Output(ctx context.Context, from int64) iter.Seq2[Chunk, error]
	// Wait returns how the process ended, once it has ended and its output is
	// complete. A child that holds the output open delays that by no more
	// than [DrainLimit]. Any number of callers may wait, before and after. An error means that the outcome is not known:
	// ErrLost, or ctx's own error where only the waiting was given up.
	Wait(ctx context.Context) (Exit, error)
	// Signal asks the process and all it has started to end (SignalTerm,
	// SignalInt), or ends them (SignalKill). After its end it does nothing and returns nil.
	Signal(ctx context.Context, s Signal) error
	// Close gives the process up: unless Detached it and all it has started
	// are stopped. It returns once that is done. Closing twice succeeds.
	Close() error
}

// OutputLender is a [Process] whose output can be read without memory for every piece of it.
type OutputLender interface {
	// LendOutput is [Process.Output], but the Data of a Chunk is only lent: until the next step of the
	// iteration, or its end, it stays as it is, and it must be neither changed nor kept for longer.
	// A provider may have the process wait for who is lent its output and reads on, so that nothing is
	// lost to them, but for no more than a second for one who doesn't.
	LendOutput(ctx context.Context, from int64) iter.Seq2[Chunk, error]
}

// LentOutput is p's output for who is done with each Chunk before the next:
// its Data must be neither changed nor kept. Where p is no [OutputLender], it is [Process.Output].
func LentOutput(ctx context.Context, p Process, from int64) iter.Seq2[Chunk, error] {
	if l, ok := As[OutputLender](p); ok {
		return l.LendOutput(ctx, from)
	}
	return p.Output(ctx, from)
}

// DrainLimit is how long after a process has ended its output may stay open.
const DrainLimit = 2 * time.Second

// Chunk is a piece of output.
type Chunk struct {
	Stream Stream
	Data   []byte
	// Off is the offset of Data's first byte among all output of the process.
	Off int64
	// Lost is how many bytes just before Off were dropped.
	Lost int64
}

// Stream says where output was written.
type Stream uint8

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Signal is what a process can be sent.
type Signal uint8

// The signals.
const (
	SignalTerm Signal = 1
	SignalInt  Signal = 2
	SignalKill Signal = 3
)

// Exit is how a process ended. A failing command is an Exit, not an error.
type Exit struct {
	// Code is the exit code where Reason is Exited; 128 + the signal's number
	// where it was ended by one.
	Code int
	// Reason says why it ended.
	Reason ExitReason
	// Duration is how long it ran.
	Duration time.Duration
	// Stdout and Stderr are how many bytes it wrote, dropped ones included.
	Stdout, Stderr int64
}

// ExitReason says why a process ended.
type ExitReason uint8

// The reasons.
const (
	ExitUnknown  ExitReason = iota
	Exited                  // by itself, with a code
	Signalled               // by a signal that was not ours
	TimedOut                // its Timeout passed
	Cancelled               // ctx, Signal, Process.Close or Sandbox.Close ended it
	SandboxEnded            // the machine was destroyed under it
	LimitReached            // one of its Limits ended it, as far as that can be told from another signal
)

func (r ExitReason) String() string {
	switch r {
	case Exited:
		return "exited"
	case Signalled:
		return "signalled"
	case TimedOut:
		return "timed out"
	case Cancelled:
		return "cancelled"
	case SandboxEnded:
		return "sandbox ended"
	case LimitReached:
		return "limit reached"
	}
	return "unknown"
}
