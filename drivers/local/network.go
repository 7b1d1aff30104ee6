//go:build linux

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// networkFile, in a machine's directory, holds the rules that the machine was given, if it was.
const networkFile = "network.json"

// network is what a machine's processes may reach. A nil one is the host's.
type network struct {
	Token string               `json:"token"`
	Rules []sandbox.EgressRule `json:"rules"`
}

// readNetwork reads the rules of the machine in dir. What can't be read is an
// error and never taken for no rules.
func readNetwork(dir string) (*network, error) {
	b, err := os.ReadFile(filepath.Join(dir, networkFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var n network
	if err := json.Unmarshal(b, &n); err != nil || n.Token == "" {
		return nil, fmt.Errorf("local: %s: no rules of a network (%w)", filepath.Join(dir, networkFile), err)
	}
	return &n, nil
}

// token is empty for the host's network.
func (n *network) token() string {
	if n == nil {
		return ""
	}
	return n.Token
}

// proxied reports whether there is anybody to be reached through a proxy.
func (n *network) proxied() bool {
	return n != nil && slices.ContainsFunc(n.Rules, func(r sandbox.EgressRule) bool { return r.Allow })
}

// canGuard reports whether this process may have a socket, and start
// programs, in the network of a machine.
func canGuard() bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Restrict writes the rules down in the machine's directory, so that they last
// as long as the machine, and ends what runs in it with other ones. From then on it has a network of its own,
// out of which only a proxy leads that this package serves: see the package comment.
func (p *Provider) Restrict(ctx context.Context, m sandbox.Ref, rules []sandbox.EgressRule) (token string, err error) {
	if err := p.check(ctx, m); err != nil {
		return "", err
	}
	switch {
	case !p.confined:
		return "", fmt.Errorf("%w: restrict %s: an unconfined process has the host's network", sandbox.ErrUnsupported, m.Name)
	case !p.guarded:
		return "", fmt.Errorf("%w: restrict %s: this process lacks CAP_SYS_ADMIN", sandbox.ErrUnsupported, m.Name)
	case m.Incarnation == "":
		return "", fmt.Errorf("%w: restrict %s: the incarnation must be named", sandbox.ErrInvalid, m.Name)
	}
	if err := policy.CheckRules(rules); err != nil {
		return "", fmt.Errorf("restrict %s: %w", m.Name, err)
	}
	n := network{Token: policy.Token(m.Incarnation, rules), Rules: rules}
	if err := p.restrict(m, n); err != nil {
		return "", fmt.Errorf("restrict %s: %w", m.Name, err)
	}
	return n.Token, nil
}

func (p *Provider) restrict(m sandbox.Ref, n network) error {
	dir := p.dir(m.Name)
	unlock, err := lock(dir, lockFile, syscall.LOCK_EX) // so that no init is started meanwhile
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rec, err := p.find(m.Name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Incarnation != m.Incarnation {
		return sandbox.ErrGone
	}
	if err != nil {
		return err
	}
	has, err := readNetwork(dir)
	if err != nil || has.token() != n.Token {
		if err := writeJSON(filepath.Join(dir, networkFile), n); err != nil {
			return err
		}
	}
	return p.endOther(dir, n.Token)
}

// endOther ends the machine's init, with all that runs there, if it has other
// rules than those of token. The machine's lock is held.
func (p *Provider) endOther(dir, token string) error {
	i, err := readInit(p.host, dir)
	if err != nil || i == nil || i.network == token {
		return err
	}
	return i.kill(p.host)
}

// proxyEnv are the variables by which programs find the machine's proxy. Many
// know only the small ones, some only the large.
func proxyEnv(dir string) []string {
	if n, err := readNetwork(dir); err != nil || !n.proxied() {
		return nil
	}
	var env []string
	for _, name := range []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		env = append(env, name+"=http://"+proxyAddress)
	}
	const own = "localhost,127.0.0.1,::1"
	return append(env, "no_proxy="+own, "NO_PROXY="+own)
}

// inNetwork calls fn on a thread that is in the network of a machine, and ends
// with it. Sockets that fn makes stay there.
func inNetwork(net *os.File, fn func() error) (err error) {
	onceOnThread(func() {
		if err = unix.Setns(int(net.Fd()), unix.CLONE_NEWNET); err != nil {
			err = os.NewSyscallError("setns", err)
			return
		}
		err = fn()
	})
	return err
}
