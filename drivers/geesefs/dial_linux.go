package geesefs

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/bunkroom/bunkroom/mount"
)

// answers finds out whether the storage takes a connection. Where the way
// leads through a proxy, or to AWS, it is not looked for.
func (s *Server) answers(ctx context.Context, endpoint string) error {
	for _, v := range s.c.Env {
		if name, _, _ := strings.Cut(v, "="); strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			return nil
		}
	}
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // the names of the ports
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(bounded, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: no connection to %s: %w", mount.ErrUnavailable, u.Host, err)
	}
	return conn.Close()
}
