package sandboxtest_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/bunkroom/bunkroom/sandbox"
)

// brokenLimits are providers that each hold limits wrongly in one way.
var brokenLimits = map[string]brokenProvider{
	"hides that it holds limits":    {"Limits/Caps", func(p sandbox.Provider) *provider { return &provider{Provider: claiming{p, 0}} }},
	"claims every limit":            {"Limits/Caps", func(p sandbox.Provider) *provider { return &provider{Provider: claiming{p, 1<<7 - 1}} }},
	"drops what it can't hold":      {"Limits/Refused", limited(func(c *sandbox.Cmd) { c.Limits.TreeCPU = 0 })},
	"holds a tree's as a process's": {"Limits/Refused", limited(func(c *sandbox.Cmd) { c.Limits.ProcessMemory, c.Limits.TreeMemory = c.Limits.TreeMemory, 0 })},
	"refuses without a name": {"Limits/Refused", handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			p, err := h.Sandbox.Start(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%w: %v", sandbox.ErrUnsupported, err)
			}
			return p, nil
		}
	})},
	"drops the bound of a disk": {"Limits/Disk", bounding(func(r *sandbox.CreateRequest, _ sandbox.Provider) { r.Spec.MachineDisk = 0 })},
	"makes what it refuses": {"Limits/Disk", bounding(func(r *sandbox.CreateRequest, p sandbox.Provider) {
		made := *r
		made.Spec.MachineDisk = 0
		p.Create(context.Background(), made)
	})},
	"runs what it refuses": {"Limits/Refused", handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			p, refused := h.Sandbox.Start(ctx, c)
			if refused == nil {
				return p, nil
			}
			c.Limits = sandbox.Limits{}
			if p, err := h.Sandbox.Start(ctx, c); err == nil {
				p.Wait(ctx)
			}
			return nil, refused
		}
	})},
	"takes less than nothing for nothing": {"Limits/Invalid", limited(func(c *sandbox.Cmd) { c.Limits.ProcessMemory = max(c.Limits.ProcessMemory, 0) })},
	"holds a thousandth":                  {"Limits/Ample", limited(func(c *sandbox.Cmd) { c.Limits.ProcessMemory /= 1000 })},
	"says nothing of limits": {"Limits/CPUTime", processes(func(p *process) {
		p.wait = func(ctx context.Context) (sandbox.Exit, error) {
			exit, err := p.Process.Wait(ctx)
			if exit.Reason == sandbox.LimitReached {
				exit.Reason = sandbox.Signalled
			}
			return exit, err
		}
	})},
	"forgets the processor time": {"Limits/CPUTime", limited(func(c *sandbox.Cmd) { c.Limits.ProcessCPUTime = 0 })},
	"takes time for processor time": {"Limits/CPUTime", handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			of := c.Limits.ProcessCPUTime
			if of > 0 {
				c.Timeout, c.Limits.ProcessCPUTime = of, 0
			}
			p, err := h.Sandbox.Start(ctx, c)
			if err != nil || of == 0 {
				return p, err
			}
			return &process{Process: p, wait: func(ctx context.Context) (sandbox.Exit, error) {
				exit, err := p.Wait(ctx)
				if exit.Reason == sandbox.TimedOut {
					exit.Reason = sandbox.LimitReached
				}
				return exit, err
			}}, nil
		}
	})},
	"forgets a tree's memory": {"Limits/TreeMemory", forgets(sandbox.LimitTreeMemory, func(c *sandbox.Cmd) { c.Limits.TreeMemory = 0 })},
	"gives each as much memory as all": {"Limits/TreeMemory", forgets(sandbox.LimitTreeMemory, func(c *sandbox.Cmd) {
		c.Limits.ProcessMemory, c.Limits.TreeMemory = c.Limits.TreeMemory, 0
	})},
	"forgets a tree's processors": {"Limits/TreeCPU", forgets(sandbox.LimitTreeCPU, func(c *sandbox.Cmd) { c.Limits.TreeCPU = 0 })},
	"forgets the memory":          {"Limits/Memory", limited(func(c *sandbox.Cmd) { c.Limits.ProcessMemory = 0 })},
	"forgets the size of files":   {"Limits/FileSize", limited(func(c *sandbox.Cmd) { c.Limits.ProcessFileSize = 0 })},
}

// bounding does something to a Create with a bound of the disk before it is one.
func bounding(change func(*sandbox.CreateRequest, sandbox.Provider)) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		return &provider{Provider: p, create: func(ctx context.Context, r sandbox.CreateRequest) (sandbox.Machine, error) {
			if r.Spec.MachineDisk > 0 {
				change(&r, p)
			}
			return p.Create(ctx, r)
		}}
	}
}

// brokenTreeLimits are those that need a provider which holds TreeProcesses.
var brokenTreeLimits = map[string]brokenProvider{
	"forgets how many there are": {"Limits/TreeProcesses", limited(func(c *sandbox.Cmd) { c.Limits.TreeProcesses = 0 })},
	"has room for half":          {"Limits/TreeProcesses", limited(func(c *sandbox.Cmd) { c.Limits.TreeProcesses /= 2 })},
	"counts a tree for a user": {"Limits/UserProcesses", forgets(sandbox.LimitUserProcesses, func(c *sandbox.Cmd) {
		c.Limits.TreeProcesses, c.Limits.UserProcesses = c.Limits.UserProcesses, 0
	})},
	"is of no use after a fork bomb": {"Limits/Fork", func(p sandbox.Provider) *provider {
		var bombed atomic.Bool
		return limited(func(c *sandbox.Cmd) {
			if bombed.Load() {
				c.Argv = []string{"false"}
			}
			if c.Limits.TreeProcesses > 0 {
				bombed.Store(true)
			}
		})(p)
	}},
}

// claiming is a provider that claims to hold these limits.
type claiming struct {
	sandbox.Provider
	limits sandbox.LimitSet
}

func (c claiming) Info() sandbox.Info {
	i := c.Provider.Info()
	i.Caps.Limits = c.limits
	return i
}

// forgets is a provider that claims to hold a limit too, and changes every command instead.
func forgets(l sandbox.LimitSet, change func(*sandbox.Cmd)) func(sandbox.Provider) *provider {
	return func(p sandbox.Provider) *provider {
		q := limited(change)(p)
		q.Provider = claiming{p, p.Info().Caps.Limits | l}
		return q
	}
}

// limited changes every command before it is started.
func limited(change func(*sandbox.Cmd)) func(sandbox.Provider) *provider {
	return handles(func(h *handle) {
		h.start = func(ctx context.Context, c sandbox.Cmd) (sandbox.Process, error) {
			change(&c)
			return h.Sandbox.Start(ctx, c)
		}
	})
}
