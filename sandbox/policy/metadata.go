package policy

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// metadata reports whether clouds serve a machine's own credentials there.
func metadata(a netip.Addr) bool {
	switch a.Unmap().WithZone("") {
	case netip.AddrFrom4([4]byte{169, 254, 169, 254}), // AWS, Google Cloud, Azure, OpenStack and others
		netip.AddrFrom4([4]byte{169, 254, 170, 2}), netip.AddrFrom4([4]byte{169, 254, 170, 23}), // of containers on AWS
		netip.AddrFrom4([4]byte{100, 100, 100, 200}),                              // Alibaba Cloud
		netip.AddrFrom4([4]byte{168, 63, 129, 16}),                                // the platform of Azure, at a public address
		netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2, 14: 0x02, 15: 0x54}), // AWS
		netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x20, 3: 0xce, 14: 0x02, 15: 0x54}), // Google Cloud
		netip.AddrFrom16([16]byte{0: 0xfd, 2: 0x0e, 3: 0xc2, 15: 0x23}):           // of containers on AWS
		return true
	}
	return false
}

// metadataNames are names of the same.
func metadataNames() []string { return []string{"metadata.google.internal", "metadata.goog"} }

// namesMetadata reports whether a text names such an address, in any of the
// ways in which programs read one: its four numbers may be decimal, octal or
// hexadecimal, and the last may stand for several.
func namesMetadata(text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !isLetter(r) && r != '-' && r != '_' && r != '.' }) {
		if slices.Contains(metadataNames(), strings.Trim(word, ".")) {
			return true
		}
	}
	for _, token := range strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r == 'x' || r == '.' || r == ':')
	}) {
		// What is right before it may be the letter of an option.
		if tokenNamesMetadata(token) || tokenNamesMetadata(strings.TrimLeft(token, "abcdefx")) {
			return true
		}
	}
	return false
}

func tokenNamesMetadata(token string) bool {
	if a, err := netip.ParseAddr(strings.TrimRight(token, ".")); err == nil && metadata(a) {
		return true
	}
	for part := range strings.SplitSeq(token, ":") { // a port, or what an option ends with
		if a, ok := parseNumbers(strings.Trim(part, ".")); ok && metadata(a) {
			return true
		}
	}
	return false
}

// parseNumbers reads an IPv4 address of one to four numbers, as inet_aton does.
func parseNumbers(text string) (netip.Addr, bool) {
	parts := strings.SplitN(text, ".", 5)
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		n, err := strconv.ParseUint(part, 0, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		sum = sum<<bits | n
	}
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], uint32(sum))
	return netip.AddrFrom4(four), true
}
