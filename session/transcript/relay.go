package transcript

import (
	"slices"
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

// Relay connects a hub with those of other processes: whoever has one passes
// on what rings here, and rings here what rings there. What a relay rings
// does not come back to it. All methods may be called concurrently.
type Relay struct {
	// Bell has a value when there is something to take.
	Bell <-chan struct{}

	hub  *Hub
	bell chan struct{}
	mu   sync.Mutex
	rung map[access.ConversationID]struct{} // since it was taken last
	all  bool                               // any of them
}

// relayKept is how many conversations a relay tells apart before it says that any may have rung.
const relayKept = 1000

// Relay begins to collect what rings. The caller closes it.
func (h *Hub) Relay() *Relay {
	r := &Relay{hub: h, bell: make(chan struct{}, 1), rung: map[access.ConversationID]struct{}{}}
	r.Bell = r.bell
	h.mu.Lock()
	defer h.mu.Unlock()
	h.relays[r] = struct{}{}
	return r
}

// Close ends it.
func (r *Relay) Close() {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	delete(r.hub.relays, r)
}

// Ring rings the hub on behalf of another process, and with it the other relays.
func (r *Relay) Ring(conversation access.ConversationID) { r.hub.ring(conversation, r) }

// Take returns which conversations have rung since it was called last, each
// once, sorted. The one that is empty stands for any, and then is the only one.
func (r *Relay) Take() (rung []access.ConversationID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all {
		rung = append(rung, "")
	}
	for c := range r.rung {
		rung = append(rung, c)
	}
	slices.Sort(rung)
	r.all = false
	clear(r.rung)
	return rung
}

// heard keeps that a conversation has rung.
func (r *Relay) heard(conversation access.ConversationID) {
	r.mu.Lock()
	switch {
	case r.all:
	case conversation == "" || len(r.rung) == relayKept:
		r.all = true
		clear(r.rung)
	default:
		r.rung[conversation] = struct{}{}
	}
	r.mu.Unlock()
	select {
	case r.bell <- struct{}{}:
	default: // it will take it anyway
	}
}
