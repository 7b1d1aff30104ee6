//go:build linux

package local

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// clients accepts the connections of a machine to its proxy, so many at once.
type clients struct {
	net.Listener
	x *proxy
}

// busy is what one too many is told.
const busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nbunkroom: too many connections at once\n"

// busyLimit is how long it may take to tell it.
const busyLimit = 10 * time.Millisecond

// Accept returns the next connection that there is room for.
func (l *clients) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &clientConn{Conn: conn, x: l.x}
		switch l.x.enter(c) {
		case entered:
			return c, nil
		case full:
			conn.SetWriteDeadline(time.Now().Add(busyLimit)) // there is room in a new socket
			io.WriteString(conn, busy)
		}
		conn.Close()
	}
}

// admission is what becomes of a connection.
type admission uint8

const (
	entered admission = iota
	full
	closed
)

func (x *proxy) enter(c *clientConn) admission {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.open == nil:
		return closed
	case len(x.open) >= x.with.Connections:
		return full
	}
	x.open[c] = struct{}{}
	return entered
}

// clientConn makes room for another when it is closed.
type clientConn struct {
	net.Conn
	x    *proxy
	once sync.Once
}

func (c *clientConn) Close() error {
	c.once.Do(func() {
		c.x.mu.Lock()
		defer c.x.mu.Unlock()
		delete(c.x.open, c)
	})
	return c.Conn.Close()
}

// CloseWrite ends what is written, and no more.
func (c *clientConn) CloseWrite() error {
	half, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return c.Close()
	}
	return half.CloseWrite()
}

// mostAddresses is how many addresses of one name are tried.
const mostAddresses = 8

// admit returns the addresses that a host may be reached at. The error is a
// *policy.RefusedError where it may not be, and another where there is none.
func (x *proxy) admit(ctx context.Context, host string) ([]netip.Addr, error) {
	if err := policy.CheckHost(x.rules, host); err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = x.with.Resolve(ctx, host); err != nil {
		return nil, err
	}
	err := errors.New("local: the name has no address")
	addrs = slices.Clone(addrs)
	addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		refused := policy.CheckAddress(a)
		if refused == nil {
			refused = checkOurs(a)
		}
		if refused != nil {
			err = refused
		}
		return refused != nil
	})
	if len(addrs) > 0 {
		err = nil
	}
	return addrs, err
}

// checkOurs refuses an address of this host, which may be a public one: what
// listens there for its neighbours does not listen for its sandboxes.
func checkOurs(a netip.Addr) error {
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, its := range ours {
		p, err := netip.ParsePrefix(its.String())
		if err == nil && p.Addr().Unmap() == a.Unmap().WithZone("") {
			return &policy.RefusedError{Reason: policy.AddressInternal, Hint: "The sandbox may not connect to its own host."}
		}
	}
	return nil
}

// resolve looks a name up as it stands: the host's search domains would make others of it.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", strings.TrimSuffix(host, ".")+".")
}

// dialLimit is how long one address may take to answer.
const dialLimit = 10 * time.Second

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", to.String())
}

// discard is where the complaints of HTTP go about a client that breaks off.
func discard() *log.Logger { return log.New(io.Discard, "", 0) }
