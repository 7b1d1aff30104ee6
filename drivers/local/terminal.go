//go:build linux

package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// terminal is a process on a terminal.
type terminal struct{ *process }

var (
	_ sandbox.TerminalStarter = (*handle)(nil)
	_ sandbox.Terminal        = terminal{}
	_ sandbox.Terminal        = givenTerminal{}
)

// StartTerminal starts a program that has a terminal of its own, which controls
// it: what is typed there can interrupt and stop it, and /dev/tty is it. TERM is xterm-256color, unless Env has
// another. Confined, the terminal has no name below /dev/pts; its only one is /dev/console. A terminal
// ends, Detached or not, with the process of the host that started it.
func (h *handle) StartTerminal(ctx context.Context, c sandbox.Cmd, size sandbox.TerminalSize) (sandbox.Terminal, error) {
	if err := h.check(ctx); err != nil {
		return nil, err
	}
	err := checkCmd(c)
	switch {
	case err != nil:
		return nil, err
	case c.Stdin != nil:
		return nil, fmt.Errorf("%w: Stdin must be nil: a terminal is written to", sandbox.ErrInvalid)
	}
	if err := checkSize(size); err != nil {
		return nil, err
	}
	if c.OutputLimit == 0 {
		c.OutputLimit = sandbox.DefaultScrollback
	}
	p, err := h.start(ctx, c, &size)
	if err != nil {
		return nil, err
	}
	return terminal{p}, nil
}

func checkSize(size sandbox.TerminalSize) error {
	if size.Columns == 0 || size.Rows == 0 {
		return fmt.Errorf("%w: the size of a terminal must be at least one by one", sandbox.ErrInvalid)
	}
	return nil
}

func (t terminal) Write(b []byte) (int, error) {
	if t.isReaped() {
		return 0, t.ended()
	}
	n, err := t.tty.Write(b) // which lets nobody in between
	if err != nil && (t.isReaped() || errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EIO)) {
		err = t.ended()
	}
	return n, err
}

func (t terminal) ended() error {
	return fmt.Errorf("%w: process %s has ended", sandbox.ErrClosed, t.id)
}

func (t terminal) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if err := checkSize(size); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	raw, err := t.tty.SyscallConn()
	if err == nil {
		if e := raw.Control(func(fd uintptr) { err = setSize(int(fd), size) }); e != nil {
			err = e
		}
	}
	if t.isReaped() {
		return nil
	}
	return err
}

func setSize(fd int, size sandbox.TerminalSize) error {
	err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	return os.NewSyscallError("ioctl", err)
}

// givenTerminal is a terminal as it is given to who asks for it by its id.
type givenTerminal struct{ terminal }

// Close gives it up.
func (givenTerminal) Close() error { return nil }

// connectTerminal makes the terminal of p, and returns the end for the
// process. Until that has ended one such end stays open here: it may close
// all of its own, and open them again by the name /dev/tty.
func (p *process) connectTerminal() (theirs *os.File, err error) {
	if p.tty, p.ttyOpen, err = openTerminal(*p.size); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(p.ttyOpen.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		p.tty.Close()
		p.ttyOpen.Close()
		return nil, os.NewSyscallError("fcntl", err)
	}
	screen := newPipe(p.tty, sandbox.Stdout)
	p.pipes = append(p.pipes, screen)
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// openTerminal makes a terminal, and returns our end and the other.
func openTerminal(size sandbox.TerminalSize) (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = setSize(fd, size)
	}
	if err != nil {
		unix.Close(fd)
		return nil, nil, os.NewSyscallError("ioctl", err)
	}
	name := "/dev/pts/" + strconv.Itoa(int(n))
	other, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil, nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), "/dev/ptmx"), os.NewFile(uintptr(other), name), nil
}

// unplug lets the terminal end: nobody types any more, and what is printed ends when no process has it open.
func (p *process) unplug() {
	if p.tty != nil {
		p.tty.SetWriteDeadline(time.Unix(1, 0))
		p.ttyOpen.Close()
	}
}

// takeTerminal is a script that makes the terminal it has as its input the one
// that controls it, as the leader of a session does by opening one, and then
// is the program. Bubblewrap can't do that. Where there is no such program the
// shell says so, as $0, which is a word that no program knows.
const takeTerminal = `exec "$@" <>/proc/self/fd/0`

// onTerminal is what executes argv on its terminal.
func onTerminal(word string, argv []string) []string {
	return append([]string{shell, "-c", takeTerminal, word}, argv...)
}

// taking reports whether the process pid still reads takeTerminal. One that
// is just executing a program or ending has no arguments.
func (c *child) taking(pid int) bool {
	if c.word == "" {
		return false
	}
	var buf [256]byte
	b, _ := c.host.read(strconv.Itoa(pid)+"/cmdline", buf[:])
	return len(b) == 0 || bytes.Contains(b, []byte("\x00"+c.word+"\x00"))
}

// refused reports whether the shell of a terminal, which has ended, could not execute the program.
func (c *child) refused() bool {
	if c.word == "" {
		return false
	}
	c.p.unplug()
	select {
	case <-c.p.pipes[0].ended:
	case <-time.After(lastBytes):
	}
	return strings.HasPrefix(c.p.out.text(), c.word+": ")
}
