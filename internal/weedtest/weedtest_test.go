package weedtest

import (
	"net/http"
	"os"
	"testing"
)

var server Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// Whoever shows no keys may do nothing.
func TestNobodyMayAnything(t *testing.T) {
	at := server.Start(t)
	for _, path := range []string{"/", "/bucket", "/bucket/key"} {
		answer, err := http.Get(at.Endpoint + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s, %v", path, answer.Status, err)
		}
	}
}

func TestVersionIn(t *testing.T) {
	for _, c := range []struct {
		rule, mod, want string
		ok              bool
	}{
		{"alone", "require github.com/seaweedfs/seaweedfs v1.2.3", "v1.2.3", true},
		{"in a block", "require (\n\tgithub.com/seaweedfs/raft v1.1.1 // indirect\n\tgithub.com/seaweedfs/seaweedfs v1.2.3 // indirect\n)", "v1.2.3", true},
		{"only as a tool", "tool github.com/seaweedfs/seaweedfs/weed", "", false},
		{"nowhere", "module m", "", false},
	} {
		if got, ok := versionIn(c.mod); got != c.want || ok != c.ok {
			t.Errorf("%s: %q, %v", c.rule, got, ok)
		}
	}
}
