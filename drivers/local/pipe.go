//go:build linux

package local

import (
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
)

// pipe is our end of an output of a process.
type pipe struct {
	r       *os.File
	raw     syscall.RawConn           // r's
	fd      int                       // r's too, while raw is used
	read    func([]byte) (int, error) // readNow
	stream  sandbox.Stream
	back    chan struct{} // a reader that has read in place of copy gives it back to that
	closing atomic.Bool
	shut    chan struct{} // closed with closing
	wide    bool          // it was made to hold more
	ended   chan struct{} // closed when nothing is read any more
}

func newPipe(r *os.File, stream sandbox.Stream) *pipe {
	return &pipe{r: r, stream: stream, back: make(chan struct{}, 1), shut: make(chan struct{}), ended: make(chan struct{})}
}

// openPipe returns our end, and the end for the process.
func openPipe(stream sandbox.Stream) (*pipe, *os.File, error) {
	r, w, err := halfPipe(readEnd)
	return newPipe(r, stream), w, err
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

// A pipe holds pipeSize at first. One that was found full is made to hold
// wideSize, so that its writer is stopped less often; more than that would no longer be near the processor.
const (
	pipeSize = 64 << 10
	wideSize = 256 << 10
)

// copy copies all that comes to out.
func (p *pipe) copy(out *output) {
	defer close(p.ended)
	var err error
	if p.raw, err = p.r.SyscallConn(); err == nil {
		err = p.raw.Control(func(fd uintptr) { p.fd, p.read = int(fd), p.readNow })
	}
	news := 0
	for over := false; err == nil && !over; {
		taken := false
		var room <-chan struct{}
		err = p.raw.Read(func(uintptr) bool {
			var n int
			var err error
			if n, room, err = out.take(p.stream, p.read); room != nil {
				return true
			}
			news += max(n, 0)
			over = isEnd(n, err)
			if news > 0 && (n <= 0 || news >= untold) {
				taken = out.tell(p, !over)
				news = 0
			}
			return taken || err != syscall.EAGAIN
		})
		if room != nil {
			out.tell(p, false)
			news = 0
			out.await(room, p)
		}
		if taken {
			<-p.back
			p.patience()
		}
	}
}

// isEnd reports whether nothing comes after what a read has returned.
func isEnd(n int, err error) bool {
	return n <= 0 && err != syscall.EINTR && err != syscall.EAGAIN
}

// readNow reads what there is, into free. It never blocks.
func (p *pipe) readNow(free []byte) (int, error) {
	n, err := syscall.Read(p.fd, free)
	if n >= pipeSize && !p.wide {
		p.wide = true
		_, _ = unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, wideSize) // else it stays as it is
	}
	return n, err
}

// waiting reports whether there is something to read, or the end.
func (p *pipe) waiting() bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil
}

// hurry ends a wait for what comes, and all that begin before patience.
func (p *pipe) hurry() { p.r.SetReadDeadline(time.Unix(1, 0)) }

func (p *pipe) patience() {
	p.r.SetReadDeadline(time.Time{})
	if p.closing.Load() {
		p.hurry()
	}
}

// close ends the reading, whoever still holds the other end, and waits for that.
func (p *pipe) close() {
	if p.closing.CompareAndSwap(false, true) {
		close(p.shut)
	}
	p.hurry()
	<-p.ended
	p.r.Close()
}

// collect begins to copy what comes through the pipes.
func (p *process) collect() {
	for _, pipe := range p.pipes {
		go pipe.copy(&p.out)
	}
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
