package memory

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Handler is a program: a function that does what the program would and
// returns its exit code, of which the lowest eight bits count.
//
// ctx ends when the process is to stop: its time is up, it was signalled or
// closed, its handle was closed or its machine is gone; the context's cause
// says which. A function that does not return within Cmd.KillGrace after that
// (a tenth of a second, where it was killed or the machine is gone) is
// abandoned: the process counts as killed, what the function still writes is
// dropped and its files are closed to it. A panic is exit code 2, with the text on stderr.
type Handler func(ctx context.Context, c *Command) int

// Command is what a [Handler] is called with. It is the function's own until it returns.
type Command struct {
	// Argv is the program and its arguments.
	Argv []string
	// Env are the variables of the machine's Spec, unless the Cmd has them cleared, and of the Cmd, "NAME=value", each name once.
	Env []string
	// Dir is the absolute path of the directory the command was started in.
	Dir string
	// Stdin is never nil. Reading from it ends when ctx does.
	Stdin io.Reader
	// Stdout and Stderr never block.
	Stdout, Stderr io.Writer
	// FS is the files of the sandbox, with the binds of the handle that
	// started the command. A relative path starts at the working directory of
	// the sandbox, not at Dir; see Path. It is a [sandbox.Symlinker] too.
	FS sandbox.FS

	killed sandbox.Signal
	reach  func(host string) error
}

// Path returns the absolute path that p means to the command: a relative one starts at Dir.
func (c *Command) Path(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return c.Dir + "/" + p
}

// Getenv returns the value of a variable, empty where it is not set.
func (c *Command) Getenv(name string) string {
	for _, v := range c.Env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// Killed makes the command count as ended by a signal that nobody here sent,
// as by the kernel where memory runs out: return what it returns.
func (c *Command) Killed(s sandbox.Signal) int {
	c.killed = s
	return 128 + signalNumber(s)
}

// Handle makes h the program called name, for commands that start later. A
// command's first argument matches as it stands, or else by the last element
// of its path. A nil h takes the program away.
func (s *Sandboxes) Handle(name string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.handlers, name)
		return
	}
	s.handlers[name] = h
}

// HandleRest makes h every program that Handle was not called for. Without
// it, or with nil, such a command is not started: sandbox.ErrNotStarted.
func (s *Sandboxes) HandleRest(h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = h
}

// program finds the function for a command. s.mu is held.
func (s *Sandboxes) program(argv0 string) (Handler, error) {
	if h, ok := s.handlers[argv0]; ok {
		return h, nil
	}
	if h, ok := s.handlers[path.Base(argv0)]; ok {
		return h, nil
	}
	if s.rest != nil {
		return s.rest, nil
	}
	return nil, fmt.Errorf("%w: no such program: %s", sandbox.ErrNotStarted, argv0)
}

// checkBoxCmd names a field of c that can't be.
func checkBoxCmd(c sandbox.Cmd) error {
	switch {
	case c.Script != "":
		return fmt.Errorf("%w: there is no shell to read a Script", sandbox.ErrUnsupported)
	case len(c.Argv) == 0 || c.Argv[0] == "":
		return fmt.Errorf("%w: Argv must name a program", sandbox.ErrInvalid)
	case strings.IndexByte(strings.Join(c.Argv, ""), 0) >= 0:
		return fmt.Errorf("%w: Argv must not hold a NUL byte", sandbox.ErrInvalid)
	case strings.IndexByte(c.Dir, 0) >= 0:
		return fmt.Errorf("%w: Dir must not hold a NUL byte", sandbox.ErrInvalid)
	case c.Timeout < 0:
		return fmt.Errorf("%w: Timeout must not be negative", sandbox.ErrInvalid)
	case c.KillGrace < 0:
		return fmt.Errorf("%w: KillGrace must not be negative", sandbox.ErrInvalid)
	case c.OutputLimit < 0:
		return fmt.Errorf("%w: OutputLimit must not be negative", sandbox.ErrInvalid)
	}
	if err := sandbox.CheckTag(c.Tag); err != nil {
		return err
	}
	if err := sandbox.CheckLimits(c.Limits, 0); err != nil {
		return err
	}
	for _, v := range c.Env {
		if strings.IndexByte(v, 0) >= 0 || strings.IndexByte(v, '=') < 1 {
			return fmt.Errorf("%w: Env must be of the form NAME=value, without a NUL byte", sandbox.ErrInvalid)
		}
	}
	return nil
}

// mergeEnv puts lists of variables together: a later value wins, at the place of the first.
func mergeEnv(lists ...[]string) []string {
	var all []string
	at := map[string]int{}
	for _, list := range lists {
		for _, v := range list {
			name, _, _ := strings.Cut(v, "=")
			if i, ok := at[name]; ok {
				all[i] = v
				continue
			}
			at[name] = len(all)
			all = append(all, v)
		}
	}
	return all
}

// boxStream is a command's stdout or stderr.
type boxStream struct {
	out    *boxOutput
	stream sandbox.Stream
}

func (w boxStream) Write(p []byte) (int, error) { return w.out.write(w.stream, p) }

// newBoxStdin returns a reader of r that gives up when done is closed. r is
// read only while somebody reads, and never ahead, so that it is its owner's
// again when the command has returned; only a Read that was given up may still hang in it.
func newBoxStdin(done <-chan struct{}, r io.Reader) io.Reader {
	if r == nil {
		return strings.NewReader("")
	}
	return &boxStdin{done: done, r: r}
}

type boxStdin struct {
	done <-chan struct{}

	mu   sync.Mutex
	r    io.Reader
	over error // why nothing more is read
}

func (s *boxStdin) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
		s.over = io.ErrClosedPipe
	default:
	}
	if s.over != nil {
		return 0, s.over
	}
	type result struct {
		data []byte
		err  error
	}
	got := make(chan result, 1)
	go func() {
		buf := make([]byte, min(len(p), 32<<10))
		n, err := s.r.Read(buf)
		got <- result{buf[:n], err}
	}()
	select {
	case <-s.done:
		s.over = io.ErrClosedPipe
		return 0, s.over
	case r := <-got:
		s.over = r.err
		return copy(p, r.data), r.err
	}
}
