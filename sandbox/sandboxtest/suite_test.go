package sandboxtest_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/drivers/local"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// brokenVar names, in a process of its own, the broken provider to run the suite on.
const brokenVar = "BUNKROOM_TEST_BROKEN"

// TestOn is the suite on a provider that a test below has chosen.
func TestOn(t *testing.T) {
	name := os.Getenv(brokenVar)
	if name == "" {
		return
	}
	open := func(t *testing.T) sandbox.Provider {
		return allBroken(t)[name].of(unconfined(t))
	}
	limits := unconfined(t).Info().Caps.Limits
	if b := allBroken(t)[name]; b.check != "Limits/Caps" {
		limits = b.of(unconfined(t)).Info().Caps.Limits
	}
	sandboxtest.TestProvider(t, open, &sandboxtest.Options{
		Commands: sandboxtest.ShellCommands("sh", "-c"), Shell: []string{"sh", "-c"}, Scripts: true,
		Binds: true, Links: true, Watches: true, WatchesBound: true, Attrs: true, ETags: true, Streams: true, ProcessesSeeFiles: true, Detached: true, Lists: true, Reaps: true, Measures: true, Processes: true, Terminals: true, Patience: 5 * time.Second, Limits: limits,
	})
}

func unconfined(t *testing.T) sandbox.Provider {
	p, err := local.New(local.Config{Root: t.TempDir(), Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// allBroken are all broken providers, by what they do, whose checks this host can run.
func allBroken(t *testing.T) map[string]brokenProvider {
	all := maps.Clone(broken)
	maps.Copy(all, brokenPowers)
	maps.Copy(all, brokenMeasures)
	maps.Copy(all, brokenFiles)
	maps.Copy(all, brokenWrites)
	maps.Copy(all, brokenLimits)
	if unconfined(t).Info().Caps.Limits&sandbox.LimitTreeProcesses != 0 {
		maps.Copy(all, brokenTreeLimits)
	}
	maps.Copy(all, brokenRefusals)
	maps.Copy(all, brokenRuns)
	maps.Copy(all, brokenScripts)
	maps.Copy(all, brokenProcesses)
	maps.Copy(all, brokenTerminals)
	maps.Copy(all, brokenTars)
	maps.Copy(all, brokenWatches)
	return all
}

// filesOnly is a provider whose sandboxes have files and nothing else.
func filesOnly(p sandbox.Provider) sandbox.Provider {
	bare := struct{ sandbox.Provider }{claiming{p, 0}}
	return handles(func(h *handle) {
		h.Sandbox = struct{ sandbox.Sandbox }{h.Sandbox}
		h.start = func(context.Context, sandbox.Cmd) (sandbox.Process, error) { return nil, sandbox.ErrUnsupported }
	})(bare)
}

// on runs one check of the suite on a provider, in a process of its own.
func on(t *testing.T, test, name, check string) (out string, passed bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var pattern strings.Builder
	pattern.WriteString("^" + test + "$")
	for part := range strings.SplitSeq(check, "/") {
		pattern.WriteString("/^" + part + "$")
	}
	cmd := exec.Command(exe, "-test.v", "-test.timeout=2m", "-test.run="+pattern.String())
	cmd.Env = append(os.Environ(), brokenVar+"="+name)
	b, err := cmd.CombinedOutput()
	if !strings.Contains(string(b), "/"+check[strings.Index(check, "/")+1:]) {
		t.Fatalf("the check %s did not run:\n%s", check, b)
	}
	return string(b), err == nil
}

// Each broken provider fails the check that is about what it breaks, and the
// failure names the rule. That sound ones pass is shown by their own tests.
func TestSuiteFindsWhatIsBroken(t *testing.T) {
	for name, b := range allBroken(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each is a process of its own, which mostly waits
			fails(t, "TestOn", name, b.check)
		})
	}
}

// fails says that a check of the suite, run by test, finds a broken provider out.
func fails(t *testing.T, test, name, check string) {
	t.Helper()
	out, passed := on(t, test, name, check)
	if passed {
		t.Fatalf("%s passes a provider that %s", check, name)
	}
	if !strings.Contains(out, "The rule: ") || strings.Contains(out, "panic:") {
		t.Fatalf("the failure of %s names no rule:\n%s", check, out)
	}
}

// A sound provider without processes and powers passes with the zero options.
func TestSuitePassesWhatIsSound(t *testing.T) {
	sandboxtest.TestProvider(t, func(t *testing.T) sandbox.Provider { return filesOnly(unconfined(t)) }, &sandboxtest.Options{ETags: true})
}
