package sim

import (
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
)

// world is a kind of provider.
type world struct {
	name       string
	caps       sandbox.Caps
	duplicates bool // one create may make two machines
	byName     bool // a delete goes by name
	hosts      int  // more than one: a machine is bound to the host it was made on
}

// What the providers of all worlds declare, and keep to.
const (
	horizon = 14 * time.Second
	lag     = 6 * time.Second
)

var worlds = []world{
	{name: "u", hosts: 1, caps: sandbox.Caps{
		ShellConfined: true, UniqueNames: true, KillBy: sandbox.KillByIncarnation, CreateHorizon: horizon, VisibilityLag: lag}},
	{name: "n", hosts: 1, byName: true, caps: sandbox.Caps{
		ShellConfined: true, KillBy: sandbox.KillByName, CreateHorizon: horizon, VisibilityLag: lag}},
	{name: "d", hosts: 1, duplicates: true, caps: sandbox.Caps{
		ShellConfined: true, KillBy: sandbox.KillByIncarnation, CreateHorizon: horizon, VisibilityLag: lag}},
	{name: "h", hosts: 2, caps: sandbox.Caps{
		ShellConfined: true, HostBound: true, UniqueNames: true, KillBy: sandbox.KillByIncarnation, CreateHorizon: horizon, VisibilityLag: lag}},
	{name: "i", hosts: 1, caps: sandbox.Caps{
		ShellConfined: true, UniqueNames: true, KillBy: sandbox.KillByIncarnation, CreateHorizon: horizon, VisibilityLag: sandbox.Immediate}},
}

func worldNamed(name string) (world, bool) {
	for _, w := range worlds {
		if w.name == name {
			return w, true
		}
	}
	return world{}, false
}

// The patience of every replica. A create has 11 s, of which its call may take 9.
const (
	callTimeout = 9 * time.Second
	window      = callTimeout + callTimeout/4
)
