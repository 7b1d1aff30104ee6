//go:build linux

package local_test

import (
	"errors"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			sandboxtest.TestProvider(t, func(t *testing.T) sandbox.Provider { return open(t, unconfined) }, &sandboxtest.Options{
				Commands: sandboxtest.ShellCommands("sh", "-c"), Shell: []string{"sh", "-c"},
				Binds: true, BindsWorkdir: !unconfined, Links: true, Watches: true, WatchesBound: true, ProcessesSeeFiles: true, Detached: true, Lists: true, Reaps: true, Measures: true,
			})
		})
	}
}

// open returns a provider with a root directory of its own.
func open(t testing.TB, unconfined bool) *local.Provider { return openAt(t, t.TempDir(), unconfined) }

func openAt(t testing.TB, root string, unconfined bool) *local.Provider {
	p, err := local.New(local.Config{Root: root, Unconfined: unconfined})
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(t, need.Bwrap, cannot.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
