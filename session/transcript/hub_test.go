package transcript_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// rings reports whether a bell has rung, and stills it.
func rings(bell <-chan struct{}) bool {
	select {
	case <-bell:
		return true
	default:
		return false
	}
}

func TestHub(t *testing.T) {
	hub := transcript.NewHub()
	a, again, other := hub.Watch("a"), hub.Watch("a"), hub.Watch("other")
	for range 3 {
		hub.Ring("a") // however often, it is once
	}
	if !rings(a.Bell) || rings(a.Bell) || !rings(again.Bell) || rings(other.Bell) {
		t.Error("a ring is for those who watch, once")
	}
	hub.Ring("")
	if !rings(a.Bell) || !rings(again.Bell) || !rings(other.Bell) {
		t.Error("a ring for any is for all")
	}
	a.Close()
	a.Close()
	hub.Ring("a")
	hub.Publish("a", transcript.Progress{})
	if rings(a.Bell) || !rings(again.Bell) || len(a.Live) > 0 || len(again.Live) != 1 {
		t.Error("who has closed hears nothing, and others do")
	}
}

// What rings here goes to the other processes once each, and what comes from
// there does not go back.
func TestRelay(t *testing.T) {
	hub := transcript.NewHub()
	w := hub.Watch("a")
	one, two := hub.Relay(), hub.Relay()
	took := func(r *transcript.Relay, want ...access.ConversationID) {
		t.Helper()
		if rings(r.Bell) != (len(want) > 0) {
			t.Errorf("the bell has not rung for %q", want)
		}
		if got := r.Take(); !slices.Equal(got, want) {
			t.Errorf("took %q, want %q", got, want)
		}
	}
	for _, c := range []access.ConversationID{"b", "a", "b"} {
		hub.Ring(c)
	}
	took(one, "a", "b")
	took(one)
	took(two, "a", "b")
	rings(w.Bell)
	one.Ring("a")
	if !rings(w.Bell) {
		t.Error("what rings elsewhere does not ring here")
	}
	took(one)
	took(two, "a")
	for i := range 1001 {
		hub.Ring(access.ConversationID(fmt.Sprint(i)))
	}
	took(one, "")
	hub.Ring("a")
	hub.Ring("")
	hub.Ring("b")
	took(one, "")
	one.Close()
	hub.Ring("a")
	took(one)
}

// All of it at once, under the race detector: what rings last is heard.
func TestHubConcurrently(t *testing.T) {
	hub := transcript.NewHub()
	kept, relay := hub.Watch("c0"), hub.Relay()
	var all sync.WaitGroup
	for i := range 8 {
		c := access.ConversationID(fmt.Sprint("c", i%2))
		all.Go(func() {
			for range 300 {
				w, r := hub.Watch(c), hub.Relay()
				hub.Ring(c)
				hub.Publish(c, transcript.Progress{})
				r.Ring(c)
				r.Take()
				select {
				case <-w.Live:
				case <-w.Bell:
				default:
					t.Error("who watches hears nothing of what comes")
				}
				r.Close()
				w.Close()
			}
		})
	}
	all.Wait()
	if !rings(kept.Bell) || len(kept.Live) == 0 || !rings(relay.Bell) || !slices.Equal(relay.Take(), []access.ConversationID{"c0", "c1"}) {
		t.Error("who watched all the time has missed it")
	}
}
