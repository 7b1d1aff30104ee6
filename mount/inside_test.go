package mount

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// A storage that a sandbox can't reach is refused by name, as something that
// this kind of sandbox can't have, and the client is not told where it is.
func TestUnreachableStorageIsRefusedByName(t *testing.T) {
	for _, endpoint := range []string{"http://seaweedfs:8333", "not an address"} {
		err := CheckReach(Credentials{Endpoint: endpoint}, Public)
		refused, ok := errors.AsType[*UnreachableError](err)
		if !ok || refused.Endpoint != endpoint || !errors.Is(err, sandbox.ErrUnsupported) || !strings.Contains(err.Error(), endpoint) {
			t.Fatalf("%q: %v", endpoint, err)
		}
		if status, code, sentence := refused.Problem(); status != 501 || code != "storage_unreachable" || strings.Contains(sentence, endpoint) {
			t.Errorf("%q is told as %d %s %q", endpoint, status, code, sentence)
		}
	}
	for _, c := range []Credentials{{}, {Endpoint: "https://store.example.org"}} {
		if err := CheckReach(c, Public); err != nil {
			t.Errorf("%q: %v", c.Endpoint, err)
		}
	}
	if err := CheckReach(Credentials{Endpoint: "http://seaweedfs:8333"}, InNetwork); err != nil {
		t.Error(err)
	}
}
