//go:build linux

package local_test

import (
	"errors"
	"os"
	"testing"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/internal/need"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

func TestConformance(t *testing.T) {
	for name, unconfined := range map[string]bool{"Confined": false, "Unconfined": true} {
		t.Run(name, func(t *testing.T) {
			sandboxtest.TestProvider(t, func(t *testing.T) sandbox.Provider { return openAnswered(t, unconfined) }, offered(t, unconfined))
		})
	}
}

// offered is what this host's sandboxes have.
func offered(t *testing.T, unconfined bool) *sandboxtest.Options {
	guards := !unconfined && os.Geteuid() == 0 // as an ordinary user there is no entering a machine's network
	commands := sandboxtest.ShellCommands("sh", "-c")
	if guards {
		commands.Reach, commands.Reaching = reach(t)
	}
	return &sandboxtest.Options{
		Commands: commands, Shell: []string{"sh", "-c"}, Scripts: true, Processes: true, Terminals: true, ProcessesSeeFiles: true, Detached: true,
		Binds: true, BindsWorkdir: !unconfined, Links: true, Attrs: true, ETags: true, Streams: true, Watches: true, WatchesBound: true,
		Lists: true, Reaps: true, Measures: true, Guards: guards, Limits: hostLimits(unconfined),
	}
}

// open returns a provider with a root directory of its own.
func open(t testing.TB, unconfined bool) *local.Provider { return openAt(t, t.TempDir(), unconfined) }

func openAt(t testing.TB, root string, unconfined bool) *local.Provider {
	return openWith(t, local.Config{Root: root, Unconfined: unconfined})
}

func openWith(t testing.TB, c local.Config) *local.Provider {
	p, err := local.New(c)
	if cannot := (*local.ConfinementError)(nil); errors.As(err, &cannot) {
		need.Missing(t, need.Bwrap, cannot.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}
