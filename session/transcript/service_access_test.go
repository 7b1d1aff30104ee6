package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// door is one method of Service with one conversation that it is asked for.
type door struct {
	reads bool // access.SeeConversation is asked, else access.SendInput
	ask   func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error
}

func second[T any](_ T, err error) error { return err }

// doors are all methods of Service. Each does something to what [hall.open] has made.
var doors = map[string][]door{
	"Read": {{true, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Read(ctx, a, id))
	}}},
	"Follow": {{true, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		for _, err := range s.Follow(ctx, a, id, 0) {
			return err
		}
		return errors.New("nothing was yielded")
	}}},
	"Create": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Create(ctx, a, id))
	}}},
	"Fork": {}, // which is of two conversations: see TestWhoMayFork
	"MoveHead": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.MoveHead(ctx, a, id, transcript.BeforeRoot(), 0))
	}}},
	"Label": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Label(ctx, a, id, "question", "new"))
	}}},
	"Unlabel": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Unlabel(ctx, a, id, "question", "old"))
	}}},
	"SetRef": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.SetRef(ctx, a, id, "here", transcript.After("question"), 0))
	}}},
	"DeleteRef": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.DeleteRef(ctx, a, id, "there", 1))
	}}},
	"Hold": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Hold(ctx, a, id))
	}}},
	"Resume": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Resume(ctx, a, id))
	}}},
	"Archive": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Archive(ctx, a, id, &transcript.ArchiveOptions{CancelWaiting: true}))
	}}},
	"Restore": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Restore(ctx, a, id))
	}}},
	"Delete": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return s.Delete(ctx, a, id)
	}}},
	"Admit": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Admit(ctx, a, id, transcript.NewInput{Entry: user("said"), Lane: transcript.LaneSteer}))
	}}},
	"Input": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Input(ctx, a, id, "waits"))
	}}},
	"Inputs": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Inputs(ctx, a, id, "", 10))
	}}},
	"Edit": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Edit(ctx, a, id, "waits", 0, user("")))
	}}},
	"Move": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Move(ctx, a, id, "waits", 0, transcript.Move{After: "waits too"}))
	}}},
	"ChangeLane": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.ChangeLane(ctx, a, id, "waits", 0, transcript.LaneSteer))
	}}},
	"Cancel": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Cancel(ctx, a, id, "waits", 0))
	}}},
	"Drain": {{false, func(ctx context.Context, s *transcript.Service, a access.Actor, id access.ConversationID) error {
		return second(s.Drain(ctx, a, id))
	}}},
}

// A method that is added to Service, or to Reading, must be added to the tables.
func TestEveryDoorIsTried(t *testing.T) {
	names := func(of reflect.Type) (all []string) {
		for m := range of.Methods() {
			all = append(all, m.Name)
		}
		return all
	}
	var tried, read []string
	for name := range doors {
		tried = append(tried, name)
	}
	for name := range readings {
		read = append(read, name)
	}
	slices.Sort(tried)
	slices.Sort(read)
	if diff := cmp.Diff(names(reflect.TypeFor[*transcript.Service]()), tried); diff != "" {
		t.Errorf("methods of Service and what TestWhoMay tries (-methods +tried)\n%s", diff)
	}
	if diff := cmp.Diff(names(reflect.TypeFor[*transcript.Reading]()), read); diff != "" {
		t.Errorf("methods of Reading and what TestReading tries (-methods +tried)\n%s", diff)
	}
}

// Stores and a gate of which no method may be called: each is a panic.
type (
	shutStore struct{ transcript.Store }
	shutInbox struct{ transcript.Inbox }
	shutGate  struct{ billing.Gate }
)

func shut(c *transcript.ServiceConfig) {
	c.Store, c.Inbox, c.Gate = shutStore{}, shutInbox{}, shutGate{}
}

var errOutage = errors.New("the directory is down")

// what becomes of a request.
type verdict int

const (
	allowed     verdict = iota
	hidden              // as what is not there, and told to the audit
	silent              // as what is not there, and told to nobody: nobody could say
	denied              // openly
	unavailable         // it is not known who pays
)

// T-44, T-47, T-50, T-55 and the rules of who may see and write: every method, for everybody. What is
// refused touches nothing, not even to read, asks no gate and tells the audit once; what is foreign is answered as what is absent.
func TestWhoMay(t *testing.T) {
	shared := session.Conversation{Project: "p", Shared: true}
	for _, c := range []struct {
		rule        string
		v           session.Conversation // ann's
		a           access.Actor
		arrange     func(h *hall)
		read, write verdict
		reason      access.Reason // of a denial that shows
		admit       verdict       // where it is another than write
	}{
		{rule: "its owner does everything", v: shared, a: ann},
		{rule: "what is personal is its owner's", a: ann},
		{rule: "an agent that asks for its owner does too", v: shared, a: access.Actor{User: "ann", Agent: "builder", Depth: access.MaxDepth - 1}},
		{rule: "T-55: but at the end of a chain of agents nothing is said any more", v: shared, a: access.Actor{User: "ann", Agent: "builder", Depth: access.MaxDepth},
			write: denied, reason: access.ReasonTooDeep},
		{rule: "a member reads what is shared", v: shared, a: bob, write: denied, reason: access.ReasonNotYourConversation},
		{rule: "so does the project's owner", v: shared, a: access.Actor{User: "pat"}, write: denied, reason: access.ReasonNotYourConversation},
		{rule: "and nothing that is not", v: session.Conversation{Project: "p"}, a: bob, read: hidden, write: hidden},
		{rule: "a stranger learns nothing", v: shared, a: eve, read: hidden, write: hidden},
		{rule: "nor of what is personal", a: bob, read: hidden, write: hidden},
		{rule: "nobody learns nothing", v: shared, a: access.Actor{}, read: hidden, write: hidden},
		{rule: "T-50: a confined credential reaches nothing elsewhere, its owner's though it be", v: shared, a: access.Actor{User: "ann", Scope: access.ScopeOf("q")}, read: hidden, write: hidden},
		{rule: "T-50: nor what is personal", a: access.Actor{User: "ann", Scope: access.ScopeOf("p")}, read: hidden, write: hidden},
		{rule: "T-47: a member who was removed learns nothing", v: shared, a: bob, arrange: func(h *hall) { h.dir.RemoveMember("p", "bob") }, read: hidden, write: hidden},
		{rule: "T-46: nor who was invited", v: shared, a: bob, arrange: func(h *hall) { h.dir.AddMember("p", "bob", access.RoleNone) }, read: hidden, write: hidden},
		{rule: "T-47: an owner who was removed reads what was said, and says nothing more", v: shared, a: ann, arrange: func(h *hall) { h.dir.RemoveMember("p", "ann") }, write: hidden},
		{rule: "where the project has vanished its owner reads, and it is no denial", v: shared, a: ann, arrange: func(h *hall) { h.dir.RemoveProject("p") }, write: silent},
		{rule: "while the directory is down a member is a stranger, and it is no denial", v: shared, a: bob, arrange: func(h *hall) { h.dir.Fail(errOutage) }, read: silent, write: silent},
		{rule: "while the directory is down its owner reads", v: shared, a: ann, arrange: func(h *hall) { h.dir.Fail(errOutage) }, write: silent},
		{rule: "and has what is personal, but nothing is admitted for a payer whose plan nobody knows", a: ann, arrange: func(h *hall) { h.dir.Fail(errOutage) }, admit: unavailable},
	} {
		for method, ways := range doors {
			for _, way := range ways {
				t.Run(c.rule+": "+method, func(t *testing.T) {
					want := c.write
					if way.reads {
						want = c.read
					}
					if method == "Admit" && c.admit != allowed {
						want = c.admit
					}
					h := newHall(t)
					v := c.v
					v.ID = theTalk
					h.open(v)
					h.wait(theTalk, input("waits too"))
					if c.arrange != nil {
						c.arrange(h)
					}
					if want == allowed {
						if err := way.ask(t.Context(), h.service(), c.a, theTalk); err != nil {
							t.Fatalf("refused: %v", err)
						}
						if events := h.audited(); len(events) > 0 {
							t.Errorf("audited %+v", events)
						}
						return
					}
					closed := h.service(shut)
					var texts []string
					for _, id := range []access.ConversationID{theTalk, nowhere} {
						before, questions := h.picture(theTalk), len(h.dir.Questions())
						err := way.ask(t.Context(), closed, c.a, id)
						if h.picture(theTalk) != before {
							t.Error("something was written")
						}
						if n := len(h.dir.Questions()) - questions; n > 1 {
							t.Errorf("the directory was asked %d times in one request", n)
						}
						events := h.audited()
						if id == nowhere || want == silent || want == unavailable {
							if len(events) > 0 {
								t.Errorf("%s: audited %+v", id, events)
							}
						} else if len(events) != 1 || events[0].Object != string(theTalk) || events[0].Verb == "" || events[0].Actor.User != c.a.User {
							t.Errorf("audited %+v, want one event", events)
						}
						switch {
						case err == nil:
							t.Fatalf("%s: allowed", id)
						case id == nowhere:
							if !errors.Is(err, session.ErrNotFound) {
								t.Errorf("absent: %v", err)
							}
						case want == denied:
							var d *access.DeniedError
							if !errors.As(err, &d) || d.Reason != c.reason {
								t.Errorf("%v, want it denied for %v", err, c.reason)
							}
							return
						case want == unavailable:
							if !errors.Is(err, session.ErrUnavailable) || !errors.Is(err, errOutage) {
								t.Errorf("%v", err)
							}
							return
						case !errors.Is(err, session.ErrNotFound):
							t.Errorf("foreign: %v", err)
						}
						texts = append(texts, toldOf(t, err, id))
					}
					if texts[0] != texts[1] {
						t.Errorf("T-44: what is foreign and what is absent differ:\n%s", strings.Join(texts, "\n"))
					}
				})
			}
		}
	}
}

// toldOf is what an error tells, in logs and to a client, of whatever id.
func toldOf(t testing.TB, err error, id access.ConversationID) string {
	t.Helper()
	var p interface {
		Problem() (status int, code, sentence string)
	}
	if !errors.As(err, &p) {
		t.Fatalf("%v has no Problem", err)
	}
	status, code, sentence := p.Problem()
	return fmt.Sprintf("%s|%d|%s|%s|%T", strings.ReplaceAll(err.Error(), string(id), "ID"), status, code, sentence, err)
}

// A fork is for who reads its source and has opened the conversation that it is for.
func TestWhoMayFork(t *testing.T) {
	for _, c := range []struct {
		rule   string
		source session.Conversation // ann's
		target session.Conversation // whose Owner is empty: there is none
		a      access.Actor
		at     access.ConversationID // what an error is about; empty: there is none
		denied bool
	}{
		{"what one has said oneself", session.Conversation{}, session.Conversation{Owner: "ann"}, ann, "", false},
		{"what another has said and shared", session.Conversation{Project: "p", Shared: true}, session.Conversation{Owner: "bob", Project: "p"}, bob, "", false},
		{"what is shared, into what is one's own alone", session.Conversation{Project: "p", Shared: true}, session.Conversation{Owner: "bob"}, bob, "", false},
		{"not what another keeps to himself", session.Conversation{Project: "p"}, session.Conversation{Owner: "bob", Project: "p"}, bob, theTalk, false},
		{"not what a stranger has shared elsewhere", session.Conversation{Project: "p", Shared: true}, session.Conversation{Owner: "eve"}, eve, theTalk, false},
		{"not into what is another's", session.Conversation{Project: "p", Shared: true}, session.Conversation{Owner: "ann"}, bob, target, false},
		{"not into what another has shared", session.Conversation{Project: "p", Shared: true}, session.Conversation{Owner: "ann", Project: "p", Shared: true}, bob, target, true},
		{"not into what is not there", session.Conversation{Project: "p", Shared: true}, session.Conversation{}, bob, target, false},
		{"T-55: not at the end of a chain of agents", session.Conversation{}, session.Conversation{Owner: "ann"}, access.Actor{User: "ann", Depth: access.MaxDepth}, target, true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := newHall(t)
			c.source.ID, c.target.ID = theTalk, target
			h.open(c.source)
			if c.target.Owner != "" {
				h.open(c.target)
			}
			fork := transcript.Fork{To: target, From: theTalk}
			if c.at == "" {
				row, err := h.service().Fork(t.Context(), c.a, fork)
				if err != nil || row.Conversation != target || row.Lineage.Conversation != theTalk || row.Head != transcript.After("question") {
					t.Errorf("%+v, %v", row, err)
				}
				return
			}
			_, err := h.service(shut).Fork(t.Context(), c.a, fork)
			if denied := errors.As(err, new(*access.DeniedError)); denied != c.denied || !denied && !errors.Is(err, session.ErrNotFound) {
				t.Errorf("%v, want it denied: %v", err, c.denied)
			}
			if err == nil || !strings.Contains(err.Error(), string(c.at)) {
				t.Errorf("%v, want it about %s", err, c.at)
			}
			if now := h.picture(target); now != "nothing" {
				t.Errorf("written: %s", now)
			}
		})
	}
}
