// Package sandboxtest checks that a [sandbox.Provider], its handles, files and
// processes keep the promises of package sandbox.
//
// A driver's conformance test says how to have a provider and what it has:
//
//	func TestConformance(t *testing.T) {
//		open := func(t *testing.T) sandbox.Provider {
//			p, err := local.New(local.Config{Root: t.TempDir()})
//			if err != nil {
//				t.Fatal(err)
//			}
//			t.Cleanup(func() { p.Close() })
//			return p
//		}
//		sandboxtest.TestProvider(t, open, &sandboxtest.Options{
//			Commands: sandboxtest.ShellCommands("sh", "-c"), Shell: []string{"sh", "-c"}, Scripts: true, ProcessesSeeFiles: true,
//			Binds: true, BindsWorkdir: true, Links: true, Watches: true, WatchesBound: true, Attrs: true, ETags: true, Streams: true,
//			Detached: true, Lists: true, Reaps: true, Measures: true, Processes: true, Terminals: true,
//		})
//	}
//
// The suite makes machines, files and processes of its own, and destroys its machines.
package sandboxtest

import (
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
)

// check is one promise. Its rule is part of every failure.
type check struct {
	name string
	rule string
	run  func(e *env)
}

// TestProvider checks every promise of package sandbox against providers that
// open returns. Each check is a subtest, and says in its failure which rule
// was broken. open is called for each group of checks with that group's t,
// and releases with t.Cleanup what the provider holds. A nil opts is all defaults.
func TestProvider(t *testing.T, open func(t *testing.T) sandbox.Provider, opts *Options) {
	if opts == nil {
		opts = &Options{}
	}
	for _, g := range []struct {
		name   string
		has    bool
		checks []check
	}{
		{"Machines", true, machineChecks},
		{"Handles", true, handleChecks},
		{"Files", true, fileChecks},
		{"Writes", true, writeChecks},
		{"Directories", true, dirChecks},
		{"IOFS", true, ioFSChecks},
		{"Ranges", true, rangeChecks},
		{"Lstat", true, lstatChecks},
		{"Renames", true, renameChecks},
		{"Streams", opts.Streams, streamChecks},
		{"ETags", opts.ETags, etagChecks},
		{"Preconditions", opts.ETags, preconditionChecks},
		{"Attrs", opts.Attrs, attrChecks},
		{"Copies", true, copyChecks},
		{"Paths", true, pathChecks},
		{"Links", opts.Links, linkChecks},
		{"Escapes", opts.Links, escapeChecks},
		{"Tar", true, tarChecks},
		{"TarLinks", opts.Links, tarLinkChecks},
		{"Watch", opts.Watches, watchChecks},
		{"Commands", true, commandChecks},
		{"Output", true, outputChecks},
		{"Stops", true, stopChecks},
		{"Shell", opts.Shell != nil, shellChecks},
		{"Scripts", opts.Scripts, scriptChecks},
		{"Environment", opts.Commands.Env != nil, environmentChecks},
		{"Processes", opts.Processes, processChecks},
		{"Terminals", opts.Terminals, terminalChecks},
		{"Binds", opts.Binds, bindChecks},
		{"Workdir", opts.BindsWorkdir, workdirChecks},
		{"BoundFiles", opts.BindsWorkdir, inBoundWorkdir(fileChecks)},
		{"BoundWrites", opts.BindsWorkdir, inBoundWorkdir(writeChecks)},
		{"BoundDirectories", opts.BindsWorkdir, inBoundWorkdir(dirChecks)},
		{"BoundIOFS", opts.BindsWorkdir, inBoundWorkdir(ioFSChecks)},
		{"BoundRanges", opts.BindsWorkdir, inBoundWorkdir(rangeChecks)},
		{"BoundLstat", opts.BindsWorkdir, inBoundWorkdir(lstatChecks)},
		{"BoundRenames", opts.BindsWorkdir, inBoundWorkdir(renameChecks)},
		{"BoundStreams", opts.BindsWorkdir && opts.Streams, inBoundWorkdir(streamChecks)},
		{"BoundETags", opts.BindsWorkdir && opts.ETags, inBoundWorkdir(etagChecks)},
		{"BoundPreconditions", opts.BindsWorkdir && opts.ETags, inBoundWorkdir(preconditionChecks)},
		{"BoundAttrs", opts.BindsWorkdir && opts.Attrs, inBoundWorkdir(attrChecks)},
		{"BoundCopies", opts.BindsWorkdir, inBoundWorkdir(copyChecks)},
		{"BoundPaths", opts.BindsWorkdir, inBoundWorkdir(pathChecks)},
		{"BoundLinks", opts.BindsWorkdir && opts.Links, inBoundWorkdir(linkChecks)},
		{"BoundEscapes", opts.BindsWorkdir && opts.Links, inBoundWorkdir(escapeChecks)},
		{"BoundTar", opts.BindsWorkdir, inBoundWorkdir(tarChecks)},
		{"BoundTarLinks", opts.BindsWorkdir && opts.Links, inBoundWorkdir(tarLinkChecks)},
		{"BoundWatch", opts.BindsWorkdir && opts.WatchesBound, inBoundWorkdir(watchChecks)},
		{"BoundCommands", opts.BindsWorkdir, inBoundWorkdir(commandChecks)},
		{"Limits", true, limitChecks},
		{"Lists", opts.Lists, listChecks},
		{"Reaps", opts.Reaps, reapChecks},
		{"Measures", opts.Measures, measureChecks},
		{"Network", opts.Guards, networkChecks},
	} {
		if !g.has {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			p := open(t)
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					c.run(&env{T: t, Provider: p, opts: opts, rule: c.rule})
				})
			}
		})
	}
}
