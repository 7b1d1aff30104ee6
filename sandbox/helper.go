package sandbox

import (
	"bytes"
	"context"
	"io"
)

// Run starts a command, copies its output to the writers as it comes (a nil
// writer drops it), and returns how it ended. Output that was dropped because
// the writers were too slow is not reported; read [Process.Output] where that matters.
func Run(ctx context.Context, sb Sandbox, c Cmd, stdout, stderr io.Writer) (Exit, error) {
	p, err := sb.Start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	defer p.Close()
	for chunk, err := range LentOutput(ctx, p, 0) {
		if err != nil {
			return Exit{}, err
		}
		w := stdout
		if chunk.Stream == Stderr {
			w = stderr
		}
		if w == nil {
			continue
		}
		if _, err := w.Write(chunk.Data); err != nil {
			return Exit{}, err
		}
	}
	return p.Wait(ctx)
}

// ReadFile reads a whole file. A reader that has a method Len() int, as of package
// [bytes], saves memory: it says how much is left, as far as is known.
func ReadFile(ctx context.Context, fsys FS, path string) ([]byte, error) {
	r, err := fsys.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all bytes.Buffer
	size := usualFile
	if known, ok := r.(interface{ Len() int }); ok {
		size = min(known.Len(), mostTrusted)
	}
	all.Grow(size + bytes.MinRead)
	_, err = all.ReadFrom(r)
	return all.Bytes(), err
}

const (
	usualFile   = 8 << 10 // as large as most files are at most: these are read at once
	mostTrusted = 1 << 20 // the most that memory is taken for before it is there
)

// WriteFile writes a whole file, all at once; see [FS.Create].
func WriteFile(ctx context.Context, fsys FS, path string, data []byte, opts *CreateOptions) error {
	w, err := fsys.Create(ctx, path, opts)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}
