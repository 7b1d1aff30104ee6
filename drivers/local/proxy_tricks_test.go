//go:build linux

package local_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A request is for one host, whom all of it is about: what is written so that
// one reader takes it for one and another for the other reaches nobody else.
func TestProxyTricks(t *testing.T) {
	if !asRoot(t) {
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "to %s, with %q\n", r.Host, r.Header.Get("X-Forwarded-For")+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	w := &town{names: map[string][]string{
		"good.example.com": {"8.8.8.8"}, "GOOD.example.com.": {"8.8.8.8"}, "evil.example.org": {"8.8.4.4"},
	}}
	p, restrict := guarded(t, w.proxy(server.Listener.Addr().String()))
	ref := create(t, p, "m-g1")
	restrict(ref, allowing("good.example.com")...)
	inside := tool(t, attach(t, p, ref))
	const at80, at443 = "8.8.8.8:80", "8.8.8.8:443"
	const good = `HTTP/1.1 200 OK, to good.example.com, with ""`
	const tunnel = "HTTP/1.1 200 Connection established"
	const refused, wrong = "HTTP/1.1 403 Forbidden", "HTTP/1.1 400 Bad Request"
	cases := []struct {
		rule, head, rest, want, dialed string
	}{
		{"another host in the header", "GET http://good.example.com/ HTTP/1.1\r\nHost: evil.example.org", "", good, at80},
		{"two headers", "GET http://good.example.com/ HTTP/1.1\r\nHost: good.example.com\r\nHost: evil.example.org", "", wrong, ""},
		{"a header within another", "GET http://good.example.com/ HTTP/1.1\r\nHost: x\r\nX: y\rHost: evil.example.org", "", wrong, ""},
		{"a user that looks like a host", "GET http://good.example.com@evil.example.org/ HTTP/1.1\r\nHost: x", "", refused, ""},
		{"with a password that looks like a port", "GET http://good.example.com:80@evil.example.org/ HTTP/1.1\r\nHost: x", "", refused, ""},
		{"a user that is one, whom nobody is told of", "GET http://user:password@good.example.com/ HTTP/1.1\r\nHost: x", "", good, at80},
		{"a backslash", "GET http://evil.example.org\\@good.example.com/ HTTP/1.1\r\nHost: x", "", wrong, ""},
		{"capitals and a dot at the end", "GET http://GOOD.example.com./ HTTP/1.1\r\nHost: x", "", `HTTP/1.1 200 OK, to GOOD.example.com., with ""`, at80},
		{"two dots at the end", "GET http://good.example.com../ HTTP/1.1\r\nHost: x", "", refused, ""},
		{"letters that are encoded", "GET http://%67ood.example.com/ HTTP/1.1\r\nHost: x", "", wrong, ""},
		{"a NUL byte", "GET http://good.example.com%00.evil.example.org/ HTTP/1.1\r\nHost: x", "", wrong, ""},
		{"dots of another script", "GET http://good\u3002example\u3002com/ HTTP/1.1\r\nHost: x", "", refused, ""},
		{"lines in the path stay encoded", "GET http://good.example.com/%0d%0aHost:%20evil.example.org HTTP/1.1\r\nHost: x", "", good, at80},
		{"a host in the header only", "GET / HTTP/1.1\r\nHost: good.example.com", "", wrong, ""},
		{"no scheme", "GET //good.example.com/ HTTP/1.1\r\nHost: good.example.com", "", wrong, ""},
		{"one that is not to be opened here", "GET https://good.example.com/ HTTP/1.1\r\nHost: good.example.com", "", wrong, ""},
		{"who asked before", "GET http://good.example.com/ HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For\r\nX-Forwarded-For: 10.0.0.1", "", good, at80},
		{"two lengths", "POST http://good.example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2", "ab", wrong, ""},
		{"a coding that nobody knows", "POST http://good.example.com/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked", "0\r\n\r\n", "HTTP/1.1 501 Not Implemented", ""},
		{"a second request in the length of the first", "POST http://good.example.com/ HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\nTransfer-Encoding: chunked",
			"0\r\n\r\nGET http://evil.example.org/ HTTP/1.1\r\nHost: good.example.com\r\n\r\n", good + ", " + refused, at80},
		{"a line without an end", "GET http://good.example.com/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 100<<10), "", "HTTP/1.1 431 Request Header Fields Too Large", ""},
		{"a tunnel to whom the header names", "CONNECT evil.example.org:443 HTTP/1.1\r\nHost: good.example.com:443", "", refused, ""},
		{"a tunnel away from whom the header names", "CONNECT good.example.com:443 HTTP/1.1\r\nHost: evil.example.org:443", "", tunnel, at443},
		{"a tunnel with a user", "CONNECT good.example.com:443@evil.example.org:443 HTTP/1.1\r\nHost: x", "", refused, ""},
		{"a tunnel to a name in brackets", "CONNECT [good.example.com]:443 HTTP/1.1\r\nHost: x", "", wrong, ""},
		{"a tunnel to a port by its name", "CONNECT good.example.com:https HTTP/1.1\r\nHost: x", "", wrong, ""},
		{"another protocol", "PRI * HTTP/2.0\r\n\r\nSM", "", wrong, ""},
	}
	for _, address := range []string{"0.0.0.0", "0", "127.1", "0177.0.0.1", "0x7f000001", "2130706433", "169.254.169.254", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]", "[fe80::1%25lo]"} {
		cases = append(cases, struct{ rule, head, rest, want, dialed string }{"an address", "GET http://" + address + "/ HTTP/1.1\r\nHost: good.example.com", "", refused, ""})
	}
	for _, c := range cases {
		got := inside("send " + url.QueryEscape(c.head+"\r\n\r\n"+c.rest))
		var want []string
		if c.dialed != "" {
			want = []string{c.dialed}
		}
		if dialed := w.seen(); !strings.HasPrefix(got, c.want) || !slices.Equal(dialed, want) {
			t.Errorf("%s: %.120q: it is told %q and connected to %q; want %q and %q", c.rule, c.head, got, dialed, c.want, want)
		}
	}
}
