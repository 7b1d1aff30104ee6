package sqlstore

import (
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

// readers are conversations whose trees this process knows to read others, or to have
// done so. Nothing rests on it: an append to one that is not among them is decided on like
// any other change, and then it is; to one that is, it asks for more than it has to. The zero value is empty.
type readers struct {
	mu  sync.RWMutex
	all map[access.ConversationID]bool
}

// mostReaders is how many of them are remembered. Then some are forgotten, whichever.
const mostReaders = 4096

func (r *readers) has(c access.ConversationID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[c]
}

func (r *readers) add(c access.ConversationID) {
	if r.has(c) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[access.ConversationID]bool{}
	}
	for other := range r.all {
		if len(r.all) < mostReaders {
			break
		}
		delete(r.all, other)
	}
	r.all[c] = true
}
