//go:build linux

package local

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Provider makes sandboxes on this machine. It is made by [New] and is for any number of goroutines.
type Provider struct {
	root     string
	confined bool
	bwrap    string
	view     *view
	hostID   string
	host     procfs
	guarded  bool // the network of a machine can be restricted
	proxy    Proxy
	log      *slog.Logger
	uids     UIDRange
	cgroups  cgroups
	limits   mechanisms

	past past

	mu       sync.Mutex
	closed   bool
	machines map[sandbox.Incarnation]*machine
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Lister   = (*Provider)(nil)
	_ sandbox.Reaper   = (*Provider)(nil)
	_ sandbox.Measurer = (*Provider)(nil)
	_ sandbox.Guard    = (*Provider)(nil)
)

// New returns a provider of the machines below c.Root, and finishes what
// earlier ones left half removed there. It tries the confinement once, by
// running a program in it. A bad field is an access.FieldError; where
// confinement is not to be had, the error is a [*ConfinementError].
func New(c Config) (*Provider, error) {
	c.System = slices.Clone(c.System)
	if err := c.prepare(); err != nil {
		return nil, err
	}
	p := &Provider{
		root: c.Root, confined: !c.Unconfined, bwrap: c.Bwrap, uids: c.UIDs, log: c.Log, proxy: c.Proxy,
		machines: map[sandbox.Incarnation]*machine{},
		past:     past{of: map[sandbox.Incarnation][]*bygone{}},
	}
	var err error
	if p.hostID, err = hostID(c.Root); err != nil {
		return nil, err
	}
	if p.cgroups, err = c.cgroups(p.hostID); err != nil {
		return nil, err
	}
	if p.host, err = openProcfs("/proc"); err != nil {
		return nil, err
	}
	p.limits = decideLimits(p.means())
	p.guarded = p.confined && canGuard()
	if p.confined {
		if p.view, err = makeView(c); err == nil {
			err = p.tryOut()
		}
		if err != nil {
			p.host.close()
			return nil, &ConfinementError{Bwrap: c.Bwrap, Err: err}
		}
	}
	p.sweep()
	return p, nil
}

// tryOut runs a program in a machine that is made for that.
func (p *Provider) tryOut() error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	dir, rec, err := p.build(sandbox.CreateRequest{Name: "probe"})
	if err != nil {
		return err
	}
	defer p.giveBack(rec.Incarnation)
	defer os.RemoveAll(dir)
	m, err := openMachine(dir, "probe", rec, p.log)
	if err != nil {
		return err
	}
	m.put = func() {}
	m.enter()
	defer m.forget()
	defer p.release(m)
	h, err := newHandle(p, m)
	if err != nil {
		return err
	}
	defer h.Close()
	proc, err := h.start(ctx, sandbox.Cmd{Argv: []string{"true"}}, nil)
	if err != nil {
		return err
	}
	defer proc.Close()
	exit, err := proc.Wait(ctx)
	if err == nil && (exit.Reason != sandbox.Exited || exit.Code != 0) {
		err = fmt.Errorf("true %v with code %d: %s", exit.Reason, exit.Code, proc.out.text())
	}
	return err
}

// Close ends every confined process of the machines whose init this process
// began, gives up the rest, and leaves all machines and their files.
// Handles are of no use afterwards, and neither is the provider. Closing twice succeeds.
func (p *Provider) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	machines := slices.Collect(maps.Values(p.machines))
	clear(p.machines)
	p.mu.Unlock()
	if closed {
		return nil
	}
	for _, m := range machines {
		m.gate.Lock()
		m.closed = true
		m.gate.Unlock()
	}
	for _, m := range machines {
		var mine []*process
		for _, proc := range m.running() {
			if p.confined || !proc.detached {
				mine = append(mine, proc)
			}
		}
		stopAll(mine, sandbox.Cancelled)
		p.release(m)
		m.forget()
	}
	p.past.close()
	return nil
}

// Info names the provider and this host.
func (p *Provider) Info() sandbox.Info {
	egress := sandbox.EgressOpen
	if p.guarded {
		egress = sandbox.EgressGuarded
	}
	return sandbox.Info{Provider: name, Host: p.hostID, Caps: sandbox.Caps{
		HostBound:       true,
		ShellConfined:   p.confined,
		BindsPerProcess: p.confined,
		BindsWorkdir:    p.confined,
		Egress:          egress,
		Limits:          p.limits.held(),
		CreateHorizon:   sandbox.Immediate,
		VisibilityLag:   sandbox.Immediate,
		UniqueNames:     true,
		KillBy:          sandbox.KillByIncarnation,
	}}
}

func (p *Provider) dir(machine string) string { return filepath.Join(p.root, machinesDir, machine) }

func (p *Provider) usable(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("%w: the provider was closed", sandbox.ErrClosed)
	}
	return ctx.Err()
}

// check refuses a ref that can't be one of ours.
func (p *Provider) check(ctx context.Context, ref sandbox.Ref) error {
	if err := p.usable(ctx); err != nil {
		return err
	}
	if ref.Host != "" && ref.Host != p.hostID {
		return fmt.Errorf("%w: %s", sandbox.ErrWrongHost, ref.Name)
	}
	if ref.Provider != "" && ref.Provider != name {
		return fmt.Errorf("%w: %s is a machine of the provider %q", sandbox.ErrInvalid, ref.Name, ref.Provider)
	}
	return checkName(ref.Name)
}

// checkName accepts what can be one element of a path and nothing else, which
// sandbox.Name always is.
func checkName(name string) error {
	ok := name != "" && len(name) <= 128 && name[0] != '.' && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
	}
	if !ok {
		return fmt.Errorf("%w: Name %q must be 1 to 128 letters, digits, dots, dashes or underscores", sandbox.ErrInvalid, name)
	}
	return nil
}
