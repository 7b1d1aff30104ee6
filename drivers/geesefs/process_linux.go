package geesefs

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is the program while it runs.
type process struct {
	cmd   *exec.Cmd
	tail  tail
	ended chan struct{} // closed once it has ended and was waited for
	how   string        // how it ended; set before ended is closed
}

// startProcess starts the program. When this process ends, however it does,
// the program is asked to end: it unmounts and writes out what is on its way.
// Killed, it would lose files that were closed a moment before. It can't go on
// for long where it does not end: nobody renews its credentials any more.
func startProcess(path string, args, env []string) (*process, error) {
	said, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	held, err := again(said)
	if err != nil {
		said.Close()
		says.Close()
		return nil, err
	}
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, "/"
	p.cmd.Stdout, p.cmd.Stderr = says, says
	// The program holds the other end of its own output, too. Else, when this
	// process has ended, its next word would kill it before it has written out.
	p.cmd.ExtraFiles = []*os.File{held}
	// A group of its own, so that what a terminal sends the host goes to the host.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that started the
		// child, so that thread stays here until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		says.Close()
		held.Close()
		started <- err
		if err == nil {
			p.wait(said)
		}
	}()
	if err := <-started; err != nil {
		said.Close()
		return nil, err
	}
	return p, nil
}

// again opens the reading end of a pipe once more. A duplicate would not do: to
// hand it on makes it block, and with it the one that this process reads.
func again(end *os.File) (*os.File, error) {
	raw, err := end.SyscallConn()
	if err != nil {
		return nil, err
	}
	var name string
	if err := raw.Control(func(fd uintptr) { name = "/proc/self/fd/" + strconv.Itoa(int(fd)) }); err != nil {
		return nil, err
	}
	return os.Open(name)
}

// lastWords is how long what a program has started and left may hold its output open.
const lastWords = time.Second

// wait waits for the end of the program and of its output.
func (p *process) wait(said *os.File) {
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		_, _ = io.Copy(&p.tail, said)
	}()
	_ = p.cmd.Wait() // the state says it all
	p.how = p.cmd.ProcessState.String()
	select {
	case <-heard:
	case <-time.After(lastWords):
	}
	said.Close() // which ends the copying
	<-heard
	close(p.ended)
}

// signal sends the program a signal, where it still runs.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }
