//go:build linux

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// launchConfined starts a process beside the machine's init. It returns once
// the program itself has been executed, or surely won't be.
//
// Bubblewrap's monitor stays outside as its parent. It tells first the
// process's id, then, but only where the program was executed, its exit code.
// In between the process sets up what it will see, and waits for us.
func (h *handle) launchConfined(ctx context.Context, p *process, argv, env []string, dir string, stdio []*os.File, script *os.File) (func() (outcome, error), error) {
	word := ""
	if p.size != nil {
		word = newID()
		argv = onTerminal(word, argv)
	}
	calls, err := h.p.view.filterFile()
	if err != nil {
		return nil, err
	}
	defer calls.Close()
	said, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer tell.Close()
	held, release, err := os.Pipe()
	if err != nil {
		said.Close()
		return nil, err
	}
	defer held.Close()
	defer release.Close()

	var monitor *os.Process
	var init *initProc
	p.began = time.Now()
	err = h.p.joined(ctx, h.m, func(i *initProc) (err error) {
		init = i
		if p.ttyOpen != nil && i.uid != 0 { // the program opens its terminal by name
			if err := p.ttyOpen.Chown(i.uid, i.uid); err != nil {
				return err
			}
		}
		binds := mounted(h.binds)
		as := i.guise(h.p.view, h.m.dir, binds)
		view := h.p.view.processArgs(as, h.m.dir, p.seal(), binds, dir, env)
		files := append(stdio, nil, tell, held, i.parent, i.user, i.pids, calls)
		if script != nil {
			view = append([]string{"--file", "10", insideScript}, view...)
			files = append(files, script)
		}
		args, err := argFile(view)
		if err != nil {
			return err
		}
		defer args.Close()
		files[len(stdio)] = args
		monitor, err = spawn(i.net, h.p.bwrap, append([]string{
			"bwrap", "--args", "3", "--json-status-fd", "4", "--block-fd", "5",
			"--userns", "6", "--userns2", "7", "--pidns", "8", "--seccomp", "9", "--",
		}, argv...), marks(h.m, p), files, as, without(h.colour))
		return err
	})
	if err != nil {
		said.Close()
		if errors.Is(err, syscall.E2BIG) {
			err = fmt.Errorf("%w: %w", sandbox.ErrNotStarted, err)
		}
		return nil, err
	}
	tell.Close()
	held.Close()
	for _, f := range stdio {
		f.Close()
	}

	c := &child{
		p: p, word: word, monitor: monitor, said: said, lines: bufio.NewReader(said), host: h.p.host, machine: init.fs,
		restrain: func(pid int) error { return p.restrain(h.p.cgroups, h.p.limits, pid, init.uid, undumped()) },
	}
	if err := c.begin(ctx, release); err != nil {
		if ctx.Err() == nil && !init.alive(h.p.host) {
			err = fmt.Errorf("%w: %w", errInitDying, err)
		}
		return nil, err
	}
	return c.wait, nil
}

// child is a confined process as bubblewrap's monitor tells of it.
type child struct {
	p       *process
	word    string // of takeTerminal; empty where there is no terminal
	monitor *os.Process
	said    *os.File
	lines   *bufio.Reader
	host    procfs
	machine procfs

	restrain func(pid int) error // gives it its limits
}

// begin lets the process go once it is known, and waits until it has executed its program.
func (c *child) begin(ctx context.Context, release *os.File) error {
	c.said.SetReadDeadline(time.Now().Add(startLimit))
	defer context.AfterFunc(ctx, func() { c.said.SetReadDeadline(time.Unix(1, 0)) })()
	pid, err := c.first()
	if err != nil {
		return c.failed(ctx, err)
	}
	s, err := c.host.stat(pid)
	if err != nil {
		return c.failed(ctx, err)
	}
	inside, err := c.host.inside(pid)
	if err != nil {
		return c.failed(ctx, errors.New("it ended while it was being set up"))
	}
	c.p.hostPID = pid
	c.p.kin = &tree{
		fs: c.machine, mark: []string{processVar + "=" + c.p.id}, sealed: c.machine.sealed(func(id, _ string) bool { return id == c.p.id }),
		pid: inside, birth: c.p.began, reaped: c.p.isReaped,
	}
	if err := c.restrain(pid); err != nil {
		return c.failed(ctx, err)
	}
	if _, err := release.Write([]byte{'\n'}); err != nil {
		return c.failed(ctx, err)
	}
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		taking := c.taking(pid)
		now, err := c.host.stat(pid)
		ran := now.ran() && !taking && (c.word == "" || !now.dying()) // the shell of a terminal is not the program yet
		switch {
		case err != nil || now.start != s.start: // over already: did it run?
			return c.judge(ctx)
		case ran:
			return nil
		case now.dead():
			return c.judge(ctx)
		case now.state == stopped: // by what runs beside it: nobody else would, and nobody would let it go on
			return c.failed(ctx, errors.New("it was stopped while it was being set up"))
		case ctx.Err() != nil:
			return c.failed(ctx, ctx.Err())
		}
		time.Sleep(pause)
	}
}

// first reads the id that the process has on the host.
func (c *child) first() (int, error) {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	var started struct {
		PID int `json:"child-pid"`
	}
	err = json.Unmarshal(line, &started)
	return started.PID, err
}

// judge looks whether the monitor has an exit code to tell, as it has if the program ran.
func (c *child) judge(ctx context.Context) error {
	if _, err := c.lines.Peek(1); err != nil {
		return c.failed(ctx, err)
	}
	if c.refused() {
		return c.failed(ctx, errors.New("it was not executed"))
	}
	return nil
}

// failed ends what there is of a process that has not run, and says why it did not.
func (c *child) failed(ctx context.Context, err error) error {
	all := &tree{fs: c.host, host: true, mark: []string{processVar + "=" + c.p.id}, pid: c.monitor.Pid, birth: c.p.began, reaped: func() bool { return false }}
	all.kill(time.Now().Add(stopMargin))
	c.monitor.Wait()
	c.said.Close()
	if e := ctx.Err(); e != nil {
		return e
	}
	c.p.unplug()
	limit := time.After(time.Second)
	for _, pipe := range c.p.pipes {
		select {
		case <-pipe.ended:
		case <-limit:
		}
	}
	text := strings.TrimSpace(strings.TrimPrefix(c.p.out.text(), c.word+": "))
	if text != "" {
		return fmt.Errorf("%w: %s", sandbox.ErrNotStarted, strings.TrimPrefix(text, "bwrap: "))
	}
	return fmt.Errorf("%w: %w", sandbox.ErrNotStarted, err)
}

// ambiguous is the exit code that some programs use for "wrong usage" and that
// would also mean SIGHUP.
const ambiguous = 128 + int(syscall.SIGHUP)

// wait waits for the end. The monitor tells a signal as 128 and its number,
// as shells do, and so this can't be told from a program that ends with such a code.
func (c *child) wait() (outcome, error) {
	defer c.said.Close()
	state, err := c.monitor.Wait()
	if err != nil {
		return outcome{}, err
	}
	var line []byte
	for range 2 { // the end of the context may just have set another deadline
		c.said.SetReadDeadline(time.Now().Add(lastBytes))
		if line, err = c.lines.ReadBytes('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	var ended struct {
		Code *int `json:"exit-code"`
	}
	if err != nil || json.Unmarshal(line, &ended) != nil || ended.Code == nil {
		return outcome{}, fmt.Errorf("bubblewrap told no exit code (%v)", state)
	}
	return outcome{code: *ended.Code, signal: signalOf(*ended.Code)}, nil
}

// signalOf is the signal that an exit code tells of, or 0.
func signalOf(code int) syscall.Signal {
	if code > ambiguous && code <= 128+int(syscall.SIGSYS) {
		return syscall.Signal(code - 128)
	}
	return 0
}
