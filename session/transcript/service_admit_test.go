package transcript_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// wantField fails the test unless err names that field.
func wantField(t testing.TB, what string, err error, field string) {
	t.Helper()
	var bad *access.FieldError
	if !errors.As(err, &bad) || bad.Field != field {
		t.Errorf("%s: %v, want a *access.FieldError for %s", what, err, field)
	}
}

// An actor says what a user says, under its own name, in the lanes that are its own. Nothing else is even asked about.
func TestAdmitOnlyOnesOwn(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	closed := h.service(func(c *transcript.ServiceConfig) { shut(c); c.Conversations = nobody{} })
	for field, edit := range map[string]func(*transcript.NewInput){
		"Entry.Actor": func(in *transcript.NewInput) { in.Entry.Actor = "bob" },
		"Entry.Kind":  func(in *transcript.NewInput) { in.Entry.Kind = transcript.KindSynthetic },
		"Entry.Usage": func(in *transcript.NewInput) { in.Entry.Usage.CostMicros = 1 },
		"Entry.ID":    func(in *transcript.NewInput) { in.Entry.ID = "" },
		"Wait":        func(in *transcript.NewInput) { in.Wait = -1 },
	} {
		in := input("new")
		edit(&in)
		_, err := closed.Admit(t.Context(), ann, theTalk, in)
		wantField(t, "Admit", err, field)
		if edited, ok := strings.CutPrefix(field, "Entry."); ok && edited != "ID" {
			_, err := closed.Edit(t.Context(), ann, theTalk, "waits", 0, in.Entry)
			wantField(t, "Edit", err, "Edit."+edited)
		}
	}
	for _, lane := range []transcript.Lane{transcript.LaneSynthetic, transcript.LaneBarrier, "", "express"} {
		in := input("new")
		in.Lane = lane
		_, err := closed.Admit(t.Context(), ann, theTalk, in)
		wantField(t, string(lane), err, "Lane")
		_, err = closed.ChangeLane(t.Context(), ann, theTalk, "waits", 0, lane)
		wantField(t, string(lane), err, "lane")
	}
	in := input("new")
	in.Entry.Actor, in.Billing = "", "ref-1"
	out, err := h.service().Admit(t.Context(), ann, theTalk, in)
	if err != nil || !out.Created || out.Input.Entry.Actor != "ann" || out.Input.Billing != "ref-1" {
		t.Errorf("%+v, %v", out, err)
	}
	_, err = closed.MoveHead(t.Context(), ann, theTalk, transcript.Position{}, 0)
	wantField(t, "MoveHead", err, "to")
	_, err = closed.SetRef(t.Context(), ann, theTalk, "ref", transcript.Position{}, 0)
	wantField(t, "SetRef", err, "to")
}

// nobody decides about access: each of its methods is a panic.
type nobody struct{ transcript.Conversations }

func TestAdmitIsBounded(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	s := h.service(func(c *transcript.ServiceConfig) { c.MaxWaiting = 2 })
	if _, err := s.Admit(t.Context(), ann, theTalk, input("second")); err != nil {
		t.Fatal(err)
	}
	var limit *transcript.LimitError
	if _, err := s.Admit(t.Context(), ann, theTalk, input("third")); !errors.As(err, &limit) || limit.Max != 2 {
		t.Errorf("%v", err)
	}
}

// Nothing is said in a conversation that is closed; what is there can be seen to.
func TestClosedConversation(t *testing.T) {
	h := newHall(t)
	v := session.Conversation{ID: theTalk, Owner: "ann", Project: "p"}
	v.ClosedAt = v.CreatedAt.AddDate(2025, 0, 0)
	h.open(v)
	before := h.picture(theTalk)
	if _, err := h.service().Admit(t.Context(), ann, theTalk, input("new")); !errors.Is(err, session.ErrConversationClosed) {
		t.Errorf("%v", err)
	}
	if h.picture(theTalk) != before || len(h.gate.intents) > 0 {
		t.Error("something was written, or the gate was asked")
	}
	if back, err := h.service().Drain(t.Context(), ann, theTalk); err != nil || len(back) != 1 {
		t.Errorf("Drain: %+v, %v", back, err)
	}
}

// T-56: the gate is asked about whoever pays for the session, and for what has none about whoever would.
func TestWhoIsAskedAbout(t *testing.T) {
	for _, c := range []struct {
		rule    string
		spawn   bool // the conversation is of a session of bob's
		project access.ProjectID
		blind   bool
		payer   access.UserID
		plan    access.Plan
	}{
		{"a project's session is its owner's to pay", true, "p", false, "pat", "pro"},
		{"so is what has no session there", false, "p", false, "pat", "pro"},
		{"what is personal is one's own", true, "", false, "ann", "free"},
		{"so is what has no session", false, "", false, "ann", "free"},
		{"T-57: where the project's payer can't be found out the session's owner pays", true, "p", true, "bob", ""},
		{"T-57: and where there is no session the conversation's", false, "p", true, "ann", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := newHall(t)
			v := session.Conversation{ID: theTalk, Project: c.project}
			if c.spawn {
				q, by := session.Spawn{Project: c.project}, ann
				if c.project != "" {
					q.Agent, by = "builder", bob
				}
				in, _, err := h.catalog.Spawn(t.Context(), by, q)
				if err != nil {
					t.Fatal(err)
				}
				v.Session = in.ID
			}
			h.open(v)
			if c.blind {
				h.dir.Blind(access.WantBilling)
			}
			s := h.service(func(sc *transcript.ServiceConfig) { sc.Meter, sc.Class = "tokens", "large" })
			if _, err := s.Admit(t.Context(), ann, theTalk, input("new")); err != nil {
				t.Fatal(err)
			}
			if len(h.gate.intents) != 1 {
				t.Fatalf("asked %+v", h.gate.intents)
			}
			got := h.gate.intents[0]
			if got.ID == "" || got.Work != string(got.ID) || got.TTL <= 0 {
				t.Errorf("asked %+v: a gate that reserves needs an id and a time", got)
			}
			got.ID, got.Work, got.TTL = "", "", 0
			if want := (billing.Intent{Payer: c.payer, Plan: c.plan, Session: v.Session, Project: c.project, Meter: "tokens", Class: "large"}); got != want {
				t.Errorf("asked %+v, want %+v", got, want)
			}
		})
	}
}

// T-60: who pays is asked before anything is written, and asking reserves nothing. Here it is a till with a ledger.
func TestAdmitAndMoney(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk, Project: "p"})
	ctx, ledger, floor := t.Context(), h.db.Ledger(), billing.Micros(250)
	till, err := billing.NewTill(billing.TillConfig{Ledger: ledger, Terms: func(access.Plan) billing.Terms {
		return billing.Terms{Estimate: 20, Floor: floor, InFlight: 1}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := h.service(func(c *transcript.ServiceConfig) { c.Gate = till })
	refused := func(what string, id transcript.EntryID) {
		t.Helper()
		before := h.picture(theTalk)
		_, err := s.Admit(ctx, ann, theTalk, input(id))
		var no *billing.RefusedError
		if !errors.As(err, &no) || no.Payer != "pat" {
			t.Errorf("%s: %v, want it refused for pat", what, err)
		}
		if h.picture(theTalk) != before {
			t.Errorf("%s: a refusal has written something", what)
		}
	}
	refused("without credit", "first")
	if _, err := ledger.Grant(ctx, billing.Grant{ID: "g", Payer: "pat", Amount: 1000, Source: "test"}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 { // InFlight is 1: a hold of any of them would keep the next out
		if out, err := s.Admit(ctx, ann, theTalk, input(transcript.EntryID(fmt.Sprint("with credit ", n)))); err != nil || !out.Created {
			t.Errorf("after a refusal, with credit: %+v, %v", out, err)
		}
	}
	if out, err := s.Admit(ctx, ann, theTalk, input("first")); err != nil || !out.Created {
		t.Errorf("what was refused is admitted later: %+v, %v", out, err)
	}
	if b, err := ledger.Balance(ctx, "pat"); err != nil || b.Holds != 0 || b.Held != 0 {
		t.Errorf("what waits reserves something: %+v, %v", b, err)
	}

	floor = 1000 // the credit has run out
	refused("without credit again", "later")
	if out, err := s.Admit(ctx, ann, theTalk, input("first")); err != nil || out.Created || out.Input.Entry.ID != "first" {
		t.Errorf("a retry without credit: %+v, %v", out, err)
	}
	other := input("first")
	other.Entry.Parts = []transcript.Part{transcript.TextPart("something else")}
	if _, err := s.Admit(ctx, ann, theTalk, other); !errors.As(err, new(*transcript.InputConflictError)) {
		t.Errorf("other content under an id that is there: %v", err)
	}
	if _, err := s.Cancel(ctx, ann, theTalk, "first", 0); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Admit(ctx, ann, theTalk, input("first")); err != nil || out.Created || out.Input.State != transcript.InputCancelled {
		t.Errorf("a retry of what was taken back: %+v, %v", out, err)
	}
	if _, err := h.db.Transcripts().Commit(ctx, transcript.Change{Conversation: theTalk, Append: []transcript.NewEntry{input("with credit 0").Entry}, Promote: []transcript.EntryID{"with credit 0"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(ctx, ann, theTalk, input("with credit 0")); !errors.As(err, new(*transcript.PromotedError)) {
		t.Errorf("a retry of what was delivered: %v", err)
	}
	if n, err := h.db.Transcripts().Forget(ctx, theTalk, time.Microsecond, transcript.MaxListed); err != nil || n.Inputs == 0 {
		t.Fatal(n, err)
	}
	if _, err := s.Admit(ctx, ann, theTalk, input("with credit 0")); !errors.As(err, new(*transcript.PromotedError)) {
		t.Errorf("a retry of what was delivered, once that is forgotten: %v", err)
	}
	h.dir.RemoveMember("p", "ann")
	if _, err := s.Admit(ctx, ann, theTalk, input("first")); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a retry by who was removed: %v", err)
	}
}

// Where the gate can't be asked nothing is admitted.
func TestAdmitWithoutAnAnswer(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	h.gate.answer = errOutage
	before := h.picture(theTalk)
	if _, err := h.service().Admit(t.Context(), ann, theTalk, input("new")); !errors.Is(err, errOutage) || h.picture(theTalk) != before {
		t.Errorf("%v", err)
	}
}
