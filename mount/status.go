package mount

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Status is how a [Host] is, for who operates it. It names paths of this host.
type Status struct {
	// Dir is the directory of this process; empty once the host is closed.
	Dir string
	// Shared says why the mounts below Dir are not private to this process's
	// mount namespace: it may not make them so, as a rule. nil = they are private.
	Shared error
	// Leftovers are directories that could not be cleared, or were kept
	// because they held something.
	Leftovers []Leftover
	// Folders has an entry for each folder, in the order of their directories.
	Folders []FolderStatus
}

// FolderStatus is how one folder is.
type FolderStatus struct {
	Scope      string
	Mount      ID
	Dir        string
	State      string // "starting", "up", "down", "stopping" or "stuck": a word for people
	References int
	Health     Health
}

// Status looks at every folder at once, which takes some seconds at most.
func (h *Host) Status(ctx context.Context) Status {
	h.mu.Lock()
	var s Status
	if h.work != nil {
		s.Dir, s.Shared = h.work.dir, h.work.shared
	}
	s.Leftovers = slices.Concat(h.left, h.strays)
	var all []*hosted
	for _, f := range h.folders {
		all = append(all, f)
		s.Folders = append(s.Folders, FolderStatus{
			Scope: f.key.scope, Mount: f.key.id, Dir: f.dir, State: f.state.String(), References: f.refs,
		})
	}
	h.mu.Unlock()
	var looks sync.WaitGroup
	for i, f := range all {
		looks.Go(func() { s.Folders[i].Health = f.health(ctx) })
	}
	looks.Wait()
	slices.SortFunc(s.Folders, func(a, b FolderStatus) int { return cmp.Compare(a.Dir, b.Dir) })
	return s
}
