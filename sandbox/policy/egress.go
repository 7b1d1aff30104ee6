package policy

import (
	"cmp"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/bunkroom/bunkroom/sandbox"
)

// Mode is what a sandbox may talk to.
type Mode uint8

// The modes. The zero value is no network at all.
const (
	Off       Mode = iota // nobody
	AllowList             // the hosts of a list
	Open                  // anybody but what is internal
)

// Egress is whom a sandbox may talk to.
type Egress struct {
	Mode Mode
	// Allow are host names, or "*.name" for all below one. Of AllowList only.
	Allow []string
	// Internal are names of the host's own, which with all below them are denied in every mode.
	Internal []string
}

// Rule allows or denies hosts: what a [sandbox.Guard] is given.
type Rule = sandbox.EgressRule

// Dropped is an entry of a list that is not allowed, and why.
type Dropped struct {
	Entry string
	Why   Reason
}

// Rules are what e comes to, sorted and each once, in a slice of the caller's
// own, and the entries that were left out of it: a name that is no host name, as "*", an address, a URL or one with a port, or
// that has one label only ([HostNotAHostname]), and what is, lies below or has below it something internal ([AddressInternal]).
// An entry of Internal that is not a name is listed as well, and denies nothing.
func (e Egress) Rules() (rules []Rule, dropped []Dropped) {
	zones := make([]string, 0, len(e.Internal))
	for _, entry := range e.Internal {
		zone := normal(entry)
		if !isName(zone) {
			dropped = append(dropped, Dropped{entry, HostNotAHostname})
			continue
		}
		zones = append(zones, zone)
		rules = append(rules, Rule{Host: zone}, Rule{Host: "*." + zone})
	}
	for _, name := range metadataNames() {
		rules = append(rules, Rule{Host: name})
	}
	if e.Mode == AllowList {
		for _, entry := range e.Allow {
			host := normal(entry)
			name, wild := strings.CutPrefix(host, "*.")
			internal := func(zone string) bool { return below(name, zone) || wild && below(zone, name) }
			switch {
			case !isName(name) || !strings.Contains(name, "."):
				dropped = append(dropped, Dropped{entry, HostNotAHostname})
			case slices.ContainsFunc(zones, internal), slices.ContainsFunc(metadataNames(), internal):
				dropped = append(dropped, Dropped{entry, AddressInternal})
			default:
				rules = append(rules, Rule{Host: host, Allow: true})
			}
		}
	}
	rules = append(rules, Rule{Host: "*", Allow: e.Mode == Open})
	slices.SortFunc(rules, func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.String(), b.String())) })
	return slices.Compact(rules), dropped
}

// CheckRules refuses, with a sandbox.ErrInvalid that names it, a rule whose
// host is not as [Egress.Rules] writes one. Such a rule would be about no host, and so deny none that it means to.
func CheckRules(rules []Rule) error {
	for i, r := range rules {
		name := strings.TrimPrefix(r.Host, "*.")
		if r.Host != "*" && (!isName(name) || normal(name) != name) {
			return fmt.Errorf("%w: rule %d: %q must be the name of a host in small letters, \"*.\" and a name, or \"*\"", sandbox.ErrInvalid, i, r.Host)
		}
	}
	return nil
}

// Token tells whether a machine has the rules it should have: it is another for
// every incarnation and for every set of rules, in whatever order they come.
func Token(of sandbox.Incarnation, rules []Rule) string {
	lines := make([]string, 0, len(rules))
	for _, r := range rules {
		lines = append(lines, r.String()+"\n")
	}
	slices.Sort(lines)
	sum := sha3.Sum256([]byte(strings.Join(slices.Compact(lines), "")))
	return string(of) + ":" + hex.EncodeToString(sum[:])
}

// CheckHost refuses, with a *[RefusedError], a host that the rules do not allow;
// without a rule about it that is every one. host is a name without a port. An address is
// allowed only where everything is, and then where [CheckAddress] lets it pass.
func CheckHost(rules []Rule, host string) error {
	host = normal(host)
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	is := err == nil
	if !is {
		a, is = parseNumbers(host) // as a resolver would read it
	}
	if is {
		if err := CheckAddress(a); err != nil {
			return err
		}
		return verdict(rules, "*")
	}
	switch {
	case !isName(host):
		return refused(HostNotAHostname)
	case !strings.Contains(host, "."), below(host, "localhost"): // which are resolved on the spot
		return refused(AddressInternal)
	}
	if is, ok := ruled(rules, host); ok {
		return allowed(is)
	}
	for _, parent, more := strings.Cut(host, "."); more; _, parent, more = strings.Cut(parent, ".") {
		if is, ok := ruled(rules, "*."+parent); ok {
			return allowed(is)
		}
	}
	return verdict(rules, "*")
}

func verdict(rules []Rule, host string) error {
	is, ok := ruled(rules, host)
	return allowed(is && ok)
}

func allowed(is bool) error {
	if is {
		return nil
	}
	return refused(HostNotAllowed)
}

// ruled is what the rules say of exactly that host.
func ruled(rules []Rule, host string) (allow, ok bool) {
	allow = true
	for _, r := range rules {
		if r.Host == host {
			allow, ok = allow && r.Allow, true
		}
	}
	return allow, ok
}

// below reports whether name is zone or lies below it.
func below(name, zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) }

// normal is the one spelling of a name.
func normal(entry string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(entry)), ".")
}

// isName reports whether it is the name of a host, in ASCII: others are written as "xn--…".
func isName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	letters := false
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		letters = false // what ends in a number is an address
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
			letters = letters || c < '0' || c > '9'
		}
	}
	return letters && !isHex(s[strings.LastIndexByte(s, '.')+1:])
}

// isHex reports whether a resolver would read a label as a number.
func isHex(label string) bool {
	digits, ok := strings.CutPrefix(label, "0x")
	return ok && strings.Trim(digits, "0123456789abcdef") == ""
}
