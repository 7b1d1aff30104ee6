package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// Whoever ranges over what is due holds no connection meanwhile, however long
// it takes, whether it stops, or a page can't be read: it may be in need of one itself.
func TestDueHoldsNoConnection(t *testing.T) {
	db, spy := spied(t, nil)
	store := db.Sessions()
	c := session.Change{}
	for i := range 1201 {
		c.Bury = append(c.Bury, sandbox.Tombstone{TombstoneKey: sandbox.TombstoneKey{Sandbox: sandbox.ID(fmt.Sprint("b", i)), Generation: 1}})
	}
	commit(t, store, c)
	none := func(when string) {
		t.Helper()
		if n := db.SQL().Stats().InUse; n != 0 {
			t.Errorf("%s: %d connections are in use", when, n)
		}
	}
	broken := errors.New("the third page can't be read")
	for what, limit := range map[string]int{"one page": 100, "many pages": 5000} {
		spy.failing(nil)
		spy.reset(nil, nil)
		for n, last := range map[string]int{"stops at once": 1, "stops in the last page": 1150} {
			seen := 0
			for _, err := range store.Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones, Limit: limit}) {
				none(what)
				if seen++; err != nil || seen == last {
					break
				}
			}
			none(what + " of one who " + n)
		}
	}
	spy.reset(func(n int) {
		if n == 3 { // what comes after the keys and two pages
			spy.failing(func(string) error { return broken })
		}
	}, nil)
	seen, faults := 0, 0
	for d, err := range store.Due(t.Context(), session.DueQuery{Kinds: session.DueTombstones | session.DueLive, Limit: 5000}) {
		none("a page that can't be read")
		switch {
		case err == nil:
			seen++
		case !errors.Is(err, broken):
			t.Errorf("got %v", err)
		default:
			faults++
			spy.failing(nil)
			if d.Kind != session.DueTombstones {
				t.Errorf("the error is of kind %b", d.Kind)
			}
		}
	}
	if seen != 1000 || faults != 1 {
		t.Errorf("%d items and %d errors, want what was on the pages before and one", seen, faults)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range store.Due(ctx, session.DueQuery{Kinds: session.DueTombstones, Limit: 5000}) {
		cancel()
		none("given up")
	}
	none("afterwards")
	cancel()
}
