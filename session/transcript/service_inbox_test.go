package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// An actor changes its own inputs; the host's, and what the host has let in of others, it may only take back.
func TestOnlyOnesOwnIsChanged(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	for id, edit := range map[transcript.EntryID]func(*transcript.NewInput){
		"a notice": func(in *transcript.NewInput) {
			in.Lane, in.Entry.Kind = transcript.LaneSynthetic, transcript.KindSynthetic
		},
		"in disguise":  func(in *transcript.NewInput) { in.Lane = transcript.LaneSynthetic },
		"a compaction": func(in *transcript.NewInput) { in.Lane = transcript.LaneBarrier },
		"a context":    func(in *transcript.NewInput) { in.Entry.Kind = transcript.KindContext },
		"bob's":        func(in *transcript.NewInput) { in.Entry.Actor = "bob" },
	} {
		in := input(id)
		edit(&in)
		h.wait(theTalk, in)
		s, before := h.service(), h.picture(theTalk)
		_, err := s.Edit(t.Context(), ann, theTalk, id, 0, user(""))
		wantField(t, "Edit "+string(id), err, "input")
		_, err = s.Move(t.Context(), ann, theTalk, id, 0, transcript.Move{After: "waits"})
		wantField(t, "Move "+string(id), err, "input")
		_, err = s.ChangeLane(t.Context(), ann, theTalk, id, 0, transcript.LaneSteer)
		wantField(t, "ChangeLane "+string(id), err, "input")
		if h.picture(theTalk) != before {
			t.Errorf("%s: something was written", id)
		}
		if out, err := s.Cancel(t.Context(), ann, theTalk, id, 1); err != nil || out.State != transcript.InputCancelled {
			t.Errorf("Cancel %s: %+v, %v", id, out, err)
		}
	}
}

func TestChangingInputs(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	ctx, s := t.Context(), h.service()
	for _, id := range []transcript.EntryID{"a", "b"} {
		if _, err := s.Admit(ctx, ann, theTalk, input(id)); err != nil {
			t.Fatal(err)
		}
	}
	words := user("")
	words.Parts = []transcript.Part{transcript.TextPart("other words")}
	in, err := s.Edit(ctx, ann, theTalk, "a", 0, words)
	if err != nil || in.Entry.ID != "a" || in.Entry.Actor != "ann" || !strings.Contains(string(in.Entry.Parts[0].Data), "other words") {
		t.Errorf("Edit: %+v, %v", in, err)
	}
	if _, err := s.Edit(ctx, ann, theTalk, "a", in.Version-1, words); !errors.As(err, new(*transcript.VersionError)) {
		t.Errorf("Edit of an older version: %v", err)
	}
	if _, err := s.Move(ctx, ann, theTalk, "b", 0, transcript.Move{Before: "waits"}); err != nil {
		t.Errorf("Move: %v", err)
	}
	if got, want := h.waiting(), "b:follow_up waits:follow_up a:follow_up"; got != want {
		t.Errorf("waiting: %s, want %s", got, want)
	}
	if in, err := s.ChangeLane(ctx, ann, theTalk, "a", 0, transcript.LaneSteer); err != nil || in.Lane != transcript.LaneSteer {
		t.Errorf("ChangeLane: %+v, %v", in, err)
	}
	for range 2 {
		if in, err := s.Cancel(ctx, ann, theTalk, "a", 0); err != nil || in.State != transcript.InputCancelled {
			t.Errorf("Cancel: %+v, %v", in, err)
		}
	}
	var late *transcript.TooLateError
	if _, err := s.Edit(ctx, ann, theTalk, "a", 0, words); !errors.As(err, &late) || late.State != transcript.InputCancelled {
		t.Errorf("Edit of what was taken back: %v", err)
	}
	if _, err := s.Edit(ctx, ann, theTalk, "nothing", 0, words); !errors.Is(err, transcript.ErrNotFound) {
		t.Errorf("Edit of what is not there: %v", err)
	}
}

// meddling is an inbox in which somebody else changes an input before each change.
type meddling struct {
	transcript.Inbox
	times   int
	changed func()
}

func (m *meddling) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
	if m.times > 0 {
		m.times--
		m.changed()
	}
	return m.Inbox.ChangeInput(ctx, c, id, cmd)
}

// What was looked at is what is changed: an input that has become the host's own meanwhile is not.
func TestChangedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		rule  string
		to    transcript.Lane
		times int
		want  error
	}{
		{"once is looked at again", transcript.LaneSteer, 1, nil},
		{"what is the host's by then is left alone", transcript.LaneBarrier, 1, &access.FieldError{}},
		{"again and again is told", transcript.LaneSteer, 100, &transcript.VersionError{}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := newHall(t)
			h.open(session.Conversation{ID: theTalk})
			m := &meddling{Inbox: h.db.Inbox(), times: c.times}
			m.changed = func() {
				if _, err := m.Inbox.ChangeInput(t.Context(), theTalk, "waits", transcript.InputCommand{Lane: c.to}); err != nil {
					t.Fatal(err)
				}
			}
			s := h.service(func(sc *transcript.ServiceConfig) { sc.Inbox = m })
			_, err := s.Edit(t.Context(), ann, theTalk, "waits", 0, user(""))
			if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.want) {
				t.Errorf("%v, want a %T", err, c.want)
			}
		})
	}
}

// Rule 8: all that waits is taken back and returned, in more than one page where it must be; twice is as once.
func TestDrain(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	ctx, s, store := t.Context(), h.service(), h.db.Transcripts()
	barrier, notice := input("compaction"), input("notice")
	barrier.Lane, notice.Lane = transcript.LaneBarrier, transcript.LaneSynthetic
	h.wait(theTalk, barrier)
	h.wait(theTalk, notice)
	if _, err := store.Commit(ctx, transcript.Change{Conversation: theTalk, Fence: 1, Begin: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.db.Inbox().ChangeInput(ctx, theTalk, "waits", transcript.InputCommand{Claim: 1}); err != nil {
		t.Fatal(err)
	}
	const many = transcript.MaxListed + 5
	for n := range many {
		if _, err := h.db.Inbox().Admit(ctx, theTalk, input(transcript.EntryID(fmt.Sprint("more ", n))), 2*many); err != nil {
			t.Fatal(err)
		}
	}
	back, err := s.Drain(ctx, ann, theTalk)
	if err != nil || len(back) != many+3 {
		t.Fatalf("%d were taken back, %v", len(back), err)
	}
	for _, in := range back {
		if claimed := in.Entry.ID == "waits"; in.CancelAsked != claimed || (in.State == transcript.InputCancelled) == claimed {
			t.Errorf("%+v", in)
		}
	}
	if got := h.waiting(); got != "waits:follow_up?" {
		t.Errorf("there waits %s", got)
	}
	before := h.picture(theTalk)
	if back, err := s.Drain(ctx, ann, theTalk); err != nil || len(back) > 0 || h.picture(theTalk) != before {
		t.Errorf("twice: %+v, %v", back, err)
	}
}

// What was delivered while it is drained is not taken back, and what comes meanwhile stays; what is cut short tells what it did.
func TestDrainMeanwhile(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	h.wait(theTalk, input("next"))
	m := &meddling{Inbox: h.db.Inbox(), times: 1}
	m.changed = func() {
		if _, err := h.db.Transcripts().Commit(t.Context(), transcript.Change{Conversation: theTalk, Append: []transcript.NewEntry{input("waits").Entry}, Promote: []transcript.EntryID{"waits"}}); err != nil {
			t.Fatal(err)
		}
		h.wait(theTalk, input("late"))
	}
	back, err := h.service(func(c *transcript.ServiceConfig) { c.Inbox = m }).Drain(t.Context(), ann, theTalk)
	if err != nil || len(back) != 1 || back[0].Entry.ID != "next" || h.waiting() != "late:follow_up" {
		t.Errorf("taken back %+v, %v; there waits %s", back, err, h.waiting())
	}

	h.wait(theTalk, input("last"))
	calls := 0
	broken := &failing{Inbox: h.db.Inbox(), fail: func() error {
		if calls++; calls == 2 {
			return errOutage
		}
		return nil
	}}
	back, err = h.service(func(c *transcript.ServiceConfig) { c.Inbox = broken }).Drain(t.Context(), ann, theTalk)
	ids := []transcript.EntryID{}
	for _, in := range back {
		ids = append(ids, in.Entry.ID)
	}
	if !errors.Is(err, errOutage) || !slices.Equal(ids, []transcript.EntryID{"late"}) || h.waiting() != "last:follow_up" {
		t.Errorf("taken back %q, %v; there waits %s", ids, err, h.waiting())
	}
}

// failing is an inbox whose changes fail where it says so.
type failing struct {
	transcript.Inbox
	fail func() error
}

func (f *failing) ChangeInput(ctx context.Context, c access.ConversationID, id transcript.EntryID, cmd transcript.InputCommand) (transcript.Input, error) {
	if err := f.fail(); err != nil {
		return transcript.Input{}, err
	}
	return f.Inbox.ChangeInput(ctx, c, id, cmd)
}
