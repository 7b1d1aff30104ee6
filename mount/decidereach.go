package mount

import (
	"net/netip"
	"net/url"
	"strings"
)

// Reach says whether a storage can be reached from where it is to be used, as
// far as its address tells. The zero value knows nothing.
type Reach uint8

// The answers.
const (
	ReachUnknown Reach = iota // the address can't be read, so nobody can use it
	Unreachable               // the address means something only near the storage
	Reachable
)

func (r Reach) String() string {
	switch r {
	case Unreachable:
		return "unreachable"
	case Reachable:
		return "reachable"
	}
	return "unknown"
}

// ReachOf says whether an audience can reach endpoint, the base URL of a
// storage. Empty is the region's own at AWS, which everybody can reach.
// [InNetwork] can reach whatever is an address at all. [Public] can't reach
// localhost and what is below it, names that end in .local, .internal or
// .home.arpa, names without a dot, and addresses that are private (IPv6 ones
// too), of this machine, of the link, shared by carriers, not of one host, or none.
//
// It looks nothing up: a public name may lead to a private address all the same.
func ReachOf(endpoint string, audience Audience) Reach {
	if endpoint == "" {
		return Reachable
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.User != nil {
		return ReachUnknown
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if host == "" {
		return ReachUnknown
	}
	// Only an address has a colon in it, and it stands in brackets.
	ip, err := netip.ParseAddr(host)
	named := err != nil
	if bracketed := strings.HasPrefix(u.Host, "["); named && !hostname(host) || bracketed != (!named && ip.Is6()) {
		return ReachUnknown
	}
	switch {
	case audience == InNetwork:
		return Reachable
	case named:
		return reachOfName(host)
	}
	return reachOfAddress(ip)
}

func reachOfName(host string) Reach {
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case len(labels) == 1, last == "localhost", last == "local", last == "internal", strings.HasSuffix(host, ".home.arpa"):
		return Unreachable
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return ReachUnknown // an IPv4 address in a spelling that some read one way and some another
	}
	return Reachable
}

// carriers is shared by carriers and their customers, and by the internal networks of clouds.
func carriers(ip netip.Addr) bool {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64}), 10).Contains(ip)
}

func reachOfAddress(ip netip.Addr) Reach {
	ip = ip.WithZone("").Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || carriers(ip) {
		return Unreachable
	}
	return Reachable
}

// hostname reports whether host could be a name: labels of letters, digits,
// dashes and underscores, with dots between.
func hostname(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" {
			return false
		}
		for _, c := range []byte(label) {
			if !letter(c) {
				return false
			}
		}
	}
	return len(host) <= 253
}

// CheckReach refuses, with an [*UnreachableError], credentials that the
// audience can't use because of where the storage is.
func CheckReach(c Credentials, audience Audience) error {
	if reach := ReachOf(c.Endpoint, audience); reach != Reachable {
		return &UnreachableError{Endpoint: c.Endpoint, Audience: audience, Reach: reach}
	}
	return nil
}
