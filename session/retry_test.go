package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
)

const callersID session.ConversationID = "0199aaaa-0000-7000-8000-00000000000a"

// opener is one of the three ways to open a conversation with an id of the caller's own.
type opener struct {
	name string
	open func(r *replica, a access.Actor, in session.ID, agent access.AgentID, id session.ConversationID) (session.Conversation, error)
}

var openers = []opener{
	{"Spawn", func(r *replica, a access.Actor, _ session.ID, agent access.AgentID, id session.ConversationID) (session.Conversation, error) {
		s, v, err := r.Spawn(r.w.Context(), a, session.Spawn{Project: "p", Agent: agent, Conversation: id})
		if err != nil && (s != session.Session{}) {
			r.w.Errorf("T-44: a refused Spawn returns session %+v", s)
		}
		return v, err
	}},
	{"AddConversation", func(r *replica, a access.Actor, in session.ID, agent access.AgentID, id session.ConversationID) (session.Conversation, error) {
		return r.AddConversation(r.w.Context(), a, session.AddConversation{Session: in, Agent: agent, Conversation: id})
	}},
	{"NewConversation", func(r *replica, a access.Actor, _ session.ID, agent access.AgentID, id session.ConversationID) (session.Conversation, error) {
		return r.NewConversation(r.w.Context(), a, session.NewConversation{Project: "p", Agent: agent, Conversation: id})
	}},
}

// T-07: who repeats a call with an id of his own gets what the first call
// made; whose facts differ in anything gets ErrConversationTaken and learns nothing else.
func TestRetryWithOwnID(t *testing.T) {
	for _, o := range openers {
		inWorld(t, "T-07: "+o.name+" repeated by the same actor returns the same conversation", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(ann)
			first, err := o.open(r, bob, s.ID, "builder", callersID)
			if err != nil || first.ID != callersID {
				t.Fatalf("first: %+v, %v", first, err)
			}
			r.meddle(nil)
			again, err := o.open(w.replica(), bob, s.ID, "builder", callersID)
			if diff := cmp.Diff(first, again); err != nil || diff != "" {
				t.Errorf("again: %v (-first +again)\n%s", err, diff)
			}
			if n := r.count("commit"); n > 0 {
				t.Errorf("the retry wrote %d times", n)
			}
			for what, try := range map[string]func() (session.Conversation, error){
				"by somebody else":   func() (session.Conversation, error) { return o.open(r, ann, s.ID, "builder", callersID) },
				"with another agent": func() (session.Conversation, error) { return o.open(r, bob, s.ID, "tester", callersID) },
			} {
				v, err := try()
				wantErr(t, what, err, session.ErrConversationTaken)
				if v != (session.Conversation{}) {
					t.Errorf("%s: a refusal returns %+v", what, v)
				}
			}
		})
		inWorld(t, "T-07/S-18: "+o.name+" that loses the race of the insert checks the winner's facts as well", immediate, func(t *testing.T, w *world) {
			for _, c := range []struct {
				what   string
				winner func(r *replica, s session.ID) error
				want   error
			}{
				{"the same request won", func(r *replica, s session.ID) error {
					_, err := o.open(r, bob, s, "builder", callersID)
					return err
				}, nil},
				{"somebody else won", func(r *replica, s session.ID) error {
					_, err := o.open(r, ann, s, "builder", callersID)
					return err
				}, session.ErrConversationTaken},
				{"another agent won", func(r *replica, s session.ID) error {
					_, err := o.open(r, bob, s, "tester", callersID)
					return err
				}, session.ErrConversationTaken},
			} {
				w := newWorld(t, immediate)
				r, other := w.replica(), w.replica()
				s, _ := r.spawn(ann)
				r.meddle(func(call string, _, nth int) trouble {
					if call == "commit" && nth == 1 {
						return trouble{hold: func(context.Context) {
							if err := c.winner(other, s.ID); err != nil {
								t.Errorf("the winner: %v", err)
							}
						}}
					}
					return trouble{}
				})
				v, err := o.open(r, bob, s.ID, "builder", callersID)
				if !errors.Is(err, c.want) || c.want == nil && (err != nil || v.Owner != "bob" || v.Agent != "builder") {
					t.Errorf("%s: %+v, %v, want %v", c.what, v, err, c.want)
				}
				if c.want != nil && v != (session.Conversation{}) {
					t.Errorf("%s: a refusal returns %+v", c.what, v)
				}
			}
		})
		inWorld(t, "T-07: "+o.name+" whose commit was unanswered is not done twice", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(ann)
			for _, id := range []session.ConversationID{callersID, ""} {
				r.lose("commit", 1, session.ErrUnknown)
				v, err := o.open(r, bob, s.ID, "builder", id)
				if err != nil || v.Owner != "bob" {
					t.Errorf("%q: %+v, %v", id, v, err)
				}
				if n := r.count("commit"); n != 1 {
					t.Errorf("%q: %d commits, want the one that was unanswered", id, n)
				}
			}
		})
		inWorld(t, "T-07: "+o.name+" called by twenty at once with one id makes one conversation", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			s, _ := r.spawn(ann)
			made := make([]session.Conversation, 20)
			errs := together(len(made), func(i int) (err error) {
				made[i], err = o.open(r, bob, s.ID, "builder", callersID)
				return err
			})
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			for _, v := range made {
				if v != made[0] {
					t.Errorf("%+v and %+v", v, made[0])
				}
			}
		})
	}

	inWorld(t, "T-07: the same id in another session, project or way is somebody else's", immediate, func(t *testing.T, w *world) {
		w.dir.AddMember("q", "ann", access.RoleMember)
		r := w.replica()
		s, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Conversation: callersID})
		if err != nil {
			t.Fatal(err)
		}
		other, _ := r.spawn(ann)
		_, err = openers[1].open(r, ann, other.ID, "builder", callersID)
		wantErr(t, "in another session", err, session.ErrConversationTaken)
		_, err = openers[2].open(r, ann, "", "builder", callersID)
		wantErr(t, "as an unbound one", err, session.ErrConversationTaken)
		_, _, err = r.Spawn(t.Context(), ann, session.Spawn{Project: "q", Agent: "spy", Conversation: callersID})
		wantErr(t, "in another project", err, session.ErrConversationTaken)
		_, _, err = r.Spawn(t.Context(), ann, session.Spawn{Conversation: callersID})
		wantErr(t, "as a personal one", err, session.ErrConversationTaken)
		again, _, err := r.Spawn(t.Context(), ann, session.Spawn{Project: "p", Agent: "builder", Conversation: callersID})
		if err != nil || again.ID != s.ID {
			t.Errorf("the retry: session %s, %v, want %s", again.ID, err, s.ID)
		}
		if _, err := openers[1].open(r, eve, s.ID, "builder", callersID); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a stranger who guesses both ids: %v, want not found", err)
		}
	})
}
