package geesefs

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
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

// startProcess starts the program. It is killed when this process ends: what it
// had not written out is lost, as in a power cut, while a program that
// outlived its host would write into a folder that the next host serves.
func startProcess(path string, args, env []string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = env, "/"
	p.cmd.Stdout, p.cmd.Stderr = &p.tail, &p.tail
	p.cmd.WaitDelay = time.Second // for what it has started and left
	// A group of its own, so that what a terminal sends the host goes to the host.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
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

// tailBytes is how much is kept of what a program says.
const tailBytes = 4 << 10

// mountedText is what the program says once it has mounted.
const mountedText = "successfully mounted"

// tail keeps the end of what the program says, and whether it said that it has mounted.
type tail struct {
	mu      sync.Mutex
	text    []byte
	mounted bool
}

// hasMounted reports whether it said so.
func (t *tail) hasMounted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mounted
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.mounted = t.mounted || bytes.Contains(t.text, []byte(mountedText))
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
