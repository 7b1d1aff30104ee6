package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/sandbox"
)

// scripted is a sandbox whose one process writes what it is told to.
type scripted struct {
	sandbox.Sandbox
	chunks []sandbox.Chunk
	failed error        // after them
	exit   sandbox.Exit // of Wait
	lost   error        // of Wait
	closed bool
}

func (s *scripted) Start(context.Context, sandbox.Cmd) (sandbox.Process, error) {
	return &scriptedProcess{of: s}, nil
}

type scriptedProcess struct {
	sandbox.Process
	of *scripted
}

func (p *scriptedProcess) Output(context.Context, int64) iter.Seq2[sandbox.Chunk, error] {
	return func(yield func(sandbox.Chunk, error) bool) {
		for _, c := range p.of.chunks {
			if !yield(c, nil) {
				return
			}
		}
		if p.of.failed != nil {
			yield(sandbox.Chunk{}, p.of.failed)
		}
	}
}

func (p *scriptedProcess) Wait(context.Context) (sandbox.Exit, error) {
	return p.of.exit, p.of.lost
}

func (p *scriptedProcess) Close() error { p.of.closed = true; return nil }

// Of each stream both ends are kept, exactly as they were, within the limit;
// what fits is whole, and how much there was is told.
func TestCaptureKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		s := scripted{exit: sandbox.Exit{Code: 7, Reason: sandbox.Exited}}
		all := map[sandbox.Stream][]byte{}
		next := byte(0)
		for range rapid.IntRange(0, 12).Draw(t, "chunks") {
			data := make([]byte, rapid.IntRange(0, 50).Draw(t, "size"))
			for i := range data {
				next++
				data[i] = next
			}
			stream := rapid.SampledFrom([]sandbox.Stream{sandbox.Stdout, sandbox.Stderr}).Draw(t, "stream")
			all[stream] = append(all[stream], data...)
			s.chunks = append(s.chunks, sandbox.Chunk{Stream: stream, Data: data, Lost: 1})
		}
		got, err := sandbox.Capture(t.Context(), &s, sandbox.Cmd{}, limit)
		if err != nil || got.Code != 7 || !s.closed || got.Lost != int64(len(s.chunks)) {
			t.Fatalf("%+v, %v, closed %v", got, err, s.closed)
		}
		for stream, kept := range map[sandbox.Stream]sandbox.Kept{sandbox.Stdout: got.Out, sandbox.Stderr: got.Err} {
			whole, shown := all[stream], len(kept.Head)+len(kept.Tail)
			if shown != min(limit, len(whole)) || kept.Total != int64(len(whole)) || kept.Cut() != int64(len(whole)-shown) {
				t.Fatalf("of %d bytes with limit %d: %d and %d, %d in all, %d cut", len(whole), limit, len(kept.Head), len(kept.Tail), kept.Total, kept.Cut())
			}
			if !bytes.HasPrefix(whole, kept.Head) || !bytes.HasSuffix(whole, kept.Tail) || len(whole) > limit && len(kept.Head) != limit/2 {
				t.Fatalf("%v: %v … %v", whole, kept.Head, kept.Tail)
			}
			if kept.Cut() == 0 && !bytes.Equal(kept.Bytes(), whole) {
				t.Fatalf("%v: %v", whole, kept.Bytes())
			}
		}
	})
}

// What was written is there also where it is not known how the command ended.
func TestCaptureKeepsWhatWasWritten(t *testing.T) {
	wrote := []sandbox.Chunk{{Stream: sandbox.Stdout, Data: []byte("so far")}}
	for rule, s := range map[string]*scripted{
		"the output breaks off": {chunks: wrote, failed: sandbox.ErrGone},
		"the outcome is lost":   {chunks: wrote, lost: sandbox.ErrLost},
	} {
		got, err := sandbox.Capture(t.Context(), s, sandbox.Cmd{}, 0)
		if want := errors.Join(s.failed, s.lost); err == nil || !errors.Is(want, err) || string(got.Out.Bytes()) != "so far" || !s.closed {
			t.Errorf("%s: %q, %v, closed %v", rule, got.Out.Bytes(), err, s.closed)
		}
	}
}
