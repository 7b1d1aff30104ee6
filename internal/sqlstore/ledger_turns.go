package sqlstore

import (
	"context"
	"sync"
)

// turns has those of this process who want the same account wait for each other here,
// in turn: to wait for a lock of the database costs a connection, and more than what is done under it. The zero value is ready.
type turns struct {
	mu sync.Mutex
	of map[string]*turn
}

type turn struct {
	free  chan struct{} // holds one value while nobody has the turn
	users int           // who have it or wait
}

// take waits for a turn, and returns what gives it up.
func (t *turns) take(ctx context.Context, name string) (give func(), err error) {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	u := t.of[name]
	if u == nil {
		u = &turn{free: make(chan struct{}, 1)}
		u.free <- struct{}{}
		t.of[name] = u
	}
	u.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u.users--; u.users == 0 {
			delete(t.of, name)
		}
	}
	select {
	case <-u.free:
		return func() {
			u.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
