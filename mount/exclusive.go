package mount

import (
	"context"
	"fmt"
)

// exclusive is a folder that this process holds, or is about to, for all that
// carry it here: the lock is taken before the first of them mounts, and given
// up once the last one has nothing mounted any more.
type exclusive struct {
	gate chan struct{} // holds a token while nobody locks or gives up
	uses int           // references, and calls under way; of Manager.mu

	// Of who has the token.
	hold Hold // nil = not held
	refs int
}

// enter waits until nobody else locks or gives up the folder.
func (m *Manager) enter(ctx context.Context, id ID) (*exclusive, error) {
	m.mu.Lock()
	x := m.holds[id]
	if x == nil {
		x = &exclusive{gate: make(chan struct{}, 1)}
		x.gate <- struct{}{}
		m.holds[id] = x
	}
	x.uses++
	m.mu.Unlock()
	select {
	case <-x.gate:
		return x, nil
	case <-ctx.Done():
		m.drop(id, x)
		return nil, context.Cause(ctx)
	}
}

func (m *Manager) drop(id ID, x *exclusive) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.uses--; x.uses == 0 {
		delete(m.holds, id)
	}
}

// occupy takes a reference to the lock of the carriage's folder, and the lock
// where this process has not. One that is lost is nobody's to use any more, and
// taken anew only once all that was mounted under it is gone.
func (c *carriage) occupy(ctx context.Context) (Hold, error) {
	id := c.outcome.Row.ID
	x, err := c.enter(ctx, id)
	if err != nil {
		return nil, err
	}
	kept := false
	defer func() { // also where a driver panics
		x.gate <- struct{}{}
		if !kept {
			c.drop(id, x)
		}
	}()
	if x.hold != nil && over(x.hold) {
		return nil, fmt.Errorf("%w: what was mounted when its lock was lost is not gone yet: %w", ErrUnavailable, x.hold.Err())
	}
	if x.hold == nil {
		hold, err := await(ctx, c, func() (Hold, error) { return c.locker.Lock(ctx, c.outcome.Row, c.request.Holder) })
		if err != nil {
			return nil, err
		}
		x.hold = hold
	}
	kept = true
	x.refs++
	c.held.push("give up the lock", func(ctx context.Context) error { return c.vacate(ctx, id) })
	return x.hold, nil
}

func over(h Hold) bool {
	select {
	case <-h.Done():
		return true
	default:
		return false
	}
}

// vacate gives one reference to the lock up, and the last one the lock.
func (m *Manager) vacate(ctx context.Context, id ID) error {
	x, err := m.enter(ctx, id)
	if err != nil {
		return err
	}
	defer func() {
		x.gate <- struct{}{}
		m.drop(id, x)
	}()
	if x.refs == 1 {
		if err := x.hold.Release(ctx); err != nil {
			return err
		}
		x.hold = nil
	}
	x.refs--
	m.drop(id, x) // that of the reference
	return nil
}
