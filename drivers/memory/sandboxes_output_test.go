package memory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
)

// Whatever is written, in whatever pieces, to either stream: output replays the
// last bytes within the limit, in order, from any offset, and says how many it left out.
func TestOutputProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type piece struct {
			Stderr bool
			Size   int
		}
		pieces := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) piece {
			return piece{rapid.Bool().Draw(t, "stderr"), rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, 80_000)).Draw(t, "size")}
		}), 0, 12).Draw(t, "pieces")
		limit := rapid.Int64Range(1, 100_000).Draw(t, "limit")
		var all, streams strings.Builder
		for i, p := range pieces {
			for n := range p.Size {
				all.WriteByte(byte(i*31 + n))
				streams.WriteByte(map[bool]byte{false: byte(sandbox.Stdout), true: byte(sandbox.Stderr)}[p.Stderr])
			}
		}
		total := int64(all.Len())
		boxes := memory.NewSandboxes(nil)
		boxes.HandleRest(func(_ context.Context, c *memory.Command) int {
			at := 0
			for _, p := range pieces {
				w := c.Stdout
				if p.Stderr {
					w = c.Stderr
				}
				fmt.Fprint(w, all.String()[at:at+p.Size])
				at += p.Size
			}
			return 0
		})
		sb, err := boxes.Open(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Close()
		p, err := sb.Start(context.Background(), sandbox.Cmd{Argv: []string{"any"}, OutputLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		exit, err := p.Wait(context.Background())
		if err != nil || exit.Stdout+exit.Stderr != total {
			t.Fatalf("Wait = %+v, %v, want %d bytes", exit, err, total)
		}
		from := rapid.Int64Range(0, total+3).Draw(t, "from")
		pos, first := from, max(from, total-limit)
		for c, err := range p.Output(context.Background(), from) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Off != pos+c.Lost || len(c.Data) == 0 {
				t.Fatalf("chunk of %d bytes at %d after %d lost, want it at %d", len(c.Data), c.Off, c.Lost, pos)
			}
			if c.Lost != 0 && c.Off != first {
				t.Fatalf("lost %d before %d, want the first at %d", c.Lost, c.Off, first)
			}
			pos = c.Off + int64(len(c.Data))
			if got, want := string(c.Data), all.String()[c.Off:pos]; got != want {
				t.Fatalf("data at %d differs", c.Off)
			}
			if want := strings.Repeat(string([]byte{byte(c.Stream)}), len(c.Data)); streams.String()[c.Off:pos] != want {
				t.Fatalf("chunk at %d is not all of stream %d", c.Off, c.Stream)
			}
			clear(c.Data) // it is the caller's to keep
		}
		if pos != max(from, total) {
			t.Fatalf("output ended at %d, want %d", pos, max(from, total))
		}
	})
}

// A reader follows the output as it comes, is never a brake on it, and ends
// with its own context or with the process.
func TestOutputFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boxes := memory.NewSandboxes(nil)
		next := make(chan string)
		boxes.HandleRest(func(_ context.Context, c *memory.Command) int {
			for text := range next {
				fmt.Fprint(c.Stdout, text)
			}
			return 0
		})
		p := start(t, mustOpen(t, boxes, "x"), sandbox.Cmd{Argv: []string{"any"}, OutputLimit: 4})
		var got []string
		ended := make(chan error, 1)
		hold := make(chan struct{})
		go func() {
			var last error
			for c, err := range p.Output(context.Background(), 0) {
				got = append(got, fmt.Sprintf("%d+%d %s", c.Off, c.Lost, c.Data))
				last = err
				<-hold
			}
			ended <- last
		}()
		next <- "ab"
		synctest.Wait() // it was read, and the reader stands still
		next <- "cdefg"
		next <- "h"
		synctest.Wait()
		close(hold)
		synctest.Wait()
		next <- "i"
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for _, err := range p.Output(ctx, 9) {
				ended <- err
			}
		}()
		synctest.Wait()
		cancel()
		wantErr(t, "a reader that gives up", <-ended, context.Canceled)
		_, err := p.Wait(ctx)
		wantErr(t, "a waiter that gives up", err, context.Canceled)
		close(next)
		wantErr(t, "a reader to the end", <-ended, nil)
		want := "0+0 ab, 4+2 efgh, 8+0 i"
		if strings.Join(got, ", ") != want {
			t.Errorf("read %q, want %q", got, want)
		}
		for _, err := range p.Output(t.Context(), -1) {
			wantErr(t, "a negative offset", err, sandbox.ErrInvalid)
		}
		for _, err := range p.Output(ctx, 0) {
			wantErr(t, "a reader whose context had ended", err, context.Canceled)
		}
	})
}

// Where a machine vanishes its output can be read to the end, and then says that the rest is lost.
func TestOutputLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boxes := memory.NewSandboxes(nil)
		boxes.HandleRest(func(ctx context.Context, c *memory.Command) int {
			fmt.Fprint(c.Stdout, "half")
			<-ctx.Done()
			fmt.Fprint(c.Stdout, "never")
			return 0
		})
		sb := mustOpen(t, boxes, "x")
		p := start(t, sb, sandbox.Cmd{Argv: []string{"any"}})
		synctest.Wait()
		boxes.Kill(sb.Ref().Incarnation)
		var text string
		var last error
		for c, err := range p.Output(t.Context(), 0) {
			text += string(c.Data)
			last = err
		}
		wantErr(t, "the end of the output", last, sandbox.ErrLost)
		if text != "half" {
			t.Errorf("output %q, want %q", text, "half")
		}
		_, err := sandbox.Run(t.Context(), sb, sandbox.Cmd{Argv: []string{"any"}}, nil, nil)
		wantErr(t, "Run", err, sandbox.ErrGone)
	})
}
