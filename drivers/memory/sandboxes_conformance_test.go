package memory_test

import (
	"testing"

	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// The provider keeps every promise of package sandbox, with functions for
// programs. There are no children, so none that hold output or escape.
func TestSandboxesConformance(t *testing.T) {
	open := func(t *testing.T) sandbox.Provider {
		boxes := memory.NewSandboxes(nil)
		handlePrograms(t, boxes)
		return boxes
	}
	sandboxtest.TestProvider(t, open, &sandboxtest.Options{
		Commands: commands, Binds: true, BindsWorkdir: true, Links: true, Attrs: true, ETags: true, ProcessesSeeFiles: true, Detached: true, Lists: true, Reaps: true, Measures: true, Guards: true, Processes: true, Watches: true,
	})
}
