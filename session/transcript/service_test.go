package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Who is who: project "p" is pat's, who pays for it; ann and bob are members, eve is nobody.
var (
	ann = access.Actor{User: "ann"}
	bob = access.Actor{User: "bob"}
	eve = access.Actor{User: "eve"}
)

// hall is a host: its directory, its database, its audit, and the gate to its payers' accounts.
type hall struct {
	t       testing.TB
	dir     *memory.Directory
	db      *memory.DB
	catalog *session.Service
	gate    *asked

	mu     sync.Mutex
	events []access.Event
}

// asked is a gate that can be asked, and writes down what it was. What is not a question it can't do.
type asked struct {
	billing.Gate
	mu      sync.Mutex
	answer  error
	intents []billing.Intent
}

func (g *asked) Ask(_ context.Context, in billing.Intent) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.intents = append(g.intents, in)
	return g.answer
}

func newHall(t testing.TB) *hall {
	t.Helper()
	h := &hall{t: t, dir: memory.NewDirectory(), db: memory.New(nil), gate: &asked{}}
	h.dir.AddProject("p", "pat", "pro")
	h.dir.AddMember("p", "ann", access.RoleMember)
	h.dir.AddMember("p", "bob", access.RoleMember)
	h.dir.AddAgent("p", "builder", true)
	h.dir.SetPlan("ann", "free")
	var err error
	h.catalog, err = session.New(session.Config{Store: h.db.Sessions(), Leases: h.db.Leases(), Directory: h.dir,
		Audit: func(_ context.Context, e access.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// audited returns what the audit was told since it was called last.
func (h *hall) audited() []access.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.events
	h.events = nil
	return out
}

func (h *hall) config() transcript.ServiceConfig {
	return transcript.ServiceConfig{Store: h.db.Transcripts(), Inbox: h.db.Inbox(), Conversations: h.catalog, Gate: h.gate}
}

func (h *hall) service(change ...func(*transcript.ServiceConfig)) *transcript.Service {
	h.t.Helper()
	c := h.config()
	for _, f := range change {
		f(&c)
	}
	s, err := transcript.NewService(c)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

// The conversations there are. "source" and "target" are for forks: who reads the one need not write in the other.
const (
	theTalk = access.ConversationID("0199ffff-0000-7000-8000-00000000000a")
	target  = access.ConversationID("0199ffff-0000-7000-8000-00000000000b")
	nowhere = access.ConversationID("0199ffff-0000-7000-8000-00000000000c")
)

// open opens a conversation of ann's, without a session, and its transcript with an entry and an input that waits.
func (h *hall) open(v session.Conversation) {
	h.t.Helper()
	if v.Owner == "" {
		v.Owner = "ann"
	}
	if _, err := h.db.Sessions().Commit(h.t.Context(), session.Change{Conversation: &v}); err != nil {
		h.t.Fatal(err)
	}
	if v.ID == target { // which a fork is to be
		return
	}
	h.fill(v.ID)
}

func (h *hall) fill(id access.ConversationID) {
	h.t.Helper()
	ctx, store := h.t.Context(), h.db.Transcripts()
	if _, err := store.Create(ctx, id); err != nil {
		h.t.Fatal(err)
	}
	if _, err := store.Commit(ctx, transcript.Change{Conversation: id, Append: []transcript.NewEntry{user("question")},
		Refs:   []transcript.RefChange{{Name: "there", To: transcript.After("question")}},
		Labels: []transcript.LabelChange{{Entry: "question", Label: "old"}}}); err != nil {
		h.t.Fatal(err)
	}
	h.wait(id, input("waits"))
}

// wait has something wait that was let in by nobody: the host's own.
func (h *hall) wait(id access.ConversationID, in transcript.NewInput) {
	h.t.Helper()
	if _, err := h.db.Inbox().Admit(h.t.Context(), id, in, 1000); err != nil {
		h.t.Fatal(err)
	}
}

// input is one of ann's.
func input(id transcript.EntryID) transcript.NewInput {
	e := user(id)
	e.Actor = "ann"
	return transcript.NewInput{Entry: e, Lane: transcript.LaneFollowUp}
}

// waiting are the ids of what waits in theTalk, in its order.
func (h *hall) waiting() string {
	h.t.Helper()
	ins, err := h.db.Inbox().Inputs(h.t.Context(), theTalk, "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, in := range ins {
		said := string(in.Entry.ID) + ":" + string(in.Lane)
		if in.CancelAsked {
			said += "?"
		}
		out = append(out, said)
	}
	return strings.Join(out, " ")
}

// picture is all there is in the database of a conversation: whatever is written changes it.
func (h *hall) picture(id access.ConversationID) string {
	h.t.Helper()
	ctx := h.t.Context()
	row, err := h.db.Transcripts().Load(ctx, id)
	if errors.Is(err, transcript.ErrNotFound) {
		return "nothing"
	}
	if err != nil {
		h.t.Fatal(err)
	}
	ins, err := h.db.Inbox().Inputs(ctx, id, "", 1000, transcript.InputPending, transcript.InputClaimed, transcript.InputPromoted, transcript.InputCancelled)
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := json.Marshal([]any{row, ins})
	if err != nil {
		h.t.Fatal(err)
	}
	return string(out)
}

func TestServiceConfig(t *testing.T) {
	h := newHall(t)
	for field, break_ := range map[string]func(*transcript.ServiceConfig){
		"Store":         func(c *transcript.ServiceConfig) { c.Store = nil },
		"Inbox":         func(c *transcript.ServiceConfig) { c.Inbox = nil },
		"Conversations": func(c *transcript.ServiceConfig) { c.Conversations = nil },
		"Class":         func(c *transcript.ServiceConfig) { c.Class = "small" },
		"MaxWaiting":    func(c *transcript.ServiceConfig) { c.MaxWaiting = transcript.MaxListed + 1 },
		"AskEvery":      func(c *transcript.ServiceConfig) { c.AskEvery = -time.Second },
	} {
		c := h.config()
		break_(&c)
		var bad *access.FieldError
		if s, err := transcript.NewService(c); !errors.As(err, &bad) || bad.Field != field || s != nil {
			t.Errorf("%s: %v, %v", field, s, err)
		}
	}
}
