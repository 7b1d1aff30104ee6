package policy_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/policy"
)

func TestRules(t *testing.T) {
	rules, dropped := policy.Egress{
		Mode: policy.AllowList,
		Allow: []string{
			" GitHub.com. ", "*.githubusercontent.com", "github.com",
			"*", "1.2.3.4", "[::1]", "https://x.com", "x.com:443", "localhost", "internal.example", "db.internal.example", "*.example", "*.internal.example",
			"metadata.google.internal", "*.google.internal", "", "-x.com", "bücher.de", "0x7f.1", "x.0x1",
		},
		Internal: []string{"internal.example", "db", "10.0.0.1"},
	}.Rules()
	if d := cmp.Diff([]policy.Rule{
		{Host: "*"},
		{Host: "*.db"}, {Host: "*.githubusercontent.com", Allow: true}, {Host: "*.internal.example"},
		{Host: "db"}, {Host: "github.com", Allow: true}, {Host: "internal.example"},
		{Host: "metadata.goog"}, {Host: "metadata.google.internal"},
	}, rules); d != "" {
		t.Error(d)
	}
	why := map[policy.Reason][]string{}
	for _, d := range dropped {
		why[d.Why] = append(why[d.Why], d.Entry)
	}
	if d := cmp.Diff(map[policy.Reason][]string{
		policy.HostNotAHostname: {"10.0.0.1", "*", "1.2.3.4", "[::1]", "https://x.com", "x.com:443", "localhost", "*.example", "", "-x.com", "bücher.de", "0x7f.1", "x.0x1"},
		policy.AddressInternal:  {"internal.example", "db.internal.example", "*.internal.example", "metadata.google.internal", "*.google.internal"},
	}, why); d != "" {
		t.Error(d)
	}
}

func TestCheckHost(t *testing.T) {
	internalOnly := []string{"corp.example"}
	list, _ := policy.Egress{Mode: policy.AllowList, Allow: []string{"github.com", "*.npm.example"}, Internal: internalOnly}.Rules()
	open, _ := policy.Egress{Mode: policy.Open, Internal: internalOnly}.Rules()
	off, _ := policy.Egress{}.Rules()
	for _, c := range []struct {
		rule, host            string
		inList, inOpen, inOff policy.Reason
	}{
		{"a host of the list", "github.com", "", "", policy.HostNotAllowed},
		{"however it is spelled", " GITHUB.com.", "", "", policy.HostNotAllowed},
		{"one below it is another", "x.github.com", policy.HostNotAllowed, "", policy.HostNotAllowed},
		{"one that ends like it is another", "evilgithub.com", policy.HostNotAllowed, "", policy.HostNotAllowed},
		{"below a wildcard", "a.b.npm.example", "", "", policy.HostNotAllowed},
		{"the name of a wildcard is not below it", "npm.example", policy.HostNotAllowed, "", policy.HostNotAllowed},
		{"what is internal", "corp.example", policy.HostNotAllowed, policy.HostNotAllowed, policy.HostNotAllowed},
		{"what lies below it", "x.y.corp.example", policy.HostNotAllowed, policy.HostNotAllowed, policy.HostNotAllowed},
		{"metadata by name", "metadata.google.internal", policy.HostNotAllowed, policy.HostNotAllowed, policy.HostNotAllowed},
		{"a public address", "93.184.215.14", policy.HostNotAllowed, "", policy.HostNotAllowed},
		{"metadata", "169.254.169.254", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"metadata as a number", "2852039166", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"this machine, as a resolver reads it", "0x7f.1", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"this machine in IPv6", "[::1]", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"a name of one label", "db", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"this machine by name", "x.localhost", policy.AddressInternal, policy.AddressInternal, policy.AddressInternal},
		{"what is no name", "a b", policy.HostNotAHostname, policy.HostNotAHostname, policy.HostNotAHostname},
		{"nothing", "", policy.HostNotAHostname, policy.HostNotAHostname, policy.HostNotAHostname},
		{"with a port", "github.com:443", policy.HostNotAHostname, policy.HostNotAHostname, policy.HostNotAHostname},
	} {
		for name, of := range map[string]struct {
			rules []policy.Rule
			want  policy.Reason
		}{"list": {list, c.inList}, "open": {open, c.inOpen}, "off": {off, c.inOff}} {
			if got := reason(t, policy.CheckHost(of.rules, c.host)); got != of.want {
				t.Errorf("%s, %s: CheckHost(%q) = %q, not %q", name, c.rule, c.host, got, of.want)
			}
		}
	}
	if reason(t, policy.CheckHost(nil, "github.com")) != policy.HostNotAllowed {
		t.Error("without rules everything is denied")
	}
	specific := []policy.Rule{{Host: "*", Allow: true}, {Host: "*.a.com"}, {Host: "*.b.a.com", Allow: true}, {Host: "x.b.a.com"}, {Host: "y.com", Allow: true}, {Host: "y.com"}}
	for host, want := range map[string]policy.Reason{"z.a.com": policy.HostNotAllowed, "z.b.a.com": "", "x.b.a.com": policy.HostNotAllowed, "y.com": policy.HostNotAllowed, "q.com": ""} {
		if got := reason(t, policy.CheckHost(specific, host)); got != want {
			t.Errorf("the most specific decides, and the denial of two alike: %s: %q", host, got)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for _, a := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.168.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
		"::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "2001::1", "fec0::1",
		"::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "::127.0.0.1",
		"168.63.129.16", "::ffff:0:a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00:808:808", "64:ff9b:1::808:808", "4000::1", "100::1", "5f00::1",
	} {
		if reason(t, policy.CheckAddress(netip.MustParseAddr(a))) != policy.AddressInternal {
			t.Errorf("%s passes", a)
		}
	}
	if reason(t, policy.CheckAddress(netip.Addr{})) != policy.AddressInternal {
		t.Error("no address passes")
	}
	for _, a := range []string{"1.1.1.1", "93.184.215.14", "100.63.255.255", "100.128.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"} {
		if err := policy.CheckAddress(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

func TestToken(t *testing.T) {
	rules, _ := policy.Egress{Mode: policy.AllowList, Allow: []string{"github.com", "packages.example"}}.Rules()
	token := policy.Token("i-1", rules)
	// printf 'allow github.com\nallow packages.example\ndeny *\ndeny metadata.goog\ndeny metadata.google.internal\n' | openssl dgst -sha3-256
	if want := "i-1:16c0f49b6abe6123503347eca257935d9eed07fe2d7f3fefb16100843c5c8b47"; token != want {
		t.Errorf("%q, not %q", token, want)
	}
	if policy.Token("i-2", rules) == token {
		t.Error("of another incarnation it is another")
	}
	back := slices.Clone(rules)
	slices.Reverse(back)
	if policy.Token("i-1", append(back, back[0])) != token {
		t.Error("order and repetition mean nothing")
	}
	if policy.Token("i-1", rules[1:]) == token {
		t.Error("of other rules it is another")
	}
}

// Whatever a list says, what is internal is denied, and what is returned is the caller's own.
func TestInternalIsDenied(t *testing.T) {
	label := rapid.StringMatching(`[a-z]{1,3}`)
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(label, 1, 4).Draw(t, "labels"), ".")
	})
	rapid.Check(t, func(t *rapid.T) {
		e := policy.Egress{Mode: rapid.SampledFrom([]policy.Mode{policy.Off, policy.AllowList, policy.Open}).Draw(t, "mode")}
		e.Internal = rapid.SliceOfN(name, 1, 3).Draw(t, "internal")
		for _, n := range rapid.SliceOfN(name, 0, 6).Draw(t, "allow") {
			e.Allow = append(e.Allow, rapid.SampledFrom([]string{"", "*."}).Draw(t, "wild")+n)
		}
		rules, _ := e.Rules()
		for _, zone := range e.Internal {
			for _, host := range []string{zone, "x." + zone, "y.x." + zone} {
				if policy.CheckHost(rules, host) == nil {
					t.Fatalf("%s is allowed by %v", host, rules)
				}
			}
		}
		if host := name.Draw(t, "host") + ".test"; e.Mode == policy.Off && policy.CheckHost(rules, host) == nil {
			t.Fatalf("%s is allowed though all is off", host)
		}
		rules[0].Host = "changed"
		if again, _ := e.Rules(); slices.Contains(again, policy.Rule{Host: "changed", Allow: rules[0].Allow}) {
			t.Fatal("the rules are shared")
		}
	})
}

// What is not written as a rule writes a host would be about none, and a denial would deny nothing.
func TestCheckRules(t *testing.T) {
	made, _ := policy.Egress{Mode: policy.AllowList, Allow: []string{"GitHub.com", "*.npm.example"}, Internal: []string{"db", "corp.example"}}.Rules()
	if err := policy.CheckRules(made); err != nil {
		t.Errorf("what Rules makes: %v", err)
	}
	for _, host := range []string{"", "*.", "*.*", "**", "*x.example", "x.*", "GitHub.com", "github.com.", " github.com", "github.com:443", "https://github.com", "10.0.0.1", "[::1]", "a b.example", "b\u00fccher.example"} {
		err := policy.CheckRules([]policy.Rule{{Host: "*"}, {Host: host}})
		if !errors.Is(err, sandbox.ErrInvalid) || !strings.Contains(err.Error(), "rule 1") {
			t.Errorf("%q: %v", host, err)
		}
	}
}
