//go:build linux

package local_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Everything works for an ordinary user as it does for root.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // then the other tests show it
	}
	open(t, false)                                 // or there is no bubblewrap
	dir, err := os.MkdirTemp("", "bunkroom-user-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const nobody = 65534
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	exe := copyTo(t, dir)
	for pattern, tests := range map[string][]string{
		"^TestConformance$/^Confined$/^(Machines|Commands|Binds|Stops|Limits)$": {
			"TestConformance/Confined/Machines", "TestConformance/Confined/Commands", "TestConformance/Confined/Binds", "TestConformance/Confined/Stops", "TestConformance/Confined/Limits",
		},
		"^Test(NothingOfTheHost|NoPrivileges|BindsStayApart|InitKilledFromInside|DestroyRemovesAll|Lost)$": {
			"TestNothingOfTheHost", "TestNoPrivileges", "TestBindsStayApart", "TestInitKilledFromInside", "TestDestroyRemovesAll", "TestLost",
		},
	} {
		if testing.Short() && strings.Contains(pattern, "Conformance") {
			continue
		}
		cmd := exec.Command(exe, "-test.v", "-test.run="+pattern)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir, "BUNKROOM_REQUIRE=" + os.Getenv("BUNKROOM_REQUIRE")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("as an ordinary user: %v\n%s", err, out)
			continue
		}
		for _, test := range tests {
			if !strings.Contains(string(out), "--- PASS: "+test) {
				t.Errorf("%s did not pass:\n%s", test, out)
			}
		}
	}
}

// copyTo copies this program to where an ordinary user can run it.
func copyTo(t *testing.T, dir string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	path := filepath.Join(dir, "local.test")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
