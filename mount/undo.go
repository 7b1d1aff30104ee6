package mount

import (
	"context"
	"fmt"
	"sync"
)

// undo holds what has been done for a mount, in order, with the way back.
type undo struct {
	mu    sync.Mutex
	steps []step
}

type step struct {
	what string
	back func(context.Context) error
}

func (u *undo) push(what string, back func(context.Context) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.steps = append(u.steps, step{what, back})
}

// run goes back, the latest first, whether or not ctx has ended. It stops at
// the first step that fails, for what is below may still be in use above; the
// next run begins there again. After everything is undone it does nothing.
func (u *undo) run(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		if err := last.back(ctx); err != nil {
			return fmt.Errorf("mount: %s: %w", last.what, err)
		}
		u.steps = u.steps[:len(u.steps)-1]
	}
	return nil
}
