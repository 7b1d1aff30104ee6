// Package need says what becomes of a test that needs a component this
// machine lacks: it skips with a sentence, or where BUNKROOM_REQUIRE names the component, it fails.
//
// BUNKROOM_REQUIRE lists component names, separated by commas. "all" stands
// for everything that "make deps" installs, which is [All].
//
// BUNKROOM_SKIPS names a file to which every skip adds a line, so that a run
// over many packages can end with the list of what it left out. No test skips
// in any other way.
package need

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The components that "make deps" installs.
const (
	Bwrap = "bwrap" // bubblewrap
	FUSE  = "fuse"  // the device /dev/fuse, which nothing installs, and the program fusermount3
	Git   = "git"
	// Postgres is the programs of its server. Tests start one of their own: one that runs already is left alone.
	Postgres = "postgres"
	// Weed is SeaweedFS, a store that speaks S3 and mints scoped credentials.
	// Tests start a server of their own.
	Weed = "weed"
)

// Components that "make deps" does not install.
const (
	Root    = "root"    // to be the user root
	Proc    = "proc"    // the proc file system
	Cgroup2 = "cgroup2" // a delegated directory of cgroup v2, that BUNKROOM_CGROUP names
	Pids    = "pids"    // a cgroup of the controller pids (v1), in which others can be made
	Bash    = "bash"    // the shell, which can connect to a port
	Geesefs = "geesefs" // the program, on PATH
	Tar     = "tar"     // the program of that name, GNU's
)

// All is what BUNKROOM_REQUIRE=all stands for.
func All() []string { return []string{Bwrap, FUSE, Git, Postgres, Weed} }

// Missing ends t because component is missing: with a skip, or a failure
// where it is required. why is a sentence that says what was looked for.
func Missing(t testing.TB, component, why string) {
	t.Helper()
	if required(os.Getenv("BUNKROOM_REQUIRE"), component) {
		t.Fatalf("%s is required (BUNKROOM_REQUIRE) and missing: %s", component, why)
	}
	skip(t, fmt.Sprintf("needs %s: %s", component, why))
}

// Long ends t with a skip in a short run (go test -short), for a test that
// takes more than a few seconds. why is a sentence that says what takes long.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		skip(t, "takes long: "+why)
	}
}

func required(list, component string) bool {
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == component || name == "all" && slices.Contains(All(), component) {
			return true
		}
	}
	return false
}

// skip ends t with a skip, after adding it to the list where there is one.
func skip(t testing.TB, why string) {
	t.Helper()
	if name := os.Getenv("BUNKROOM_SKIPS"); name != "" {
		if err := record(name, fmt.Sprintf("%s %s: %s\n", filepath.Base(os.Args[0]), t.Name(), why)); err != nil {
			t.Fatalf("BUNKROOM_SKIPS: %v", err)
		}
	}
	t.Skipf("%s", why)
}

// record adds a line to a file that other test programs add to at the same time.
func record(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
