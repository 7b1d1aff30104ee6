package transcript_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// followed follows theTalk until the end of it, and tells what was seen. each is called with every event.
func followed(t *testing.T, ctx context.Context, s *transcript.Service, a access.Actor, each func(transcript.Event) bool) (n int, last error) {
	t.Helper()
	for e, err := range s.Follow(ctx, a, theTalk, 0) {
		if err != nil {
			if last != nil || e != (transcript.Event{}) {
				t.Errorf("%+v with %v, after %v", e, err, last)
			}
			last = err
			continue
		}
		n++
		if !each(e) {
			break
		}
	}
	return n, last
}

// Somebody who follows and may not any more sees nothing of what is said from then on, and the stream ends: within AskEvery.
func TestFollowEndsWithAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.open(session.Conversation{ID: theTalk, Project: "p", Shared: true})
		s := h.service(func(c *transcript.ServiceConfig) { c.AskEvery = time.Minute })
		began, asked := time.Now(), len(h.dir.Questions())
		_, err := followed(t, t.Context(), s, bob, func(e transcript.Event) bool {
			switch {
			case e.Synced: // he follows for a while, and is asked about as often
				time.AfterFunc(150*time.Second, func() { h.dir.RemoveMember("p", "bob") })
				time.AfterFunc(181*time.Second, func() {
					if _, err := s.Label(t.Context(), ann, theTalk, "question", "secret"); err != nil {
						t.Error(err)
					}
				})
			case e.Fact != nil && e.Fact.Label == "secret":
				t.Error("seen after access was gone")
			}
			return true
		})
		if !errors.Is(err, session.ErrNotFound) {
			t.Errorf("ended with %v", err)
		}
		if got := len(h.dir.Questions()) - asked; got != 4 || time.Since(began) != 3*time.Minute {
			t.Errorf("asked %d times in %v", got, time.Since(began))
		}
		if events := h.audited(); len(events) != 1 || events[0].Actor.User != "bob" {
			t.Errorf("audited %+v", events)
		}
	})
}

// A slow reader who loses access sees nothing more, not even of a page that was read before.
func TestFollowYieldsNothingAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.open(session.Conversation{ID: theTalk, Project: "p", Shared: true})
		n, err := followed(t, t.Context(), h.service(), bob, func(transcript.Event) bool {
			h.dir.RemoveMember("p", "bob")
			time.Sleep(time.Minute)
			return true
		})
		if n != 1 || !errors.Is(err, session.ErrNotFound) {
			t.Errorf("%d events, %v", n, err)
		}
	})
}

// Where nobody can say whether one still may, it ends too, and is no denial; an owner's is asked of nobody.
func TestFollowWhileNobodyCanSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t)
		h.open(session.Conversation{ID: theTalk, Project: "p", Shared: true})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("an hour is over"))
		defer cancel()
		down := func(e transcript.Event) bool {
			if e.Synced {
				h.dir.Fail(errOutage)
			}
			return true
		}
		if _, err := followed(t, ctx, h.service(), bob, down); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a member: %v", err)
		}
		if _, err := followed(t, ctx, h.service(), ann, down); err == nil || err.Error() != "an hour is over" {
			t.Errorf("the owner: %v", err)
		}
		if events := h.audited(); len(events) > 0 {
			t.Errorf("audited %+v", events)
		}
	})
}

// It ends where its reader breaks off, and rings reach it; nothing of it goes on: the bubble waits for every goroutine.
func TestFollowRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, hub := newHall(t), transcript.NewHub()
		h.open(session.Conversation{ID: theTalk})
		s := h.service(func(c *transcript.ServiceConfig) {
			c.Hub, c.Store, c.Inbox = hub, transcript.Ringing(c.Store, hub), transcript.RingingInbox(c.Inbox, hub)
		})
		began := time.Now()
		_, err := followed(t, t.Context(), s, ann, func(e transcript.Event) bool {
			if e.Synced {
				if _, err := s.Admit(t.Context(), ann, theTalk, input("now")); err != nil {
					t.Error(err)
				}
			}
			return e.Fact == nil || e.Fact.Entry != "now"
		})
		if err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
	})
}
