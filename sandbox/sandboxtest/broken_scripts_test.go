package sandboxtest_test

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/sandbox/sandboxtest"
)

// brokenScripts are providers that each break one promise of Cmd.Script or Cmd.ClearEnv.
var brokenScripts = map[string]brokenProvider{
	"glues a script into another": {"Scripts/Text", scripts(func(c *sandbox.Cmd) { c.Script = "{ " + c.Script + "; }" })},
	"counts parameters from 0":    {"Scripts/Parameters", scripts(func(c *sandbox.Cmd) { asArgument(c) })},
	"finds the shell on the PATH": {"Scripts/Place", scripts(func(c *sandbox.Cmd) { asArgument(c, "sh") })},
	"forgets where a script starts": {"Scripts/Place", scripts(func(c *sandbox.Cmd) {
		c.Dir = ""
	})},
	"feeds a script to the shell": {"Scripts/Stdin", scripts(func(c *sandbox.Cmd) {
		var input []byte
		if c.Stdin != nil {
			input, _ = io.ReadAll(c.Stdin)
		}
		c.Stdin = strings.NewReader(c.Script + "\n" + string(input))
		c.Script, c.Argv = "", append([]string{"/bin/sh", "-s"}, c.Argv...)
	})},
	"makes a script an argument": {"Scripts/Large", scripts(func(c *sandbox.Cmd) { asArgument(c, "sh") })},
	"reads a script before the shell": {"Scripts/Verdict", scripts(func(c *sandbox.Cmd) {
		if strings.HasPrefix(c.Script, "echo before") {
			asArgument(c)
			c.Argv = slices.Insert(c.Argv, 1, "-n")
		}
	})},
	"runs scripts for ever": {"Scripts/Stopped", scripts(func(c *sandbox.Cmd) { c.Timeout = 0 })},
	"drops what no script may hold": {"Scripts/NUL", scripts(func(c *sandbox.Cmd) {
		c.Script = strings.ReplaceAll(c.Script, "\x00", "")
	})},
	"never clears the environment": {"Environment/Cleared", commands(func(c *sandbox.Cmd) { c.ClearEnv = false })},
	"clears what the Cmd has":      {"Environment/Cleared", cleared(func(c *sandbox.Cmd) { c.Env = nil })},
	"adds to what was cleared": {"Environment/Whole", cleared(func(c *sandbox.Cmd) {
		c.Env = append([]string{"PATH=" + os.Getenv("PATH")}, c.Env...)
	})},
	"loses what was cleared": {"Environment/Escaped", cleared(func(c *sandbox.Cmd) { c.Argv = append([]string{"env", "-i"}, c.Argv...) })},
}

// scripts breaks what is started from a script.
func scripts(breaks func(*sandbox.Cmd)) func(sandbox.Provider) *provider {
	return commands(func(c *sandbox.Cmd) {
		if c.Script != "" {
			breaks(c)
		}
	})
}

// cleared breaks what is started with its environment cleared.
func cleared(breaks func(*sandbox.Cmd)) func(sandbox.Provider) *provider {
	return commands(func(c *sandbox.Cmd) {
		if c.ClearEnv {
			breaks(c)
		}
	})
}

// asArgument has a shell read the script of c as its argument, with what stands before c's own parameters.
func asArgument(c *sandbox.Cmd, before ...string) {
	c.Argv = slices.Concat([]string{"sh", "-c", c.Script}, before, c.Argv)
	c.Script = ""
}

// brokenBare are providers that have more than they declare, which is nothing.
var brokenBare = map[string]brokenProvider{
	"passes over a script": {"Commands/NoScript", commands(func(c *sandbox.Cmd) { c.Script, c.Argv = "", []string{"true"} })},
}

// TestBareOn is the suite, of a provider that declares nothing, on one that a test below has chosen.
func TestBareOn(t *testing.T) {
	name := os.Getenv(brokenVar)
	if name == "" {
		return
	}
	sandboxtest.TestProvider(t, func(t *testing.T) sandbox.Provider { return brokenBare[name].of(unconfined(t)) }, nil)
}

// Each of them fails the check that is about what it does not declare.
func TestSuiteFindsWhatIsNotDeclared(t *testing.T) {
	for name, b := range brokenBare {
		t.Run(name, func(t *testing.T) { fails(t, "TestBareOn", name, b.check) })
	}
}
