package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Leftover is a directory below the root that could not be cleared.
type Leftover struct {
	// Dir is the directory: of a dead process, or one that held what had been
	// written while nothing was mounted there.
	Dir string
	// Err says what stands in the way.
	Err error
}

// ours are the names of processes' directories.
var ours = regexp.MustCompile(`^[0-9]+-[0-9a-f]{12}$`)

// clearRoot clears the directories of processes that are dead: those whose
// lock can be had. What nothing says to be dead is left alone.
func clearRoot(ctx context.Context, k kernel, root string, patience time.Duration) ([]Leftover, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("%w: root: %w", ErrUnavailable, err)
	}
	var mu sync.Mutex
	var left []Leftover
	var all sync.WaitGroup
	locks := map[string]bool{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), lockSuffix)
		if !ok || !ours.MatchString(name) {
			continue
		}
		locks[name] = true
		all.Go(func() {
			found := clearDead(ctx, k, filepath.Join(root, name), patience)
			mu.Lock()
			left = append(left, found...)
			mu.Unlock()
		})
	}
	all.Wait()
	for _, e := range entries {
		if ours.MatchString(e.Name()) && !locks[e.Name()] {
			left = append(left, Leftover{filepath.Join(root, e.Name()), errors.New("mount: it has no lock, so that nobody can say whether its process is dead")})
		}
	}
	return left, nil
}

// clearDead clears the directory of one process, unless it lives.
func clearDead(ctx context.Context, k kernel, dir string, patience time.Duration) []Leftover {
	lock, err := k.lock(dir + lockSuffix)
	if err != nil {
		return []Leftover{{dir, err}}
	}
	if lock == nil {
		return nil
	}
	defer lock.Close()
	left, err := emptyOut(ctx, k, dir, patience)
	if err == nil && len(left) == 0 {
		err = k.rmdir(dir)
	}
	switch {
	case len(left) > 0:
		return left
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return []Leftover{{dir, err}}
	}
	// The lock goes last: a directory without one is never cleared.
	if err := os.Remove(dir + lockSuffix); err != nil {
		return []Leftover{{dir + lockSuffix, err}}
	}
	return nil
}

// emptyOut detaches what is mounted at dir and below, and removes the empty
// directories in it. It says what it had to leave.
func emptyOut(ctx context.Context, k kernel, dir string, patience time.Duration) ([]Leftover, error) {
	t, err := table(k)
	if err != nil {
		return nil, err
	}
	// One that answers has a process that serves it still, and that is given
	// the time to write out. One that doesn't is cut off.
	var all sync.WaitGroup
	for _, m := range t.within(dir) {
		if m.isFUSE() {
			all.Go(func() {
				live, _ := new(prober).look(ctx, k, m.path, patience)
				_, _ = detach(ctx, k, m.path, live != Alive) // the look below decides
			})
		}
	}
	all.Wait()
	if _, err := detach(ctx, k, dir, false); err != nil {
		return nil, err
	}
	names, err := k.names(dir)
	if err != nil {
		return nil, err
	}
	var left []Leftover
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := k.rmdir(path); err != nil {
			left = append(left, Leftover{path, err})
		}
	}
	return left, nil
}
