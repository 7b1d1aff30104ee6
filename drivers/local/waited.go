//go:build linux

package local

import "time"

// waited says for whom a process is made to wait that writes faster than is
// read. Nobody is to lose anything who reads on and does nothing else with it: of those that are
// lent what they read, the first. Who doesn't read on is waited for no longer than mostHeld.
type waited struct {
	lender *reading // the first that is lent what it reads; what is below is about it
	lentTo int64    // up to where it has been lent
	tired  bool     // it was waited for in vain, since it was lent something last
	room   chan struct{}
}

// mostHeld is how long a process waits for a reader that was lent something and doesn't ask for more.
const mostHeld = time.Second

// full returns what is closed once more can be kept without what the lender
// has not had yet; nil where it can now. o.mu is held.
func (o *output) full() <-chan struct{} {
	if o.lender == nil || o.tired || o.over {
		return nil
	}
	behind := o.end - max(o.lentTo, o.start)
	if behind <= 0 || behind+min(readSize, o.limit) <= o.limit {
		return nil
	}
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return o.room
}

// await waits for room to be closed, for a while, unless p is closed meanwhile.
func (o *output) await(room <-chan struct{}, p *pipe) {
	limit := time.NewTimer(mostHeld)
	defer limit.Stop()
	select {
	case <-room:
		return
	case <-p.shut:
	case <-limit.C:
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.room == room {
		o.tired = true
		o.makeRoom()
	}
}

// lends notes that r is lent what comes before off. o.mu is held.
func (o *output) lends(r *reading, off int64) {
	if o.lender == nil {
		o.lender = r
	}
	if o.lender == r {
		o.lentTo, o.tired = off, false
		o.makeRoom()
	}
}

// forsakes notes that r reads no more. o.mu is held.
func (o *output) forsakes(r *reading) {
	if o.lender == r {
		o.lender = nil
		o.makeRoom()
	}
}

func (o *output) makeRoom() {
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
}
