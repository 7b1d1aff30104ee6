//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// listener reads an output, and says of each piece what it was once somebody asks.
type listener struct {
	testing.TB
	o      *output
	heard  chan string
	ended  chan error // why it ended
	cancel context.CancelFunc
}

func listen(t testing.TB, o *output, from int64) *listener {
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{TB: t, o: o, heard: make(chan string), ended: make(chan error, 1), cancel: cancel}
	t.Cleanup(cancel)
	go func() {
		var last error
		r := reading{o: o, off: from, lends: true}
		for c, err := range r.chunks(ctx) {
			if last = err; err == nil {
				select {
				case l.heard <- string(c.Data):
				case <-ctx.Done():
				}
			}
		}
		l.ended <- last
	}()
	return l
}

// mouth is the pipe of a process and its other end.
type mouth struct {
	*pipe
	w *os.File
}

func openMouth(t testing.TB, o *output, stream sandbox.Stream) mouth {
	p, w, err := openPipe(stream)
	if err != nil {
		t.Fatal(err)
	}
	go p.copy(o)
	t.Cleanup(func() { w.Close(); p.close() })
	return mouth{p, w}
}

func (m mouth) say(t testing.TB, text string) {
	if _, err := m.w.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// hear is what is heard next.
func (l *listener) hear() string {
	l.Helper()
	select {
	case text := <-l.heard:
		return text
	case err := <-l.ended:
		l.Fatalf("the reading has ended: %v", err)
	case <-time.After(30 * time.Second):
		l.Fatal("nothing is heard")
	}
	return ""
}

// reads has the listener come to read m itself, and wait there for more.
func (l *listener) reads(m mouth) {
	l.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		m.say(l, "x")
		l.hear()
		for range 1000 {
			l.o.mu.Lock()
			is := l.o.read == m.pipe && !l.o.away
			l.o.mu.Unlock()
			if is {
				return
			}
			if time.Now().After(deadline) {
				l.Fatal("it never reads the pipe itself")
			}
		}
	}
}

func within30(t testing.TB, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("still not: %s", what)
	}
}

// A reader that has come to read one pipe itself hears what comes through another.
func TestReaderHearsTheOtherPipe(t *testing.T) {
	o := &output{limit: 1 << 20}
	out, errs := openMouth(t, o, sandbox.Stdout), openMouth(t, o, sandbox.Stderr)
	l := listen(t, o, 0)
	for range 3 {
		l.reads(out)
		errs.say(t, "error")
		if got := l.hear(); got != "error" {
			t.Fatalf("heard %q", got)
		}
		l.reads(errs)
	}
	out.w.Close()
	errs.w.Close()
	within30(t, "the ends of the pipes are seen", func() { <-out.ended; <-errs.ended })
	o.finish(nil)
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
}

// While a reader that reads the pipe itself does something else, the process writes on.
func TestReaderAwayHoldsNobodyUp(t *testing.T) {
	o := &output{limit: 2 << 20}
	m := openMouth(t, o, sandbox.Stdout)
	l := listen(t, o, 0)
	l.reads(m)
	all := bytes.Repeat([]byte("0123456789"), 100_000)
	within30(t, "all is written", func() { m.say(t, string(all)) })
	m.w.Close()
	within30(t, "the end of the pipe is seen", func() { <-m.ended })
	o.finish(nil)
	var got []byte
	for len(got) < len(all) {
		got = append(got, l.hear()...)
	}
	if !bytes.Equal(got, all) {
		t.Fatalf("%d bytes differ", len(got))
	}
	if err := <-l.ended; err != nil {
		t.Fatal(err)
	}
}

// A reader whose context ends goes, and the pipe is read on without it.
func TestReaderGoes(t *testing.T) {
	o := &output{limit: 1 << 20}
	m := openMouth(t, o, sandbox.Stdout)
	l := listen(t, o, 0)
	l.reads(m)
	o.mu.Lock()
	at := o.end
	o.mu.Unlock()
	l.cancel()
	within30(t, "the reading has ended", func() {
		if err := <-l.ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	m.say(t, "later")
	if got := listen(t, o, at).hear(); got != "later" {
		t.Fatalf("heard %q", got)
	}
}

// A pipe is closed whoever reads it, and whatever that does meanwhile.
func TestReadPipeIsClosed(t *testing.T) {
	for _, away := range []bool{false, true} {
		o := &output{limit: 1 << 20}
		m := openMouth(t, o, sandbox.Stdout)
		l := listen(t, o, 0)
		l.reads(m)
		if away {
			m.say(t, "nobody asks for this")
		}
		within30(t, "the pipe is closed", m.close)
		o.finish(nil)
	}
}
