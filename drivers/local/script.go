//go:build linux

package local

import (
	"os"
	"path/filepath"

	"github.com/bunkroom/bunkroom/sandbox"
)

// shell reads scripts, whatever the PATH.
const shell = "/bin/sh"

// insideScript is where a confined process has its script: a file in the root
// directory that it has for itself, which neither it nor another can change.
const insideScript = "/var/bunkroom.script"

// processDir holds what is kept of single processes, by their ids.
const processDir = "processes"

// placeScript puts the script of c where the shell will find it, and returns
// what is to be executed. The shell opens it by its path, so that nothing of
// it is open in what it runs in turn. Confined, the file returned is what bubblewrap copies.
func (h *handle) placeScript(p *process, c sandbox.Cmd) (argv []string, script *os.File, err error) {
	if c.Script == "" {
		return c.Argv, nil, nil
	}
	path := insideScript
	if h.p.confined {
		if script, err = textFile("script", c.Script); err != nil {
			return nil, nil, err
		}
	} else {
		path = h.m.ofProcess(p.id, ".sh")
		p.script = path
		if err = h.m.keep(path, []byte(c.Script)); err != nil {
			p.dropScript()
			return nil, nil, err
		}
	}
	return append([]string{shell, path}, c.Argv...), script, nil
}

// ofProcess is the path of what is kept of a process.
func (m *machine) ofProcess(id, what string) string {
	return filepath.Join(m.dir, processDir, id+what)
}

// keep writes a file that is kept of a process, for nobody else to read.
func (m *machine) keep(path string, text []byte) error {
	err := os.WriteFile(path, text, 0o600)
	if os.IsNotExist(err) {
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil || os.IsExist(err) {
			err = os.WriteFile(path, text, 0o600)
		}
	}
	return err
}

// dropScript removes the script, once no shell needs it any more.
func (p *process) dropScript() {
	if p.script != "" {
		os.Remove(p.script)
		p.script = ""
	}
}
