package geesefs

import (
	"os/exec"
	"runtime"
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
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.tail, &p.tail
	p.cmd.WaitDelay = time.Second // for what it has started and left
	// A group of its own, so that what a terminal sends the host goes to the host.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that started the
		// child, so that thread stays here until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := p.cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = p.cmd.Wait() // the state says it all
		p.how = p.cmd.ProcessState.String()
		close(p.ended)
	}()
	return p, <-started
}

// signal sends the program a signal, where it still runs.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }
