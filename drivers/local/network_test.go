//go:build linux

package local_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

// town is a few names with their addresses, behind each of which the same server answers.
type town struct {
	names map[string][]string

	mu     sync.Mutex
	asked  []string // names that were resolved
	dialed []string // what was connected to
	told   []local.Connection
}

// proxy is a way into the town; server is who answers.
func (w *town) proxy(server string) local.Proxy {
	return local.Proxy{
		Resolve: func(_ context.Context, host string) (all []netip.Addr, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, host)
			for _, a := range w.names[host] {
				all = append(all, netip.MustParseAddr(a))
			}
			if all == nil {
				return nil, errors.New("no such host")
			}
			return all, nil
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, to.String())
			w.mu.Unlock()
			return new(net.Dialer).DialContext(ctx, "tcp", server)
		},
		Told: func(c local.Connection) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, c)
		},
	}
}

// seen is what was dialed since the last time.
func (w *town) seen() (dialed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dialed, w.dialed = w.dialed, nil
	return dialed
}

// guarded returns a provider with a way into w, and what restricts its machines.
func guarded(t *testing.T, with local.Proxy) (*local.Provider, func(ref sandbox.Ref, rules ...sandbox.EgressRule) string) {
	t.Helper()
	p := openWith(t, local.Config{Root: t.TempDir(), Proxy: with})
	return p, func(ref sandbox.Ref, rules ...sandbox.EgressRule) string {
		t.Helper()
		token, err := p.Restrict(deadline(t), ref, rules)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

func allowing(hosts ...string) (rules []sandbox.EgressRule) {
	for _, h := range hosts {
		rules = append(rules, sandbox.EgressRule{Host: h, Allow: true})
	}
	return rules
}

// asRoot reports whether this process may enter a machine's network, and says so where it may not.
func asRoot(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() == 0 {
		return true
	}
	p := open(t, false)
	if _, err := p.Restrict(deadline(t), create(t, p, "m-g1"), nil); !errors.Is(err, sandbox.ErrUnsupported) || p.Info().Caps.Egress != sandbox.EgressOpen {
		t.Errorf("an ordinary user restricts: %v", err)
	}
	return false
}

// What a machine asks of its proxy goes where the rules allow and nowhere
// else, by the address that was checked, and each request is told.
func TestProxy(t *testing.T) {
	if !asRoot(t) {
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "http://other.example.org/", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, r.Method+" "+r.Host+r.URL.RequestURI()+" "+strings.ToUpper(string(body))+r.Header.Get("Proxy-Authorization"))
	}))
	defer server.Close()
	w := &town{names: map[string][]string{
		"good.example.com":  {"8.8.8.8"},
		"other.example.org": {"8.8.4.4"},
		"inner.example.com": {"10.0.0.1", "fd00::1", "::ffff:127.0.0.1"},
		"mixed.example.com": {"169.254.169.254", "8.8.8.8"},
		"cloud.example.com": {"169.254.169.254"},
		"alone.example.com": {},
	}}
	p, restrict := guarded(t, w.proxy(server.Listener.Addr().String()))
	ref := create(t, p, "m-g1")
	restrict(ref, allowing("*.example.com")...)
	sb := attach(t, p, ref)
	inside := tool(t, sb)

	cases := []struct {
		rule, script, want string
		dialed             []string
	}{
		{"what is allowed is reached", "get http://good.example.com/a?b=c", "200 GET good.example.com/a?b=c ", []string{"8.8.8.8:80"}},
		{"at the port it names", "get http://good.example.com:8080/", "200 GET good.example.com:8080/ ", []string{"8.8.8.8:8080"}},
		{"with a body, both ways", "post http://good.example.com/ abc", "200 POST good.example.com/ ABC", []string{"8.8.8.8:80"}},
		{"for whom the URL names, not the header", "as other.example.org http://good.example.com/", "200 GET good.example.com/ ", []string{"8.8.8.8:80"}},
		{"what leads away is not followed", "get http://good.example.com/away", "302 ", []string{"8.8.8.8:80"}},
		{"what is not allowed is denied, with a reason", "get http://other.example.org/", "403 bunkroom: host_not_allowed: The sandbox may not connect to this host.", nil},
		{"a name of internal addresses only", "get http://inner.example.com/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"a name of the metadata address", "get http://cloud.example.com/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"a name of both leads to the public one", "get http://mixed.example.com/", "200 GET mixed.example.com/ ", []string{"8.8.8.8:80"}},
		{"a name of none", "get http://alone.example.com/", "502 bunkroom: nobody can be reached there", nil},
		{"an address", "get http://8.8.8.8/", "403 bunkroom: host_not_allowed: The sandbox may not connect to this host.", nil},
		{"an internal address", "get http://169.254.169.254/latest/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"however it is written", "get http://2852039166/latest/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"the loopback of the host", "get http://127.1/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"a name of it", "get http://localhost/", "403 bunkroom: address_internal: The sandbox may not connect to internal addresses.", nil},
		{"through a tunnel", "tunnel good.example.com:443 http://x/y", "200 GET x/y ", []string{"8.8.8.8:443"}},
		{"a tunnel to whom is denied", "tunnel other.example.org:443 http://x/y", "403 Forbidden", nil},
		{"a tunnel to an internal address", "tunnel [::ffff:10.0.0.1]:443 http://x/y", "403 Forbidden", nil},
		{"a tunnel to no port", "tunnel good.example.com:0 http://x/y", "400 Bad Request", nil},
		{"a tunnel to too high a port", "tunnel good.example.com:70000 http://x/y", "400 Bad Request", nil},
		{"the proxy itself is nobody", "raw GET / HTTP/1.1", "HTTP/1.1 400 Bad Request", nil},
		{"nor is what it can't speak", "raw GET ftp://good.example.com/ HTTP/1.1", "HTTP/1.1 400 Bad Request", nil},
	}
	var tasks []string
	var dialed []string
	for _, c := range cases {
		tasks, dialed = append(tasks, c.script), append(dialed, c.dialed...)
	}
	answers := strings.Split(inside(strings.Join(tasks, "\n")), "\n")
	for i, c := range cases {
		if !strings.HasPrefix(answers[i], c.want) {
			t.Errorf("%s: %s: %q, want %q", c.rule, c.script, answers[i], c.want)
		}
	}
	if got := w.seen(); !slices.Equal(got, dialed) {
		t.Errorf("connected to %q, want %q", got, dialed)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var allowed, denied int64
	for i, c := range w.told {
		refused := (*policy.RefusedError)(nil)
		if errors.As(c.Err, &refused) {
			denied++
		} else {
			allowed++
		}
		if c.Machine != ref || c.Host == "" || c.Port == 0 || c.To.IsValid() != (c.Err == nil) || c.Allowed != allowed || c.Denied != denied {
			t.Errorf("of request %d was told %+v", i, c)
		}
	}
	if allowed != 8 || denied != 10 {
		t.Errorf("%d were let through and %d denied", allowed, denied)
	}
}

// A name is resolved once for each request, and what was checked is what is
// connected to: that the next answer is another leads nowhere else.
func TestRebinding(t *testing.T) {
	if !asRoot(t) {
		return
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	w := &town{names: map[string][]string{"turn.example.com": {"8.8.8.8"}}}
	with := w.proxy(server.Listener.Addr().String())
	sound := with.Resolve
	with.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
		all, err := sound(ctx, host)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.names[host] = []string{"127.0.0.1"} // for whoever asks again
		return all, err
	}
	p, restrict := guarded(t, with)
	ref := create(t, p, "m-g1")
	restrict(ref, allowing("turn.example.com")...)
	inside := tool(t, attach(t, p, ref))
	if got := inside("get http://turn.example.com/"); !strings.HasPrefix(got, "404 ") {
		t.Errorf("at first: %q", got)
	}
	if got := inside("get http://turn.example.com/"); !strings.HasPrefix(got, "403 ") {
		t.Errorf("once it is internal: %q", got)
	}
	if got := w.seen(); !slices.Equal(got, []string{"8.8.8.8:80"}) || len(w.asked) != 2 {
		t.Errorf("connected to %q, after %q were resolved", got, w.asked)
	}
}

// An address of the host itself is denied, public or not, and though all is allowed.
func TestOwnAddresses(t *testing.T) {
	if !asRoot(t) {
		return
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	w := &town{names: map[string][]string{}}
	for _, its := range ours {
		a := netip.MustParsePrefix(its.String()).Addr().WithZone("").String()
		w.names["host.example.com"] = append(w.names["host.example.com"], a)
	}
	p, restrict := guarded(t, w.proxy("127.0.0.1:1"))
	ref := create(t, p, "m-g1")
	restrict(ref, allowing("*")...)
	if got := tool(t, attach(t, p, ref))("get http://host.example.com/"); !strings.HasPrefix(got, "403 ") || w.seen() != nil {
		t.Errorf("of %v it is told %q", ours, got)
	}
}

// A restricted machine has a loopback of its own, which its processes share,
// and there is no other way out: no route, no name server, no socket of the host.
func TestOwnNetwork(t *testing.T) {
	if !asRoot(t) {
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for what, rules := range map[string][]sandbox.EgressRule{"off": nil, "a list": allowing("good.example.com"), "all": allowing("*")} {
		t.Run(what, func(t *testing.T) {
			p, restrict := guarded(t, answered())
			ref := create(t, p, "m-g1")
			restrict(ref, rules...)
			sb := attach(t, p, ref)
			inside := tool(t, sb)
			out := []string{listener.Addr().String(), "8.8.8.8:53", "192.0.2.1:80", "[2001:4860:4860::8888]:53", "169.254.169.254:80"}
			got := strings.Split(inside("interfaces\ndial "+strings.Join(out, "\ndial ")), "\n")
			if got[0] != "lo" {
				t.Errorf("it has %q", got[0])
			}
			for i, to := range out {
				if !strings.HasPrefix(got[i+1], "no: ") {
					t.Errorf("connected to %s: %q", to, got[i+1])
				}
			}
			if got := inside("hypervisor"); !strings.HasPrefix(got, "no: ") {
				t.Errorf("it talks to who runs this host: %q", got)
			}
			server := start(t, sb, sandbox.Cmd{}, insideScript("serve 127.0.0.1:4000"))
			if got := inside("dial 127.0.0.1:4000"); got != "yes" {
				t.Errorf("processes don't reach each other: %q", got)
			}
			if conn, err := net.Dial("tcp", "127.0.0.1:4000"); err == nil {
				conn.Close()
				t.Error("the host reaches what listens in the machine")
			}
			server.Close()
		})
	}
}

// A machine has so many connections at once, idle ones too; when some have ended there is room again.
func TestProxyIsBounded(t *testing.T) {
	if !asRoot(t) {
		return
	}
	with := answered()
	with.Connections = 4
	p, restrict := guarded(t, with)
	ref := create(t, p, "m-g1")
	restrict(ref, allowing("good.example.com")...)
	inside := tool(t, attach(t, p, ref))
	if got := inside("crowd 20"); got != "4 stay, 16 are told HTTP/1.1 503 Service Unavailable" {
		t.Errorf("at once: %q", got)
	}
	eventually(t, "there is room", func() bool { return strings.HasPrefix(inside("tunnel good.example.com:443"), "200 ") })
}

// The rules are with the machine: they hold for whoever wakes it, and a file
// of rules that can't be read is not taken for none.
func TestRulesLast(t *testing.T) {
	if !asRoot(t) {
		return
	}
	root := t.TempDir()
	first := openWith(t, local.Config{Root: root, Proxy: answered()})
	ref := create(t, first, "m-g1")
	token, err := first.Restrict(deadline(t), ref, allowing("good.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	second := openWith(t, local.Config{Root: root, Proxy: answered()})
	third := openWith(t, local.Config{Root: root, Proxy: answered()})
	for _, p := range []*local.Provider{second, third} { // who joins uses the proxy of who has started
		inside := tool(t, attach(t, p, ref))
		if got := inside("tunnel good.example.com:443") + inside("tunnel other.example.org:443"); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "403 ") {
			t.Errorf("later: %q", got)
		}
	}
	if again, err := third.Restrict(deadline(t), ref, allowing("good.example.com")); err != nil || again != token {
		t.Errorf("the token: %q, %v, was %q", again, err, token)
	}
	if _, err := third.Restrict(deadline(t), ref, nil); err != nil {
		t.Fatal(err)
	}
	sb := attach(t, second, ref) // whose init the other has ended
	if got := tool(t, sb)("interfaces"); got != "lo" {
		t.Errorf("it has %q", got)
	}
	if out := sh(t, sb, "echo \"$https_proxy\""); out != "\n" {
		t.Errorf("there is still a proxy, at %q", out)
	}
	second.Close()
	third.Close()
	if err := os.WriteFile(filepath.Join(root, "machines", "m-g1", "network.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	fourth := openAt(t, root, false)
	if _, err := fourth.Attach(deadline(t), ref); err == nil {
		t.Error("a machine is woken without the rules it should have")
	}
	if _, err := fourth.Restrict(deadline(t), ref, nil); err != nil {
		t.Errorf("new rules: %v", err)
	}
	attach(t, fourth, ref)
}

// What a restricted machine has goes with it: no thread stays in its network, no file, no connection.
func TestProxyEnds(t *testing.T) {
	if !asRoot(t) {
		return
	}
	p, restrict := guarded(t, answered())
	names := func() (n int) {
		files, _ := filepath.Glob("/proc/self/fd/*")
		for _, f := range files {
			if to, err := os.Readlink(f); err == nil && (strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "net:")) {
				n++
			}
		}
		return n
	}
	before := names()
	for _, name := range []string{"a-g1", "b-g1", "c-g1"} {
		ref := create(t, p, name)
		restrict(ref, allowing("good.example.com")...)
		sb := attach(t, p, ref)
		inside := tool(t, sb)
		held := start(t, sb, sandbox.Cmd{}, insideScript("hold good.example.com:443"))
		if got := inside("tunnel good.example.com:443"); !strings.HasPrefix(got, "200 ") {
			t.Fatal(got)
		}
		if err := p.Destroy(deadline(t), ref); err != nil {
			t.Fatal(err)
		}
		wait(t, held)
	}
	eventually(t, "what was held of their networks is given up", func() bool { return names() <= before })
}
