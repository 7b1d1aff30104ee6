package e2e

import (
	"bytes"
	"encoding/json"
	"net/rpc"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// process is a replica that runs, as its test sees it.
type process struct {
	*rpc.Client
	t    testing.TB
	as   role
	cmd  *exec.Cmd
	errs bytes.Buffer
	once sync.Once
}

// start starts a replica. It ends with the test.
func start(t testing.TB, as role) *process {
	t.Helper()
	p, err := launch(t, as)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func launch(t testing.TB, as role) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(as)
	if err != nil {
		return nil, err
	}
	p := &process{t: t, as: as, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	p.cmd.Stderr = &p.errs
	p.cmd.SysProcAttr = diesWithTest()
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.Client = rpc.NewClient(stdio{out, in})
	t.Cleanup(p.kill)
	return p, nil
}

// kill ends the process with SIGKILL, and returns when it is gone.
func (p *process) kill() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = p.Client.Close()
		if p.t.Failed() && p.errs.Len() > 0 {
			p.t.Logf("%s said: %s", p.as.Name, p.errs.String())
		}
	})
}

// must makes a call that must not be refused.
func must[A, R any](t testing.TB, p *process, method string, args A, reply R) R {
	t.Helper()
	if err := p.Call("Replica."+method, args, reply); err != nil {
		t.Fatalf("%s by %s: %v", method, p.as.Name, err)
	}
	return reply
}
