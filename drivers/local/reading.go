//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/bunkroom/bunkroom/sandbox"
)

// reading is one reading of an output, from off on.
type reading struct {
	o       *output
	off     int64
	lends   bool
	lent    []byte      // what the latest chunk was lent
	unwatch func() bool // stops watching ctx; nil where that was never needed
	try     func(fd uintptr) bool
	over    bool // nothing more comes through the pipe that try has read
}

// chunks yields what there is and then what comes, until the output ends.
func (r *reading) chunks(ctx context.Context) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		defer r.end()
		for {
			c, wait, pipe, err := r.next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(c, err)
				return
			case pipe != nil:
				if r.unwatch == nil {
					r.unwatch = context.AfterFunc(ctx, r.hurry)
				}
				if ctx.Err() == nil { // else it may have ended too early for hurry
					r.drive(pipe)
					continue
				}
			case wait != nil:
				select {
				case <-wait:
					continue
				case <-ctx.Done():
				}
			default:
				r.off = c.Off + int64(len(c.Data))
				if !yield(c, nil) {
					return
				}
				continue
			}
			yield(sandbox.Chunk{Off: r.off}, ctx.Err())
			return
		}
	}
}

// next returns what is kept at r.off or after it. Where there is nothing yet,
// that is a pipe that r has to read, or else a channel that is closed once there may be more. The
// error is io.EOF at the end, or why the end is not known.
func (r *reading) next() (c sandbox.Chunk, wait <-chan struct{}, pipe *pipe, err error) {
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.lends && o.lender == nil {
		o.lends(r, r.off)
	}
	switch {
	case r.off < o.end:
		r.leave()
		return r.chunk(), nil, nil, nil
	case o.over && o.err != nil:
		return sandbox.Chunk{Off: o.end}, nil, nil, o.err
	case o.over:
		return c, nil, nil, io.EOF
	case o.reader == r && o.recalled:
		o.giveBack()
	case o.reader == r:
		o.away = false
		return c, nil, o.read, nil
	}
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	if o.waits == nil {
		o.waits = r
	}
	return c, o.changed, nil, nil
}

// chunk is what is kept at r.off or after it. o.mu is held.
func (r *reading) chunk() (c sandbox.Chunk) {
	o, off := r.o, r.off
	if off < o.start {
		c.Lost = o.start - off
		off = o.start
	}
	at, end := o.runAt(off)
	c.Stream, c.Off = o.runs[at].stream, off
	if r.lends {
		r.lent = append(r.lent[:0], piece(o.ring, off, min(end, off+readSize))...)
		c.Data = r.lent
		o.lends(r, off+int64(len(c.Data)))
	} else {
		c.Data = bytes.Clone(piece(o.ring, off, min(end, off+chunkSize)))
	}
	return c
}
