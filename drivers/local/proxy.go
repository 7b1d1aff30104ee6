//go:build linux

package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// Where the proxy of a machine listens, in the network of that. Nothing runs there before it does.
const (
	proxyPort    = 3128
	proxyAddress = "127.0.0.1:3128"
)

// What a machine may keep the proxy waiting with.
const (
	headerLimit = 30 * time.Second
	idleLimit   = time.Minute
	headerBytes = 64 << 10
)

// proxy leads out of a restricted machine. It understands CONNECT, and HTTP
// in the clear; what goes through a CONNECT it does not open.
type proxy struct {
	machine sandbox.Ref
	rules   []sandbox.EgressRule
	with    Proxy

	ctx    context.Context // ends with the proxy
	cancel context.CancelFunc
	server http.Server
	served chan struct{} // closed once nothing is accepted any more

	mu              sync.Mutex
	open            map[*clientConn]struct{} // nil once the proxy is closed
	allowed, denied int64
}

// serveProxy starts the proxy of a machine whose network is of.
func serveProxy(of *os.File, machine sandbox.Ref, rules []sandbox.EgressRule, with Proxy) (*proxy, error) {
	listener, err := listenIn(of)
	if err != nil {
		return nil, fmt.Errorf("local: proxy: %w", err)
	}
	with.Connections = cmp.Or(with.Connections, DefaultConnections)
	if with.Resolve == nil {
		with.Resolve = resolve
	}
	if with.Dial == nil {
		with.Dial = dial
	}
	x := &proxy{machine: machine, rules: rules, with: with, served: make(chan struct{}), open: map[*clientConn]struct{}{}}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.server = http.Server{
		Handler: x, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerBytes,
		BaseContext: func(net.Listener) context.Context { return x.ctx }, ErrorLog: discard(),
	}
	go func() {
		defer close(x.served)
		x.server.Serve(&clients{listener, x}) // until close
	}()
	return x, nil
}

// listenIn listens in the network of a machine.
func listenIn(network *os.File) (net.Listener, error) {
	var fd int
	err := inNetwork(network, func() (err error) {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return os.NewSyscallError("socket", err)
		}
		if err = unix.Bind(fd, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err == nil {
			err = unix.Listen(fd, unix.SOMAXCONN)
		}
		if err != nil {
			unix.Close(fd)
		}
		return os.NewSyscallError("bind", err)
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "proxy")
	defer f.Close()
	return net.FileListener(f)
}

// close ends the proxy with every connection through it. Closing twice does nothing more.
func (x *proxy) close() {
	x.mu.Lock()
	open := x.open
	x.open = nil
	x.mu.Unlock()
	x.cancel()
	x.server.Close()
	for c := range open {
		c.Close()
	}
	<-x.served
}

// ServeHTTP lets one request through, or answers why not.
func (x *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, port, err := target(r)
	if err != nil {
		http.Error(w, "bunkroom: "+err.Error(), http.StatusBadRequest)
		return
	}
	up, err := x.reach(r.Context(), host, port)
	if refused := (*policy.RefusedError)(nil); errors.As(err, &refused) {
		http.Error(w, fmt.Sprintf("bunkroom: %s: %s", refused.Reason, refused.Hint), http.StatusForbidden)
		return
	}
	if err != nil {
		http.Error(w, "bunkroom: nobody can be reached there", http.StatusBadGateway)
		return
	}
	defer up.Close()
	if r.Method == http.MethodConnect {
		x.tunnel(w, up)
		return
	}
	x.forward(w, r, up)
}

// target is whom a request is for.
func target(r *http.Request) (host string, port uint16, err error) {
	text := ""
	switch {
	case r.Method == http.MethodConnect:
		if host, text, err = net.SplitHostPort(r.Host); err != nil || text == "" {
			return "", 0, errors.New("CONNECT needs a host and a port")
		}
	case r.URL.Scheme == "http" && r.URL.Host != "":
		host, text = r.URL.Hostname(), cmp.Or(r.URL.Port(), "80")
	default:
		return "", 0, errors.New("this is a proxy for HTTP, and for anything else with CONNECT")
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("there is no such port")
	}
	return host, uint16(n), nil
}

// reach connects to a host, if that is allowed, and tells what became of it.
func (x *proxy) reach(ctx context.Context, host string, port uint16) (net.Conn, error) {
	c := Connection{Machine: x.machine, Host: host, Port: port}
	conn, err := x.connect(ctx, &c)
	c.Err = err
	x.mu.Lock()
	if refused := (*policy.RefusedError)(nil); errors.As(err, &refused) {
		x.denied++
	} else {
		x.allowed++
	}
	c.Allowed, c.Denied = x.allowed, x.denied
	x.mu.Unlock()
	if x.with.Told != nil {
		x.with.Told(c)
	}
	return conn, err
}

// connect resolves a name once and connects to what was checked of it, so that
// a name that is resolved to something else the next time leads nowhere else.
func (x *proxy) connect(ctx context.Context, c *Connection) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, headerLimit)
	defer cancel()
	addrs, err := x.admit(ctx, c.Host)
	if err != nil {
		return nil, err
	}
	for _, a := range addrs[:min(len(addrs), mostAddresses)] {
		conn, e := x.with.Dial(ctx, netip.AddrPortFrom(a, c.Port))
		if e == nil {
			c.To = a
			return conn, nil
		}
		err = errors.Join(err, e)
	}
	return nil, err
}

// tunnel passes bytes on, both ways, until both have ended.
func (x *proxy) tunnel(w http.ResponseWriter, up net.Conn) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	// Where the proxy ends, or either end is cut, the other goes with it.
	defer context.AfterFunc(x.ctx, func() { client.Close(); up.Close() })()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(up, client, buffered.Reader) })
	both.Go(func() { pass(client, up, up) })
	both.Wait()
}

// pass copies to to what from has, which r reads. What ends is ended for the
// other side; what breaks is broken for both.
func pass(to, from net.Conn, r io.Reader) {
	_, err := io.Copy(to, r)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		half.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}

// forward passes one request on over up and its answer back.
func (x *proxy) forward(w http.ResponseWriter, r *http.Request, up net.Conn) {
	once := make(chan net.Conn, 1)
	once <- up
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerBytes,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, errors.New("this connection is for one request")
			}
		},
	}
	(&httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: discard(),
		// Whom it is for says the URL, and nothing else: it is what was checked.
		Rewrite: func(p *httputil.ProxyRequest) { p.Out.Host = p.Out.URL.Host },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "bunkroom: nobody answers there", http.StatusBadGateway)
		},
	}).ServeHTTP(w, r)
}
