//go:build linux

package local_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
)

// somewhere is a public address, of which nothing is asked in these tests.
var somewhere = netip.MustParseAddr("8.8.8.8")

// answered is a proxy to whom every name is somewhere, and who finds there an
// echo of what is sent.
func answered() local.Proxy {
	return local.Proxy{
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{somewhere}, nil },
		Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				io.Copy(far, far)
			}()
			return near, nil
		},
	}
}

// openAnswered is open, with somebody to be reached under every name.
func openAnswered(t testing.TB, unconfined bool) *local.Provider {
	return openWith(t, local.Config{Root: t.TempDir(), Unconfined: unconfined, Proxy: answered()})
}

// reach are commands that ask the machine's proxy for a host, in a shell that can connect.
func reach(t *testing.T) (once func(host string) []string, again func(host, path string) []string) {
	if _, err := exec.LookPath("bash"); err != nil {
		need.Missing(t, need.Bash, err.Error())
	}
	const ask = `ask() {
		to=${https_proxy#http://}
		test "$to" || return 1
		exec 3<>"/dev/tcp/${to%:*}/${to#*:}" || return 1
		printf 'CONNECT %s:443 HTTP/1.1\r\nHost: %s:443\r\n\r\n' "$1" "$1" >&3
		read -r version code rest <&3
		exec 3>&-
		test "$code" = 200
	}
	`
	once = func(host string) []string { return []string{"bash", "-c", ask + `ask "$1"`, "bash", host} }
	again = func(host, path string) []string {
		return []string{"bash", "-c", ask + `while :; do if ask "$1"; then echo x >"$2"; fi; sleep 0.02; done`, "bash", host, path}
	}
	return once, again
}
