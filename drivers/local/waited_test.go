//go:build linux

package local

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// tardy is a writer that lets everybody else go first.
type tardy struct{ n, odd int }

func (w *tardy) Write(p []byte) (int, error) {
	for range 20 {
		runtime.Gosched()
	}
	for _, b := range p {
		if b != 'y' && b != '\n' {
			w.odd++
		}
	}
	w.n += len(p)
	return len(p), nil
}

// Who is lent output and reads on loses nothing of it, however little is kept and
// however fast it comes: the process waits.
func TestFloodWaitsForWhoReadsOn(t *testing.T) {
	for _, limit := range []int64{1, 4 << 10, 100_000, 1 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			h := testHandle(t, testProvider(t, true))
			size := min(limit<<8, 8<<20)
			var out, errs tardy
			exit, err := sandbox.Run(context.Background(), h, sandbox.Cmd{
				Argv: []string{"sh", "-c", fmt.Sprintf("yes | head -c %d & yes | head -c %d >&2; wait", size, size)}, OutputLimit: limit,
			}, &out, &errs)
			if err != nil || exit.Code != 0 {
				t.Fatalf("%+v, %v", exit, err)
			}
			if int64(out.n) != size || int64(errs.n) != size || out.odd+errs.odd > 0 {
				t.Errorf("of %d there are %d and %d, of which %d are others", size, out.n, errs.n, out.odd+errs.odd)
			}
		})
	}
}

// Who was lent output and doesn't read on holds up the process for a while, and not for ever: it ends meanwhile.
func TestFloodDoesNotWaitForWhoStops(t *testing.T) {
	h := testHandle(t, testProvider(t, true))
	p, err := h.Start(context.Background(), sandbox.Cmd{Argv: []string{"sh", "-c", "yes | head -c 1000000"}, OutputLimit: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	lost := int64(0)
	for c, err := range sandbox.LentOutput(context.Background(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := p.Wait(context.Background()); err != nil || exit.Stdout != 1_000_000 {
			t.Fatalf("%+v, %v", exit, err)
		}
		lost += c.Lost
	}
	if lost == 0 {
		t.Error("nothing is lost")
	}
}

// Who is ended waits for nobody.
func TestEndedFloodWaitsForNobody(t *testing.T) {
	h := testHandle(t, testProvider(t, true))
	p, err := h.Start(context.Background(), sandbox.Cmd{Argv: []string{"yes"}, OutputLimit: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range sandbox.LentOutput(context.Background(), p, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		break
	}
	if exit, err := p.Wait(context.Background()); err != nil || exit.Reason != sandbox.Cancelled {
		t.Errorf("%+v, %v", exit, err)
	}
}
