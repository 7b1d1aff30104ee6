package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

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

// Looking for an input looks at no other: among however many that wait it is found, and one
// that is put elsewhere meanwhile is not missed.
func TestChangingOneOfMany(t *testing.T) {
	h := newHall(t)
	h.open(session.Conversation{ID: theTalk})
	for _, id := range []transcript.EntryID{"a", "b", "c"} {
		h.wait(theTalk, input(id))
	}
	s := h.service(func(c *transcript.ServiceConfig) { c.Inbox = unlisted{h.db.Inbox()} })
	ctx := t.Context()
	if _, err := s.Move(ctx, ann, theTalk, "c", 0, transcript.Move{Before: "a"}); err != nil {
		t.Errorf("Move: %v", err)
	}
	if _, err := s.ChangeLane(ctx, ann, theTalk, "b", 0, transcript.LaneSteer); err != nil {
		t.Errorf("ChangeLane: %v", err)
	}
	if out, err := s.Admit(ctx, ann, theTalk, input("a")); err != nil || out.Created {
		t.Errorf("Admit again: %+v, %v", out, err)
	}
	if out, err := s.Admit(ctx, ann, theTalk, input("d")); err != nil || !out.Created {
		t.Errorf("Admit: %+v, %v", out, err)
	}
}

// unlisted is an inbox that can't be listed: that is a panic.
type unlisted struct{ transcript.Inbox }

func (unlisted) Inputs(context.Context, access.ConversationID, transcript.EntryID, int, ...transcript.InputState) ([]transcript.Input, error) {
	panic("it was listed")
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
