package main

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// places counts the calls that leave the process. Each has two places to die
// at: before it is made, and after it, when nobody has seen the answer yet.
type places struct {
	mu    sync.Mutex
	armed bool
	die   string
	calls map[string]int
	fail  map[string]error // while a scene is set: what is answered instead
	lost  chan struct{}    // an answer has been
	clock func() time.Time // the database's
}

// arm begins to count; the process dies at the place named.
func (p *places) arm(die string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed, p.die, p.calls, p.fail = true, die, map[string]int{}, nil
}

// pass is where the process is now. It dies there, or goes on.
func (p *places) pass(place string) {
	say(message{At: place, When: p.clock()})
	if place != p.die {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// enter is the place before a call; leave is the place after it.
func (p *places) enter(call string) (leave func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.armed {
		return func() error { return p.failing(call) }
	}
	p.calls[call]++
	place := fmt.Sprintf("%s %d", call, p.calls[call])
	p.pass(place + " before")
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pass(place + " after")
		return nil
	}
}

// last is the call of that name that is under way, or was made last; false before anything is counted.
func (p *places) last(call string) (name string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%s %d", call, p.calls[call]), p.armed
}

// at is a place inside a call.
func (p *places) at(place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(place)
}

func (p *places) failing(call string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.fail[call]
	if err != nil {
		select {
		case p.lost <- struct{}{}:
		default:
		}
	}
	return err
}

// fails has every call of that name answered with err, until the process is
// armed or err is nil. The channel tells that one has been.
func (p *places) fails(call string, err error) (lost <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = map[string]error{call: err}
	p.lost = make(chan struct{}, 1)
	return p.lost
}

// do makes a call that leaves the process.
func (p *places) do(call string, f func() error) error {
	leave := p.enter(call)
	err := f()
	if lost := leave(); lost != nil {
		return lost
	}
	return err
}

// get makes a call that leaves the process and brings something back.
func get[T any](p *places, call string, f func() (T, error)) (got T, err error) {
	err = p.do(call, func() error {
		var err error
		got, err = f()
		return err
	})
	return got, err
}
