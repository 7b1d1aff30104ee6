package policy

import "net/netip"

// CheckAddress refuses, with a *[RefusedError], an address that is not one of
// the public internet: of this machine, of a private network, of the link, which is where clouds keep their metadata, and of
// what carries such a one in it. A proxy asks it of what a name was resolved to and connects to that very address:
// a name that is resolved anew may lead elsewhere the second time.
func CheckAddress(a netip.Addr) error {
	if internal(a) {
		return refused(AddressInternal)
	}
	return nil
}

// notPublic are the networks that nobody else can be reached in (the registries of IANA
// for special-purpose addresses), beside those that netip.Addr knows.
func notPublic() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("100.64.0.0/10"), // shared by the customers of a carrier
		netip.MustParsePrefix("192.0.0.0/24"),
		netip.MustParsePrefix("192.0.2.0/24"), // documentation, as the next two
		netip.MustParsePrefix("198.51.100.0/24"),
		netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("192.88.99.0/24"),
		netip.MustParsePrefix("198.18.0.0/15"), // measurements
		netip.MustParsePrefix("240.0.0.0/4"),   // and broadcast
		netip.MustParsePrefix("2001::/23"),     // Teredo and others
		netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("3fff::/20"),
	}
}

func internal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid(), a.IsUnspecified(), a.IsLoopback(), a.IsPrivate(), a.IsLinkLocalUnicast(), a.IsMulticast(), metadata(a):
		return true
	}
	for _, p := range notPublic() {
		if p.Contains(a) {
			return true
		}
	}
	if four, ok := embedded(a); ok {
		return internal(four)
	}
	// Of IPv6 nothing else is given out to be reached by all.
	return a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a)
}

// embedded is the IPv4 address that a gateway makes of an IPv6 one: by 6to4, and
// by NAT64 with the well-known prefix.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
