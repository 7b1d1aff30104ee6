package need

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	for _, c := range []struct {
		list, component string
		want            bool
	}{
		{"", Git, false},
		{Git, Git, true},
		{Bwrap, Git, false},
		{Bwrap + "," + Git, Git, true},
		{" " + Bwrap + " , " + Git + " ", Git, true},
		{"all", Git, true},
		{"all", Bwrap, true},
		{"geesefs,all", Git, true},
		{"all", "geesefs", false}, // never in all
		{"geesefs", "geesefs", true},
		{"ALL", Git, false},
		{"gitx", Git, false},
		{",", Git, false},
	} {
		if got := required(c.list, c.component); got != c.want {
			t.Errorf("BUNKROOM_REQUIRE=%q, %s: %v", c.list, c.component, got)
		}
	}
}

// fake records how a test ends.
type fake struct {
	testing.TB
	fatal, skip string
}

func (*fake) Helper()      {}
func (*fake) Name() string { return "TestFake" }
func (f *fake) Fatalf(format string, a ...any) {
	f.fatal = fmt.Sprintf(format, a...)
	runtime.Goexit()
}
func (f *fake) Skipf(format string, a ...any) {
	f.skip = fmt.Sprintf(format, a...)
	runtime.Goexit()
}

// ends runs end as a test of its own would, to where it ends.
func ends(end func(testing.TB)) *fake {
	f := &fake{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end(f)
	}()
	<-done
	return f
}

func TestMissing(t *testing.T) {
	t.Setenv("BUNKROOM_SKIPS", "")
	missing := func(t testing.TB) { Missing(t, Git, "no git on PATH") }

	t.Setenv("BUNKROOM_REQUIRE", "")
	if f := ends(missing); f.fatal != "" || !strings.Contains(f.skip, Git) || !strings.Contains(f.skip, "no git on PATH") {
		t.Errorf("not required: failed %q, skipped %q", f.fatal, f.skip)
	}
	t.Setenv("BUNKROOM_REQUIRE", "all")
	if f := ends(missing); f.skip != "" || !strings.Contains(f.fatal, Git) || !strings.Contains(f.fatal, "no git on PATH") {
		t.Errorf("required: failed %q, skipped %q", f.fatal, f.skip)
	}
}

func TestSkipsAreListed(t *testing.T) {
	list := filepath.Join(t.TempDir(), "skips")
	t.Setenv("BUNKROOM_REQUIRE", "")
	t.Setenv("BUNKROOM_SKIPS", list)
	for _, why := range []string{"first reason", "second reason"} {
		ends(func(t testing.TB) { Missing(t, "geesefs", why) })
	}
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "TestFake") || !strings.Contains(lines[0], "first reason") || !strings.Contains(lines[1], "second reason") {
		t.Errorf("%q", lines)
	}
	t.Setenv("BUNKROOM_SKIPS", filepath.Join(list, "not a directory"))
	if f := ends(func(t testing.TB) { Missing(t, Git, "why") }); f.fatal == "" {
		t.Error("a skip that can't be listed must not go unnoticed")
	}
}

func TestLong(t *testing.T) {
	t.Setenv("BUNKROOM_SKIPS", "")
	f := ends(func(t testing.TB) { Long(t, "it is long") })
	if f.fatal != "" || (f.skip != "") != testing.Short() {
		t.Errorf("short %v: failed %q, skipped %q", testing.Short(), f.fatal, f.skip)
	}
}
