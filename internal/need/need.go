// Package need says what becomes of a test that needs a component this
// machine lacks: it skips with a sentence, or where BUNKROOM_REQUIRE names the component, it fails.
//
// BUNKROOM_REQUIRE lists component names, separated by commas. "all" stands
// for everything that "make deps" installs, which is [All].
package need

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The components that "make deps" installs.
const (
	Bwrap = "bwrap" // bubblewrap
	Git   = "git"
)

// All is what BUNKROOM_REQUIRE=all stands for.
var All = []string{Bwrap, Git}

// Missing ends t because component is missing: with a skip, or a failure
// where it is required. why is a sentence that says what was looked for.
func Missing(t testing.TB, component, why string) {
	t.Helper()
	if required(os.Getenv("BUNKROOM_REQUIRE"), component) {
		t.Fatalf("%s is required (BUNKROOM_REQUIRE) and missing: %s", component, why)
	}
	t.Skipf("needs %s: %s", component, why)
}

func required(list, component string) bool {
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if name == component || name == "all" && slices.Contains(All, component) {
			return true
		}
	}
	return false
}
