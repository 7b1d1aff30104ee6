package sandbox

import "context"

// Guard is a [Provider] that can restrict whom the processes of a machine talk to.
type Guard interface {
	// Restrict gives the machine m.Incarnation these rules, in place of all it
	// had, for as long as it lives. A machine that was never restricted has
	// the network of its provider (see Caps.Egress); one that was is never
	// without rules again, but for other ones. A host about which there is no rule can't be reached, so
	// that without rules there is no network but the loopback of the machine,
	// which its processes share. Packages policy and its Egress make rules of a list.
	//
	// Once it returns, no process of the machine can talk to whom the rules
	// deny: what runs may be ended for that, as if it were killed, but never where the machine has these
	// rules already. A program has to be one that uses the proxy which its
	// environment names, where the provider enforces the rules by one. It never wakes a machine.
	//
	// token tells which rules the machine has: it is another for every
	// incarnation and for every set of rules, in whatever order they come and
	// however often. A caller that has stored it need not restrict the machine
	// again to know. After an error the machine has the new rules or those it had, and can be restricted again.
	//
	// ErrUnsupported: this provider, as it was configured or on this host,
	// can't: Caps.Egress is not EgressGuarded then. ErrGone: it is not there,
	// or another than m names by its Incarnation. ErrInvalid: m names no
	// incarnation, or a rule no host. ErrWrongHost: only another host can.
	Restrict(ctx context.Context, m Ref, rules []EgressRule) (token string, err error)
}

// EgressRule allows or denies hosts. Where several are about one, the most specific
// decides: a name before "*.name", a longer name before a shorter, and any before "*"; of two alike the denial.
// No rule allows an address that is not of the public internet.
type EgressRule struct {
	Host  string // a name in small letters, "*.name" for all below it, or "*"
	Allow bool
}

// String is the rule in words, as "allow github.com".
func (r EgressRule) String() string {
	if r.Allow {
		return "allow " + r.Host
	}
	return "deny " + r.Host
}
