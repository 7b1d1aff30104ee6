package mount

import "testing"

// Trap 78: what is private is known in every spelling, and what is public is not refused.
func TestReachOf(t *testing.T) {
	const public, near = Public, InNetwork
	for _, c := range []struct {
		rule     string
		audience Audience
		want     Reach
		is       []string
	}{
		{"the region's own at AWS", public, Reachable, []string{""}},
		{"public names", public, Reachable, []string{
			"https://s3.eu-central-1.amazonaws.com", "http://store.example.org:8333", "https://STORE.Example.ORG.", "https://a_b.example.org", "https://xn--bcher-kva.example"}},
		{"public addresses, IPv6 too", public, Reachable, []string{
			"https://203.0.113.7:9000", "http://8.8.8.8", "https://[2606:4700::1111]", "https://[2606:4700::1111]:8333", "http://[::ffff:8.8.8.8]"}},
		{"this machine", public, Unreachable, []string{
			"http://localhost:8333", "http://store.localhost", "http://127.0.0.1", "http://127.8.9.1:1", "http://[::1]:8333", "http://[::ffff:127.0.0.1]", "http://0.0.0.0", "http://[::]"}},
		{"private ranges", public, Unreachable, []string{
			"http://10.1.2.3", "http://192.168.0.9:9000", "http://172.16.0.1", "http://172.31.255.255", "http://169.254.169.254", "http://100.64.0.1", "http://100.127.255.255",
			"http://[fd00::1]", "http://[fc00:1::2]:9000", "http://[fe80::1]", "http://[fe80::1%25eth0]", "http://[::ffff:10.0.0.1]"}},
		{"neighbours of private ranges are public", public, Reachable, []string{
			"http://172.15.0.1", "http://172.32.0.1", "http://11.0.0.1", "http://192.169.0.1", "http://100.63.0.1", "http://100.128.0.1", "http://169.253.0.1"}},
		{"addresses of no one host", public, Unreachable, []string{"http://224.0.0.1", "http://[ff02::1]", "http://255.255.255.255"}},
		{"names of a network of its own", public, Unreachable, []string{
			"http://nas.local", "http://s3.svc.cluster.local:8333", "http://store.internal", "https://Store.Internal.", "http://router.home.arpa", "http://seaweedfs:8333", "http://store"}},
		{"what is no address", public, ReachUnknown, []string{
			"store.example.org", "store.example.org:8333", "//store.example.org", "ftp://store.example.org", "http://", "http://:8333", "http://[::1", "http://a b", "http://%zz",
			"http://user:pass@store.example.org", "https:store.example.org", "http://a..b", "http://-/x\x00", "http://störe.example.org"}},
		{"IPv4 in a spelling that is read in two ways", public, ReachUnknown, []string{"http://127.1", "http://0x7f.1", "http://017700000001.0x1", "http://10.0.0.010", "http://1.2.3.4.5"}},
		{"near the storage everything can be reached that is an address", near, Reachable, []string{
			"", "http://localhost:8333", "http://seaweedfs:8333", "http://[::1]", "http://10.0.0.1", "https://store.example.org"}},
		{"and nothing that is none", near, ReachUnknown, []string{"seaweedfs:8333", "http://", "http://[::1", "mailto:a@example.org"}},
	} {
		for _, endpoint := range c.is {
			if got := ReachOf(endpoint, c.audience); got != c.want {
				t.Errorf("%s: ReachOf(%q) = %v, want %v", c.rule, endpoint, got, c.want)
			}
		}
	}
	if (Reach(0)).String() != "unknown" || Unreachable.String() != "unreachable" || Reachable.String() != "reachable" {
		t.Error("the answers have no words")
	}
}

// Any text has an answer, and nothing is out of reach near the storage that is reachable from anywhere.
func FuzzReachOf(f *testing.F) {
	for _, s := range []string{"", "http://[::1]:8333", "https://store.example.org", "http://0x7f.1", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		far, near := ReachOf(endpoint, Public), ReachOf(endpoint, InNetwork)
		if far > Reachable || near == Unreachable || far == Reachable && near != Reachable {
			t.Errorf("ReachOf(%q): far %v, near %v", endpoint, far, near)
		}
	})
}
