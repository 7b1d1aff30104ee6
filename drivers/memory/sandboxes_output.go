package memory

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// boxSegment is the most bytes of output that are kept in one piece.
const boxSegment = 32 << 10

// boxOutput is what a process wrote: the last limit bytes of it, each at its
// offset among all. It never holds a writer up.
type boxOutput struct {
	limit int64

	mu     sync.Mutex
	pieces []sandbox.Chunk // in order, without gaps between them
	kept   int64           // bytes in pieces
	total  int64           // bytes ever written
	count  [3]int64        // bytes ever written, by stream
	closed bool
	err    error         // how reading ends once everything was read
	more   chan struct{} // closed when there is more to read, or the end; nil where nobody waits
}

// write takes a copy of p. After close it takes nothing and fails.
func (o *boxOutput) write(stream sandbox.Stream, p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, io.ErrClosedPipe
	}
	n := len(p)
	for len(p) > 0 {
		last := len(o.pieces) - 1
		if last < 0 || o.pieces[last].Stream != stream || len(o.pieces[last].Data) >= boxSegment {
			o.pieces = append(o.pieces, sandbox.Chunk{Stream: stream, Off: o.total})
			last++
		}
		piece := &o.pieces[last]
		part := p[:min(len(p), boxSegment-len(piece.Data))]
		piece.Data = append(piece.Data, part...)
		p = p[len(part):]
		o.total += int64(len(part))
		o.kept += int64(len(part))
		o.count[stream] += int64(len(part))
		o.trim()
	}
	o.wake()
	return n, nil
}

// trim drops the oldest bytes over the limit. o.mu is held.
func (o *boxOutput) trim() {
	for o.kept > o.limit {
		first := &o.pieces[0]
		n := min(o.kept-o.limit, int64(len(first.Data)))
		first.Data = first.Data[n:]
		first.Off += n
		o.kept -= n
		if len(first.Data) == 0 {
			o.pieces[0] = sandbox.Chunk{}
			o.pieces = o.pieces[1:]
		}
	}
}

// close ends the output; err is what readers get after its last byte. Only the first close counts.
func (o *boxOutput) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed, o.err = true, err
		o.wake()
	}
}

func (o *boxOutput) wake() {
	if o.more != nil {
		close(o.more)
		o.more = nil
	}
}

// counts returns how many bytes were written to each stream.
func (o *boxOutput) counts() (stdout, stderr int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count[sandbox.Stdout], o.count[sandbox.Stderr]
}

// next returns the piece at offset pos or the first after it: what it holds
// is written only once, and is not to be changed. Where
// there is none yet it returns a channel that is closed when there may be, and
// at the end neither.
func (o *boxOutput) next(pos int64) (chunk sandbox.Chunk, more <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pos < o.total && o.kept > 0 {
		from := max(pos, o.total-o.kept)
		i, exact := slices.BinarySearchFunc(o.pieces, from, func(c sandbox.Chunk, off int64) int { return cmp.Compare(c.Off, off) })
		if !exact {
			i--
		}
		c := o.pieces[i]
		return sandbox.Chunk{Stream: c.Stream, Data: slices.Clip(c.Data[from-c.Off:]), Off: from, Lost: from - pos}, nil, nil
	}
	if o.closed {
		return sandbox.Chunk{}, nil, o.err
	}
	if o.more == nil {
		o.more = make(chan struct{})
	}
	return sandbox.Chunk{}, o.more, nil
}

// read is sandbox.Process.Output.
func (o *boxOutput) read(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		for c, err := range o.lend(ctx, from) {
			c.Data = slices.Clone(c.Data)
			if !yield(c, err) {
				return
			}
		}
	}
}

// lend is sandbox.OutputLender.LendOutput.
func (o *boxOutput) lend(ctx context.Context, from int64) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		if from < 0 {
			yield(sandbox.Chunk{}, fmt.Errorf("%w: output offset %d", sandbox.ErrInvalid, from))
			return
		}
		for pos := from; ; {
			if ctx.Err() != nil {
				yield(sandbox.Chunk{}, context.Cause(ctx))
				return
			}
			chunk, more, err := o.next(pos)
			switch {
			case err != nil:
				yield(sandbox.Chunk{}, err)
				return
			case more != nil:
				select {
				case <-more:
				case <-ctx.Done():
				}
			case len(chunk.Data) == 0:
				return
			default:
				if !yield(chunk, nil) {
					return
				}
				pos = chunk.Off + int64(len(chunk.Data))
			}
		}
	}
}
