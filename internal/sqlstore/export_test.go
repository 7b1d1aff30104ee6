package sqlstore

import (
	"time"

	"github.com/bunkroom/bunkroom/session"
)

// Waiting is how many wait to write to a database with one writer.
func Waiting(s session.Store) int {
	w := s.(sessions).store.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// ShareFor sets how long a transaction is passed on, whatever the machine does meanwhile.
func ShareFor(s session.Store, going time.Duration) { s.(sessions).store.writer.going = going }
