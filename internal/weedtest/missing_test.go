package weedtest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/internal/need"
)

// ending records how a test ends.
type ending struct {
	testing.TB
	failed, skipped string
}

func (*ending) Helper()      {}
func (*ending) Name() string { return "TestEnding" }
func (e *ending) Fatalf(format string, a ...any) {
	e.failed = fmt.Sprintf(format, a...)
	runtime.Goexit()
}
func (e *ending) Skipf(format string, a ...any) {
	e.skipped = fmt.Sprintf(format, a...)
	runtime.Goexit()
}

// Mounts trap 81: tests skipped where the store did not answer, and so hid that
// it was set up wrongly. A store that is there and does not come up fails the
// test, whatever is required; one that is not there fails it where it is expected.
func TestABrokenStoreIsNoSkip(t *testing.T) {
	t.Setenv("BUNKROOM_SKIPS", "")
	broken, missing := errors.New("503 Service Unavailable"), "no program"
	for _, c := range []struct {
		rule, required string
		server         *Server
		fails          string
	}{
		{"it is set up wrongly", "", &Server{err: broken}, "503"},
		{"it is set up wrongly, and required", need.Weed, &Server{err: broken}, "503"},
		{"it is expected and not there", need.Weed, &Server{missing: missing}, missing},
		{"nobody expects it", "", &Server{missing: missing}, ""},
	} {
		t.Setenv("BUNKROOM_REQUIRE", c.required)
		c.server.once.Do(func() {})
		e, done := &ending{}, make(chan struct{})
		go func() {
			defer close(done)
			c.server.Start(e)
		}()
		<-done
		if (e.failed != "") != (c.fails != "") || !strings.Contains(e.failed, c.fails) || (e.skipped != "") != (c.fails == "") {
			t.Errorf("%s: failed %q, skipped %q", c.rule, e.failed, e.skipped)
		}
	}
}
