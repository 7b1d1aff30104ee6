package mount

import (
	"context"
	"fmt"
	"time"
)

// undo holds what has been done for a mount, in order, with the way back.
// Who carries the mount adds to it, and then only goes back.
type undo struct {
	gate  chan struct{} // holds a token while nobody goes back
	steps []step
}

func newUndo() *undo {
	u := &undo{gate: make(chan struct{}, 1)}
	u.gate <- struct{}{}
	return u
}

type step struct {
	what string
	back func(context.Context) error
}

func (u *undo) push(what string, back func(context.Context) error) {
	u.steps = append(u.steps, step{what, back})
}

// run goes back, the latest first, whether or not ctx has ended. It stops at
// the first step that fails, for what is below may still be in use above; the
// next run begins there again. After everything is undone it does nothing. Its
// time counts from the call, also where another goes back meanwhile.
func (u *undo) run(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	select {
	case <-u.gate:
		defer func() { u.gate <- struct{}{} }()
	case <-ctx.Done():
		return fmt.Errorf("mount: it is being undone: %w", ctx.Err())
	}
	for len(u.steps) > 0 {
		last := u.steps[len(u.steps)-1]
		if err := last.back(ctx); err != nil {
			return fmt.Errorf("mount: %s: %w", last.what, err)
		}
		u.steps = u.steps[:len(u.steps)-1]
	}
	return nil
}

// The pauses between attempts to give up what could not be given up at once:
// from the first they double to the last, and are long once it has taken the hour after which it is told of as an error.
const (
	firstLinger = time.Second
	lastLinger  = 30 * time.Second
	longLinger  = 10 * time.Minute
	lingering   = time.Hour
)

// release undoes what was done for a folder, and where that fails has it tried again.
func (c *carriage) release(ctx context.Context) error {
	err := c.held.run(ctx)
	if err != nil {
		c.insist(ctx)
	}
	return err
}

// insist has what could not be undone tried again behind the caller's back:
// what serves the folder may need longer to write out than anybody waits, and
// often nobody else has what is left to release.
func (c *carriage) insist(ctx context.Context) {
	c.lingers.Do(func() { go c.linger(context.WithoutCancel(ctx), c.held.run) })
}

// linger gives up until that succeeds, however long it takes. While anything of
// a folder may be mounted here, nobody else may have its lock; and what is never
// given up stays mounted for as long as this process lives.
func (c *carriage) linger(ctx context.Context, giveUp func(context.Context) error) {
	begun, told := time.Now(), false
	for wait := firstLinger; ; wait = min(2*wait, lastLinger) {
		if told {
			wait = longLinger
		}
		pause(ctx, wait)
		err := giveUp(ctx)
		if err == nil {
			return
		}
		if !told && time.Since(begun) > lingering {
			told = true
			c.log.ErrorContext(ctx, "folder not given up", "session", c.request.Session, "mount", c.outcome.Row.ID, "path", c.outcome.Path, "cause", err)
		}
	}
}
