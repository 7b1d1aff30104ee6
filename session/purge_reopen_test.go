package session_test

import (
	"context"
	"testing"

	"github.com/bunkroom/bunkroom/session"
)

// reopening is a room whose purge is overtaken: as often as it is told to, it
// reopens the session that is purged, and opens another conversation there.
type reopening struct {
	r     *replica
	id    session.ID
	times int
	found []int // conversations of the session, by each round
}

func (p *reopening) Purge(ctx context.Context, _ session.PurgeTarget, limit int) (int, error) {
	left, err := p.r.w.db.Sessions().Owned(ctx, session.PurgeTarget{Session: p.id, History: true}, limit)
	if err != nil {
		return 0, err
	}
	talks := 0
	for _, a := range left {
		talks += b2i(a.Conversation != "")
	}
	p.found = append(p.found, talks)
	if len(p.found) > p.times {
		return 0, nil
	}
	if _, err := p.r.Reopen(ctx, ann, p.id); err != nil {
		return 0, err
	}
	p.r.mustWork(ann, inSession(p.id))
	p.r.add(ann, p.id, "builder")
	return 0, nil
}

// What a purge lets the other rooms delete is all there is.
func TestPurgeOfWhatIsReopened(t *testing.T) {
	for _, c := range []struct {
		rule  string
		times int
		done  bool
	}{
		{"what is added to a session that is reopened while the purgers run is purged by them too, before its row goes", 2, true},
		{"a session that is reopened again and again stays, with its conversations, and that is told", 5, false},
	} {
		inWorld(t, c.rule, immediate, func(t *testing.T, w *world) {
			room := &reopening{times: c.times}
			r := w.purger(room)
			s, v := r.spawn(ann)
			room.r, room.id = r, s.ID
			rep, err := r.Purge(t.Context(), session.PurgeTarget{Session: s.ID, History: true}, session.PurgeOptions{})
			if !c.done {
				wantErr(t, "Purge", err, session.ErrStale)
				if rep.Done || rep.Sessions+rep.Conversations > 0 || w.snap(s.ID).Session.ID != s.ID {
					t.Errorf("%+v", rep)
				}
				if got, err := r.Conversation(t.Context(), ann, v.ID); err != nil || got.Session != s.ID {
					t.Errorf("conversation %+v, %v", got, err)
				}
				return
			}
			if err != nil || !rep.Done || rep.Sessions != 1 || rep.Conversations != 1+c.times {
				t.Errorf("%+v, %v", rep, err)
			}
			if n := len(room.found); n != c.times+1 || room.found[n-1] != 1+c.times {
				t.Errorf("the purgers were asked %d times and found %v conversations", n, room.found)
			}
			w.reclaimed(r)
			if len(w.all()) > 0 || len(w.boxes.Machines()) > 0 {
				t.Errorf("sessions %+v, machines %+v", w.all(), w.boxes.Machines())
			}
		})
	}
}
