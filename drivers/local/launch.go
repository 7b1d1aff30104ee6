//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// launch starts the first process of p in dir. The returned function waits
// for its end, which is to be done once.
func (h *handle) launch(ctx context.Context, p *process, c sandbox.Cmd, dir string) (func() (outcome, error), error) {
	env := h.environment(p, c, dir)
	argv, script, err := h.placeScript(p, c)
	if err != nil {
		return nil, err
	}
	defer script.Close()
	stdio, err := h.connect(p, c)
	if err != nil {
		p.dropScript()
		return nil, err
	}
	var wait func() (outcome, error)
	if h.p.confined {
		p.collect()
		wait, err = h.launchConfined(ctx, p, argv, env, dir, stdio, script)
	} else {
		wait, err = h.launchPlain(p, argv, env, dir, stdio)
		p.collect() // only now: it has its own processor to begin on
	}
	for _, f := range stdio {
		f.Close()
	}
	if err != nil {
		p.disconnect()
		p.group.remove()
		p.dropScript()
		return nil, err
	}
	if c.Stdin != nil { // only now: what is read can't be given back
		go p.feed(c.Stdin)
	}
	return wait, nil
}

// connect makes the input and the outputs of p, and returns the ends for the process.
func (h *handle) connect(p *process, c sandbox.Cmd) (stdio []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range stdio {
				f.Close()
			}
			p.collect()
			p.disconnect()
		}
	}()
	if p.size != nil {
		theirs, err := p.connectTerminal()
		return []*os.File{theirs, theirs, theirs}, err
	}
	var input *os.File
	if c.Stdin == nil {
		input, err = os.Open(os.DevNull)
	} else {
		input, p.input, err = halfPipe(writeEnd)
	}
	if err != nil {
		return nil, err
	}
	stdio = append(stdio, input)
	for _, stream := range []sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		pipe, w, err := openPipe(stream)
		if err != nil {
			return stdio, err
		}
		stdio = append(stdio, w)
		p.pipes = append(p.pipes, pipe)
	}
	return stdio, nil
}

// passes reports whether a start has failed for what the host has no more of for now, so that another may not.
func passes(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// launchPlain starts an ordinary process of the host, in a session of its own.
func (h *handle) launchPlain(p *process, argv, env []string, dir string, stdio []*os.File) (func() (outcome, error), error) {
	program, err := lookPath(argv[0], dir, cmp.Or(variable(env, "PATH"), defaultPath))
	var proc *os.Process
	if err == nil {
		p.began = time.Now()
		attr := os.ProcAttr{Dir: dir, Env: env, Files: stdio, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: p.size != nil}}
		if p.tag != "" {
			err = h.m.admitTag(p.tag)
		}
		if err != nil {
			return nil, err
		}
		if p.tag == "" && !p.limited() {
			proc, err = os.StartProcess(program, argv, &attr)
		} else {
			proc, err = startHeld(program, argv, attr, func(pid int) error { return h.holdPlain(p, pid) }, func() error { return h.loosePlain(p) })
		}
	}
	if passes(err) {
		return nil, err
	}
	if err != nil {
		if info, e := os.Stat(dir); e != nil {
			err = e
		} else if !info.IsDir() {
			err = &fs.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNotStarted, err)
	}
	p.hostPID = proc.Pid
	p.kin = &tree{fs: h.p.host, host: true, mark: []string{processVar + "=" + p.id}, pid: proc.Pid, birth: p.began, reaped: p.isReaped, group: p.group.pids}
	return func() (outcome, error) {
		state, err := proc.Wait()
		if err != nil { // somebody in this process waits for children that are not his
			return outcome{}, err
		}
		status, _ := state.Sys().(syscall.WaitStatus)
		if status.Signaled() {
			return outcome{code: 128 + int(status.Signal()), signal: status.Signal()}, nil
		}
		return outcome{code: state.ExitCode()}, nil
	}, nil
}

// holdPlain gives an unconfined process, which has not begun, what it is to have.
func (h *handle) holdPlain(p *process, pid int) error {
	if p.tag != "" {
		if err := markLocks(pid, lockLimit(h.m.rec.Incarnation, p.tag), func() error { return h.m.admitUnmarked(p.tag) }); err != nil {
			return err
		}
	}
	return p.restrain(h.p.cgroups, h.p.limits, pid, 0)
}

// loosePlain says whether an unconfined process may be started that can't be
// held until it has what it is to have: no limit is then held, and a tag may be missed.
func (h *handle) loosePlain(p *process) error {
	if p.limited() {
		return errUnlimitable
	}
	return h.m.admitUnmarked(p.tag)
}

// lookPath finds a program as a shell would that has the search path list: a
// name with a slash starts at dir.
func lookPath(program, dir, list string) (string, error) {
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		return program, executable(program)
	}
	result := error(&fs.PathError{Op: "exec", Path: program, Err: syscall.ENOENT})
	for _, d := range filepath.SplitList(list) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		path := filepath.Join(d, program)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			result = err
		}
	}
	return "", result
}

func executable(path string) error {
	var st syscall.Stat_t
	err := syscall.Stat(path, &st)
	if err == nil && (st.Mode&syscall.S_IFMT != syscall.S_IFREG || st.Mode&0o111 == 0) {
		err = syscall.EACCES
	}
	if err != nil {
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	return nil
}
