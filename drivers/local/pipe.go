//go:build linux

package local

import (
	"io"
	"os"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// pipe is our end of an output of a process.
type pipe struct {
	r      *os.File
	stream sandbox.Stream
	ended  chan struct{} // closed when nothing is read any more
}

// openPipe returns our end, and the end for the process.
func openPipe(stream sandbox.Stream) (*pipe, *os.File, error) {
	r, w, err := halfPipe(readEnd)
	return &pipe{r: r, stream: stream, ended: make(chan struct{})}, w, err
}

const (
	readEnd  = 0
	writeEnd = 1
)

// halfPipe is os.Pipe for where only one end is used in this process: the
// other is for a child, blocks, and needs no care of the runtime.
func halfPipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err = syscall.SetNonblock(fds[ours], true); err != nil {
		syscall.Close(fds[readEnd])
		syscall.Close(fds[writeEnd])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[readEnd]), "|0"), os.NewFile(uintptr(fds[writeEnd]), "|1"), nil
}

// untold is how much may come before readers are told, while more is there:
// to wake one takes longer than to read.
const untold = 128 << 10

// copy copies all that comes to out.
func (p *pipe) copy(out *output) {
	defer close(p.ended)
	raw, err := p.r.SyscallConn()
	news := 0
	for over := false; err == nil && !over; {
		err = raw.Read(func(fd uintptr) bool {
			n, err := out.fill(p.stream, func(free []byte) (int, error) { return syscall.Read(int(fd), free) })
			news += max(n, 0)
			if news > 0 && (n <= 0 || news >= untold) {
				out.tell()
				news = 0
			}
			over = n <= 0 && err != syscall.EINTR && err != syscall.EAGAIN
			return err != syscall.EAGAIN
		})
	}
}

// close ends the reading, whoever still holds the other end, and waits for that.
func (p *pipe) close() {
	p.r.SetReadDeadline(time.Unix(1, 0))
	<-p.ended
	p.r.Close()
}

// feed copies r to the input of the process. It can't be made to return while
// a Read of r doesn't.
func (p *process) feed(r io.Reader) {
	defer p.input.Close()
	io.Copy(struct{ io.Writer }{p.input}, struct{ io.Reader }{r})
}

// disconnect gives up our ends of the input and the outputs.
func (p *process) disconnect() {
	p.unplug()
	if p.input != nil {
		p.input.Close()
	}
	for _, pipe := range p.pipes {
		pipe.close()
	}
}
