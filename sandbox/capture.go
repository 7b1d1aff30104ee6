package sandbox

import "context"

// DefaultCapture is how many bytes of each stream [Capture] keeps by default.
const DefaultCapture = 1 << 20

// Captured is what became of a command, and what it wrote.
type Captured struct {
	Exit
	Out, Err Kept // of Stdout and of Stderr
	// Lost is how many bytes of both together nobody saw: the reader was too slow for Cmd.OutputLimit. They
	// are missing wherever they were, and count in Exit only.
	Lost int64
}

// Kept is the beginning and the end of a stream, with what lies between left
// out where it is too much. The slices are the caller's.
type Kept struct {
	Head, Tail []byte
	Total      int64 // how many bytes were read, those left out included
}

// Cut is how many bytes were left out between Head and Tail.
func (k Kept) Cut() int64 { return k.Total - int64(len(k.Head)) - int64(len(k.Tail)) }

// Bytes is Head and Tail as one, in a new slice: where Cut and [Captured].Lost are 0, all of the stream.
func (k Kept) Bytes() []byte {
	return append(append(make([]byte, 0, len(k.Head)+len(k.Tail)), k.Head...), k.Tail...)
}

// Capture runs a command and keeps of each stream at most limit bytes: the
// first half of that from its beginning, the rest from its end; 0 means [DefaultCapture]. However much a command
// writes, it takes no more memory than that, beside what the sandbox keeps for replay.
//
// With an error what was written so far is returned too; then it is not known how the command ended, or it was not started.
func Capture(ctx context.Context, sb Sandbox, c Cmd, limit int) (Captured, error) {
	if limit == 0 {
		limit = DefaultCapture
	}
	var got Captured
	p, err := sb.Start(ctx, c)
	if err != nil {
		return got, err
	}
	defer p.Close()
	out, errs := keeper{limit: limit}, keeper{limit: limit}
	for chunk, failed := range LentOutput(ctx, p, 0) {
		if err = failed; err != nil {
			break
		}
		got.Lost += chunk.Lost
		if chunk.Stream == Stderr {
			errs.write(chunk.Data)
		} else {
			out.write(chunk.Data)
		}
	}
	if err == nil {
		got.Exit, err = p.Wait(ctx)
	}
	got.Out, got.Err = out.kept(), errs.kept()
	return got, err
}

// keeper keeps both ends of what is written.
type keeper struct {
	limit int
	head  []byte
	ring  []byte // the last bytes, of which those from at on came first once it is full
	at    int
	total int64
}

func (k *keeper) write(data []byte) {
	k.total += int64(len(data))
	if room := k.limit/2 - len(k.head); room > 0 {
		n := min(room, len(data))
		k.head, data = append(k.head, data[:n]...), data[n:]
	}
	size := max(0, k.limit-k.limit/2)
	data = data[max(0, len(data)-size):]
	if room := size - len(k.ring); room > 0 {
		n := min(room, len(data))
		k.ring, data = append(k.ring, data[:n]...), data[n:]
	}
	for len(data) > 0 {
		n := copy(k.ring[k.at:], data)
		k.at, data = (k.at+n)%size, data[n:]
	}
}

func (k *keeper) kept() Kept {
	return Kept{Head: k.head, Tail: append(k.ring[k.at:len(k.ring):len(k.ring)], k.ring[:k.at]...), Total: k.total}
}
