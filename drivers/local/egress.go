package local

import (
	"context"
	"net"
	"net/netip"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Proxy says how the proxies work that lead out of restricted machines
// ([Provider.Restrict]). The zero value is all defaults.
type Proxy struct {
	// Resolve looks up the addresses of a name; nil: as the host does. What it
	// answers is checked before anything is connected to it.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil: by TCP, from the host.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Connections is how many a machine may have to its proxy at once; 0 means
	// [DefaultConnections]. One more is closed, with 503 where there is time for an answer.
	Connections int
	// Told is called for every request once it is decided, before any of its
	// content goes either way, and must return soon. Several run at once. nil: nobody is told.
	Told func(Connection)
}

// DefaultConnections is the default of Proxy.Connections.
const DefaultConnections = 128

// Connection is what became of one request of a restricted machine to reach somebody.
type Connection struct {
	Machine sandbox.Ref
	Host    string // as it was asked for
	Port    uint16
	To      netip.Addr // what it was connected to; not valid where it was not
	// Err is nil where it was let through. It is a *policy.RefusedError where
	// the rules deny it, and else says why nobody could be reached.
	Err error
	// Allowed and Denied are how many the rules have let through and denied so
	// far, since the machine was last started, with this one.
	Allowed, Denied int64
}
