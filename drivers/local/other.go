//go:build !linux

package local

import (
	"context"
	"fmt"
	"iter"
	"runtime"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Provider makes sandboxes on this machine, where that runs Linux.
type Provider struct{}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Lister   = (*Provider)(nil)
	_ sandbox.Reaper   = (*Provider)(nil)
	_ sandbox.Measurer = (*Provider)(nil)
	_ sandbox.Guard    = (*Provider)(nil)
)

// New refuses: there is no provider for this system, confined or not.
func New(Config) (*Provider, error) {
	return nil, &ConfinementError{Err: fmt.Errorf("%w: drivers/local needs Linux, this is %s", sandbox.ErrUnsupported, runtime.GOOS)}
}

// Close does nothing.
func (*Provider) Close() error { return nil }

// Info claims nothing.
func (*Provider) Info() sandbox.Info { return sandbox.Info{Provider: name} }

// Create answers ErrNotSent.
func (*Provider) Create(context.Context, sandbox.CreateRequest) (sandbox.Machine, error) {
	return sandbox.Machine{}, fmt.Errorf("%w: %w", sandbox.ErrNotSent, sandbox.ErrUnsupported)
}

// Inspect answers ErrUnsupported.
func (*Provider) Inspect(context.Context, sandbox.Ref) ([]sandbox.Found, error) {
	return nil, sandbox.ErrUnsupported
}

// Attach answers ErrUnsupported.
func (*Provider) Attach(context.Context, sandbox.Ref) (sandbox.Sandbox, error) {
	return nil, sandbox.ErrUnsupported
}

// List yields ErrUnsupported.
func (*Provider) List(context.Context, string) iter.Seq2[sandbox.Listed, error] {
	return func(yield func(sandbox.Listed, error) bool) { yield(sandbox.Listed{}, sandbox.ErrUnsupported) }
}

// Reap answers ErrUnsupported.
func (*Provider) Reap(context.Context, sandbox.Ref, string) error { return sandbox.ErrUnsupported }

// Measure answers ErrUnsupported.
func (*Provider) Measure(context.Context, sandbox.Ref) (int64, error) {
	return 0, sandbox.ErrUnsupported
}

// Restrict answers ErrUnsupported.
func (*Provider) Restrict(context.Context, sandbox.Ref, []sandbox.EgressRule) (string, error) {
	return "", sandbox.ErrUnsupported
}

// Destroy answers ErrUnsupported.
func (*Provider) Destroy(context.Context, sandbox.Ref) error { return sandbox.ErrUnsupported }
