//go:build linux

package local

import (
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

const (
	chunkSize  = 32 << 10 // the most that one chunk carries that is the caller's to keep
	readSize   = 64 << 10 // the most that is read at once, and that one chunk carries which is lent
	ringStart  = 4 << 10  // what a ring begins with, once something is written
	bytesAtRun = 16       // runs are few enough that there is one in so many bytes of the limit
)

// output keeps the latest output of a process, within a limit, and tells its
// readers what they missed. Both streams are one sequence of bytes.
type output struct {
	mu      sync.Mutex
	limit   int64
	ring    []byte // the byte at offset o is ring[o % len(ring)]
	start   int64  // the oldest offset that is kept
	end     int64  // the offset after the newest byte
	runs    []run  // from which offset on the bytes are of which stream; the first is at start or before
	written [3]int64
	over    bool  // nothing more comes
	err     error // why it ended, if that is not known to be the process's own end
	changed chan struct{}

	waits  *reading // one that waits for changed, and could read a pipe itself
	turn            // who does
	waited          // for whom
}

type run struct {
	off    int64
	stream sandbox.Stream
}

// write appends p, and never blocks.
func (o *output) write(stream sandbox.Stream, p []byte) {
	for len(p) > 0 {
		n, _ := o.fill(stream, func(free []byte) (int, error) { return copy(free, p), nil })
		if n == 0 {
			return // it is over
		}
		p = p[n:]
	}
	o.tell(nil, false)
}

// take is fill for who can wait: where it has to, it does nothing and returns what is closed once it need not.
func (o *output) take(stream sandbox.Stream, read func(free []byte) (int, error)) (n int, room <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room = o.full(); room == nil {
		n, err = o.fillLocked(stream, read)
	}
	return n, room, err
}

// fill lets read, which must not block, put what there is where it is to be
// kept. It returns what read returns. Readers are told later, by tell.
func (o *output) fill(stream sandbox.Stream, read func(free []byte) (int, error)) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fillLocked(stream, read)
}

func (o *output) fillLocked(stream sandbox.Stream, read func(free []byte) (int, error)) (int, error) {
	if o.over {
		return 0, nil
	}
	o.grow()
	n, err := read(o.free())
	if n <= 0 {
		return n, err
	}
	if r := len(o.runs); r == 0 || o.runs[r-1].stream != stream {
		o.runs = append(o.runs, run{o.end, stream})
	}
	o.written[stream] += int64(n)
	o.end += int64(n)
	o.drop(max(o.start, o.end-int64(len(o.ring))))
	if most := int(o.limit/bytesAtRun) + 1; len(o.runs) > most {
		o.drop(o.runs[len(o.runs)-most].off)
	}
	return n, err
}

// free is where the next bytes go; what was there is the oldest that is kept, if anything.
func (o *output) free() []byte {
	at := o.end % int64(len(o.ring))
	return o.ring[at:min(at+readSize, int64(len(o.ring)))]
}

// grow makes room for some more, within the limit.
func (o *output) grow() {
	size := int64(len(o.ring))
	if size == o.limit || size > 0 && size-(o.end-o.start) >= ringStart {
		return
	}
	old := o.ring
	o.ring = make([]byte, min(max(2*size, ringStart), o.limit))
	for off := o.start; off < o.end; {
		p := piece(old, off, o.end)
		o.put(off, p)
		off += int64(len(p))
	}
}

// put copies p to where offset off is.
func (o *output) put(off int64, p []byte) {
	for len(p) > 0 {
		n := copy(o.ring[off%int64(len(o.ring)):], p)
		off, p = off+int64(n), p[n:]
	}
}

// piece is the part of ring that begins at offset off and ends at end or before.
func piece(ring []byte, off, end int64) []byte {
	at := off % int64(len(ring))
	return ring[at:min(at+end-off, int64(len(ring)))]
}

// drop gives up what lies before off.
func (o *output) drop(off int64) {
	o.start = off
	n := 0
	for n+1 < len(o.runs) && o.runs[n+1].off <= off {
		n++
	}
	o.runs = o.runs[n:]
}

func (o *output) wake() {
	if o.changed != nil {
		close(o.changed)
		o.changed, o.waits = nil, nil
	}
}

// finish says that nothing more comes. err is what readers are told at the end.
func (o *output) finish(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.over, o.err = true, err
		o.wake()
	}
}

// runAt finds the run that holds off, and where it ends.
func (o *output) runAt(off int64) (at int, end int64) {
	lo, hi := 0, len(o.runs)-1
	for lo < hi { // the last run that begins at off or before
		mid := (lo + hi + 1) / 2
		if o.runs[mid].off <= off {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if lo+1 < len(o.runs) {
		return lo, o.runs[lo+1].off
	}
	return lo, o.end
}

// totals are how many bytes each stream had.
func (o *output) totals() (stdout, stderr int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.written[sandbox.Stdout], o.written[sandbox.Stderr]
}

// size is how much memory the output takes.
func (o *output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ring)
}

// text is what is kept, for an error about a process that never ran.
func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b []byte
	for off := o.start; off < o.end; {
		p := piece(o.ring, off, o.end)
		b = append(b, p...)
		off += int64(len(p))
	}
	return string(b)
}
