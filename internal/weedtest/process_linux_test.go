package weedtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The server listens at the loopback interface, and at no other address.
func TestLoopbackOnly(t *testing.T) {
	server.Start(t)
	proc := filepath.Join("/proc", fmt.Sprint(server.process.Process.Pid))
	links, err := filepath.Glob(filepath.Join(proc, "fd", "*"))
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{} // the inodes of its sockets
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	listening := 0
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !own[f[9]] { // 0A: it listens
				continue
			}
			listening++
			if !strings.HasPrefix(f[1], "0100007F:") {
				t.Errorf("it listens at %s", f[1])
			}
		}
	}
	if listening < 8 {
		t.Errorf("it listens at %d addresses, want the 8 of its ports", listening)
	}
}
