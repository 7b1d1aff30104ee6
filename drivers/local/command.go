//go:build linux

package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// defaultPath is where programs are looked for: as on any Unix, and where Go is usually put.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"

// checkCmd refuses what can't be a command, and names the field.
func checkCmd(c sandbox.Cmd) error {
	switch {
	case c.Script == "" && (len(c.Argv) == 0 || c.Argv[0] == ""):
		return fmt.Errorf("%w: Argv must name a program", sandbox.ErrInvalid)
	case hasNUL(c.Script):
		return fmt.Errorf("%w: Script must not hold a NUL byte", sandbox.ErrInvalid)
	case slices.ContainsFunc(c.Argv, hasNUL):
		return fmt.Errorf("%w: Argv must not hold a NUL byte", sandbox.ErrInvalid)
	case hasNUL(c.Dir):
		return fmt.Errorf("%w: Dir must not hold a NUL byte", sandbox.ErrInvalid)
	case c.Timeout < 0:
		return fmt.Errorf("%w: Timeout must not be negative", sandbox.ErrInvalid)
	case c.KillGrace < 0:
		return fmt.Errorf("%w: KillGrace must not be negative", sandbox.ErrInvalid)
	case c.OutputLimit < 0:
		return fmt.Errorf("%w: OutputLimit must not be negative", sandbox.ErrInvalid)
	}
	if err := sandbox.CheckTag(c.Tag); err != nil {
		return err
	}
	return checkEnv(c.Env)
}

func checkEnv(env []string) error {
	for i, e := range env {
		if strings.IndexByte(e, '=') < 1 || hasNUL(e) {
			return fmt.Errorf("%w: Env[%d] must be NAME=value without a NUL byte", sandbox.ErrInvalid, i)
		}
	}
	return nil
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// environ is the environment of a process: the last of several values wins,
// and the marks by which it is found again can't be taken from it.
func environ(lists ...[]string) []string {
	var env []string
	for _, list := range lists {
		for _, e := range list {
			name, _, _ := strings.Cut(e, "=")
			if i := slices.IndexFunc(env, func(o string) bool { return len(o) > len(name) && o[len(name)] == '=' && o[:len(name)] == name }); i >= 0 {
				env[i] = e
			} else {
				env = append(env, e)
			}
		}
	}
	return env
}

// variable is the value of a variable in env.
func variable(env []string, name string) string {
	for _, e := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
