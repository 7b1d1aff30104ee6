package transcript

import (
	"encoding/json"
	"sync"

	"github.com/bunkroom/bunkroom/access"
)

// Hub tells the readers of this process that a conversation has something
// new. It keeps nothing: what there is to know is in the store, and a
// reader that is slow is told once, however much has come. All methods may be called concurrently.
type Hub struct {
	mu      sync.Mutex
	watches map[access.ConversationID]map[*Watch]struct{}
	relays  map[*Relay]struct{}
}

// NewHub returns a hub that nobody watches.
func NewHub() *Hub {
	return &Hub{watches: map[access.ConversationID]map[*Watch]struct{}{}, relays: map[*Relay]struct{}{}}
}

// Watch is one reader's share of a hub.
type Watch struct {
	// Bell has a value when there may be something new.
	Bell <-chan struct{}
	// Live has what is not kept; a reader that falls behind by more than a few hundred loses the oldest.
	Live <-chan Progress

	hub          *Hub
	conversation access.ConversationID
	bell         chan struct{}
	live         chan Progress
}

// liveKept is how far a reader may fall behind with what is not kept.
const liveKept = 256

// Watch begins to listen. The caller closes it.
func (h *Hub) Watch(conversation access.ConversationID) *Watch {
	w := &Watch{hub: h, conversation: conversation, bell: make(chan struct{}, 1), live: make(chan Progress, liveKept)}
	w.Bell, w.Live = w.bell, w.live
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[conversation] == nil {
		h.watches[conversation] = map[*Watch]struct{}{}
	}
	h.watches[conversation][w] = struct{}{}
	return w
}

// Close ends it; its channels stay open, and silent.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watches[w.conversation], w)
	if len(w.hub.watches[w.conversation]) == 0 {
		delete(w.hub.watches, w.conversation)
	}
}

// Ring says that a conversation may have something new; empty: that any may.
// It never waits for a reader.
func (h *Hub) Ring(conversation access.ConversationID) { h.ring(conversation, nil) }

// ring rings all but the relay that it came by.
func (h *Hub) ring(conversation access.ConversationID, by *Relay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.relays {
		if r != by {
			r.heard(conversation)
		}
	}
	for of, watches := range h.watches {
		if conversation != "" && of != conversation {
			continue
		}
		for w := range watches {
			select {
			case w.bell <- struct{}{}:
			default: // it will look anyway
			}
		}
	}
}

// Phase is how far the execution of a call is.
type Phase string

// The phases.
const (
	PhaseStarted  Phase = "started"
	PhaseProgress Phase = "progress"
	PhaseSettled  Phase = "settled"
)

// Progress is something that happens while a call runs, for those who look
// on; it is not kept. It has the whole call in every phase, so that whoever comes late or has lost one knows what runs.
// It may come before the facts that it is about, or after them, which have the whole call too.
type Progress struct {
	Entry EntryID
	Call  Call
	Phase Phase
	Data  json.RawMessage // what the tool says; any JSON
}

// Publish tells those who watch a conversation now, in this process: a [Relay]
// does not pass it on. It never waits for a reader. Readers share what it is given, and nobody writes to that any more.
func (h *Hub) Publish(conversation access.ConversationID, p Progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watches[conversation] {
		for sent := false; !sent; {
			select {
			case w.live <- p:
				sent = true
			default:
				select {
				case <-w.live: // the oldest
				default:
				}
			}
		}
	}
}
