package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// Run starts a command, copies its output to the writers as it comes (a nil
// writer drops it), and returns how it ended.
//
// ErrOutputLost: the command has ended as Exit says, but of what it wrote to a writer some is missing, for
// it came faster than the writers took it, and the sandbox keeps Cmd.OutputLimit of what nobody has read
// yet: see [OutputLender]. With any other error it is not known how it ended, or it was not started.
func Run(ctx context.Context, sb Sandbox, c Cmd, stdout, stderr io.Writer) (Exit, error) {
	p, err := sb.Start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	defer p.Close()
	var out, errs int64
	for chunk, err := range LentOutput(ctx, p, 0) {
		if err != nil {
			return Exit{}, err
		}
		w, wrote := stdout, &out
		if chunk.Stream == Stderr {
			w, wrote = stderr, &errs
		}
		*wrote += int64(len(chunk.Data))
		if w == nil {
			continue
		}
		if _, err := w.Write(chunk.Data); err != nil {
			return Exit{}, err
		}
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		return exit, err
	}
	var lost int64
	if stdout != nil {
		lost += exit.Stdout - out
	}
	if stderr != nil {
		lost += exit.Stderr - errs
	}
	if lost > 0 {
		return exit, fmt.Errorf("%w: %d bytes", ErrOutputLost, lost)
	}
	return exit, nil
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
