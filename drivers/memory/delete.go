package memory

import (
	"fmt"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// one is nil where exactly one of the ids is set.
func one[A, B, C ~string](a A, b B, c C) error {
	n := 0
	for _, id := range []string{string(a), string(b), string(c)} {
		if id != "" {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d ids are set", n)
	}
	return nil
}

// delete removes one row, and what can't be without it.
func (tx *commit) delete(a session.Address) error {
	switch {
	case a.Session != "":
		tx.deleteSandbox(owner{session: a.Session})
		for c := range tx.bound[a.Session] {
			v := tx.conversations[c]
			v.Session = ""
			put(tx, tx.conversations, c, v)
		}
		drop(tx, tx.bound, a.Session)
		drop(tx, tx.sessions, a.Session)
	case a.Environment != "":
		for _, s := range tx.sessions {
			if s.Environment == a.Environment {
				return fmt.Errorf("%w: environment %s is borrowed by session %s", session.ErrStale, a.Environment, s.ID)
			}
		}
		tx.deleteSandbox(owner{environment: a.Environment})
		drop(tx, tx.environments, a.Environment)
	default:
		if v, there := tx.conversations[a.Conversation]; there {
			if v.Session != "" {
				drop(tx, tx.bound[v.Session], v.ID)
			}
			drop(tx, tx.conversations, v.ID)
		}
	}
	return nil
}

// deleteSandbox removes the sandbox of what is deleted, and buries its machine.
func (tx *commit) deleteSandbox(of owner) {
	id, there := tx.owned[of]
	if !there {
		return
	}
	if t, ok := tx.sandboxes[id].Buried(); ok {
		tx.bury(t)
	}
	drop(tx, tx.sandboxes, id)
	drop(tx, tx.owned, of)
}

// working reports whether a work lease names the sandbox, expired or not.
func (db *DB) working(id sandbox.ID) bool {
	for l := range db.allLeases() {
		if l.Kind == session.LeaseWork && l.Sandbox == id {
			return true
		}
	}
	return false
}
