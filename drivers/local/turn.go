//go:build linux

package local

import (
	"syscall"
	"time"
)

// turn says who reads a pipe of an output. That is a goroutine of each pipe's
// own, so that no process is ever held up, whoever reads its output. But to be woken by
// that for every piece costs a reader that waits for the next more than the
// piece: once all has come through one pipe for a while, such a reader reads the pipe in
// its place. It is looked whether it comes back for more soon enough.
type turn struct {
	latest   *pipe // through which the latest came
	alone    int   // how often what came did so through that one
	reader   *reading
	read     *pipe // which it reads; what is below is of no meaning where that is nil
	away     bool  // it has something else to do
	leaves   int   // how often it had
	looked   int   // leaves, when it was looked last
	recalled bool  // it is to give the pipe back
	looks    bool  // it will be looked whether it is away
	look     *time.Timer
}

const (
	// enough is how often readers are told of one pipe alone before one of them reads it.
	enough = 2
	// mostAway is how long a pipe may be left to a reader that does something else.
	mostAway = time.Millisecond
)

// tell wakes whoever waits for more, which came through p. Where p is offered it reports whether
// one of them reads it from now on, until p.back says otherwise.
func (o *output) tell(p *pipe, offered bool) (taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.latest != p {
		o.latest, o.alone = p, 0
	}
	o.alone++
	switch {
	case o.read != nil && !o.away:
		o.recall() // it waits for another
	case o.read == nil && o.waits != nil && o.alone > enough && offered:
		o.reader, o.read, o.recalled = o.waits, p, false
		o.reader.leave()
		taken = true
	}
	o.wake()
	return taken
}

// drive waits for what comes through p, which r is to read.
func (r *reading) drive(p *pipe) {
	o := r.o
	if r.try == nil {
		r.try = func(uintptr) bool {
			o.mu.Lock()
			defer o.mu.Unlock()
			n, err := o.fillLocked(o.read.stream, o.read.read)
			if n > 0 {
				o.wake()
			}
			r.over = isEnd(n, err)
			return err != syscall.EAGAIN
		}
	}
	if err := p.raw.Read(r.try); err != nil || r.over {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.giveBack()
	}
}

// leave says that r, if it reads a pipe, does something else now. o.mu is held.
func (r *reading) leave() {
	o := r.o
	switch {
	case o.reader != r:
	case o.recalled:
		o.giveBack()
	default:
		o.away = true
		o.leaves++
		if o.looks {
			return
		}
		o.looks, o.looked = true, o.leaves
		if o.look == nil {
			o.look = time.AfterFunc(mostAway, o.takeBack)
		} else {
			o.look.Reset(mostAway)
		}
	}
}

// takeBack takes the pipe from a reader that has been away all the time since
// it was looked last, or is just when there is something to read.
func (o *output) takeBack() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looks = false
	switch {
	case o.read == nil || !o.away:
	case o.leaves == o.looked || o.read.waiting():
		o.giveBack()
	default:
		o.looks, o.looked = true, o.leaves
		o.look.Reset(mostAway)
	}
}

// recall has a reader give its pipe back that waits for it. o.mu is held.
func (o *output) recall() {
	o.recalled = true
	o.read.hurry()
}

// giveBack leaves the pipe to its own goroutine again. o.mu is held.
func (o *output) giveBack() {
	o.read.back <- struct{}{}
	o.reader, o.read = nil, nil
}

// hurry ends what r waits for.
func (r *reading) hurry() {
	r.o.mu.Lock()
	defer r.o.mu.Unlock()
	if r.o.reader == r && !r.o.away {
		r.o.recall()
	}
}

// end ends r.
func (r *reading) end() {
	if r.unwatch != nil {
		r.unwatch()
	}
	o := r.o
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waits == r {
		o.waits = nil
	}
	o.forsakes(r)
	if o.reader == r {
		o.giveBack()
	}
}
