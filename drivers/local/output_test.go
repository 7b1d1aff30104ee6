//go:build linux

package local

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/sandbox"
)

// drainFrom reads all that is kept from offset from on, and checks that offsets and gaps fit together.
func drainFrom(t rapid.TB, o *output, from int64) (data []byte, streams []sandbox.Stream, lost int64) {
	for off := from; ; {
		c, wait, _, err := (&reading{o: o, off: off}).next()
		if errors.Is(err, io.EOF) || wait != nil {
			return data, streams, lost
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		if c.Off != off+c.Lost || len(c.Data) == 0 || c.Lost > 0 && len(data) > 0 {
			t.Fatalf("at %d: %d bytes at %d with %d lost", off, len(c.Data), c.Off, c.Lost)
		}
		lost += c.Lost
		data = append(data, c.Data...)
		for range c.Data {
			streams = append(streams, c.Stream)
		}
		off = c.Off + int64(len(c.Data))
	}
}

// What is kept is always the end of what was written, byte for byte, each
// byte with its stream, never more than the limit (T-95), and the rest is counted as lost.
func TestOutputKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20_000).Draw(t, "limit")
		o := output{limit: limit}
		var all []byte
		var streams []sandbox.Stream
		for range rapid.IntRange(0, 40).Draw(t, "writes") {
			stream := rapid.SampledFrom([]sandbox.Stream{sandbox.Stdout, sandbox.Stderr}).Draw(t, "stream")
			n := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 9000)).Draw(t, "n")
			p := make([]byte, n)
			for i := range p {
				p[i] = byte(len(all) + i)
				streams = append(streams, stream)
			}
			all = append(all, p...)
			o.write(stream, p)
		}
		from := rapid.Int64Range(0, int64(len(all))).Draw(t, "from")
		data, of, lost := drainFrom(t, &o, from)
		if from+lost+int64(len(data)) != int64(len(all)) || int64(len(data)) > limit {
			t.Fatalf("from %d of %d: %d lost, %d kept, limit %d", from, len(all), lost, len(data), limit)
		}
		if !bytes.Equal(data, all[from+lost:]) {
			t.Fatalf("the bytes from %d on differ", from+lost)
		}
		if diff := cmp.Diff(streams[from+lost:], of); diff != "" && len(of) > 0 {
			t.Fatalf("streams differ:\n%s", diff)
		}
		if int64(len(o.ring)) > limit {
			t.Fatalf("the ring has %d bytes, the limit is %d", len(o.ring), limit)
		}
	})
}

// One byte of each stream in turn costs no more memory than the limit allows.
func TestOutputBoundsItsRuns(t *testing.T) {
	const limit = 1 << 16
	o := output{limit: limit}
	for i := range 4 * limit {
		o.write(sandbox.Stream(1+i%2), []byte{byte(i)})
	}
	if n := cap(o.runs); n > 4*limit/bytesAtRun {
		t.Fatalf("%d runs are held", n)
	}
	data, _, lost := drainFrom(t, &o, 0)
	if lost+int64(len(data)) != 4*limit || data[len(data)-1] != 0xff {
		t.Fatalf("%d lost and %d kept of %d", lost, len(data), 4*limit)
	}
}

// A reader is woken by a write and by the end, and learns why where the end is not known.
func TestOutputWakes(t *testing.T) {
	o := output{limit: 10}
	_, wait, _, _ := (&reading{o: &o}).next()
	o.write(sandbox.Stdout, []byte("x"))
	<-wait
	_, wait, _, _ = (&reading{o: &o, off: 1}).next()
	lost := errors.New("lost")
	o.finish(lost)
	<-wait
	if c, _, _, err := (&reading{o: &o, off: 1}).next(); err != lost || c.Off != 1 {
		t.Fatalf("at the end: %+v, %v", c, err)
	}
	o.write(sandbox.Stdout, []byte("late"))
	if out, errs := o.totals(); out != 1 || errs != 0 {
		t.Fatalf("counted %d and %d", out, errs)
	}
}
