package billing_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/billing"
)

// holdIn is a shelf with credit and one hold in a state, whose work has been posted up to noon.
func holdIn(state billing.HoldState, until time.Time) *shelf {
	s := newShelf()
	s.accounts["ann"] = billing.Account{Payer: "ann"}
	s.grants["g"] = billing.Grant{ID: "g", Payer: "ann", Amount: 1 << 40, Source: "test", Remaining: 1 << 40, GrantedAt: second(-3600)}
	s.marks[billing.MarkKey{Resource: "work-1", Meter: billing.MeterRuntime}] = billing.Mark{
		MarkKey: billing.MarkKey{Resource: "work-1", Meter: billing.MeterRuntime}, Through: noon,
	}
	if state == 0 {
		return s
	}
	h := billing.Hold{ID: "hold-1", Use: runtimeOf("work-1"), Estimate: 10, State: state, OpenedAt: second(-900), Until: until}
	if state != billing.HoldOpen {
		h.ClosedAt = second(-1)
	}
	s.holds["hold-1"] = h
	return s
}

// The verbs that concern a hold, at the 60th second.
var holdVerbs = []struct {
	name string
	do   func(b *billing.Book) (billing.Hold, error)
}{
	{"hold", func(b *billing.Book) (billing.Hold, error) { return b.Hold(holdRequest("hold-1", "work-1", 10)) }},
	{"hold something else", func(b *billing.Book) (billing.Hold, error) { return b.Hold(holdRequest("hold-1", "work-2", 10)) }},
	{"hold more", func(b *billing.Book) (billing.Hold, error) { return b.Hold(holdRequest("hold-1", "work-1", 11)) }},
	{"release", func(b *billing.Book) (billing.Hold, error) { return b.Release("hold-1") }},
	{"post", func(b *billing.Book) (billing.Hold, error) { return postTo(b, 0, false) }},
	{"renew", func(b *billing.Book) (billing.Hold, error) { return postTo(b, 5*time.Minute, false) }},
	{"settle", func(b *billing.Book) (billing.Hold, error) { return postTo(b, 0, true) }},
	{"expire", func(b *billing.Book) (billing.Hold, error) { b.Expire(0); return billing.Hold{}, nil }},
}

func holdRequest(id billing.HoldID, work string, estimate billing.Micros) billing.HoldRequest {
	return billing.HoldRequest{ID: id, Use: runtimeOf(work), Terms: billing.Terms{Estimate: estimate, InFlight: 2}, TTL: 15 * time.Minute}
}

func postTo(b *billing.Book, renew time.Duration, last bool) (billing.Hold, error) {
	p := span("work-1", 0, 60)
	p.Hold, p.Renew, p.Last = "hold-1", renew, last
	out := b.Post(p)
	if out.Refused != nil {
		return out.Hold, out.Refused
	}
	return out.Hold, out.Err
}

// TestHoldStates is every state of a hold with every verb: what becomes of it,
// and what the caller is told.
func TestHoldStates(t *testing.T) {
	const none, open, settled, released, expired = billing.HoldState(0), billing.HoldOpen, billing.HoldSettled, billing.HoldReleased, billing.HoldExpired
	const (
		fine     = "nil"
		conflict = "conflict"
		closed   = "closed"
		missing  = "not found"
		refused  = "hold ended"
	)
	type want struct {
		state billing.HoldState
		err   string
	}
	for _, c := range []struct {
		state billing.HoldState
		late  bool // its time is up
		wants [8]want
	}{
		//                hold            something else       more                 release             post                renew               settle              expire
		{none, false, [8]want{{open, fine}, {open, fine}, {open, fine}, {none, missing}, {none, missing}, {none, missing}, {none, missing}, {none, fine}}},
		{open, false, [8]want{{open, fine}, {open, conflict}, {open, conflict}, {released, fine}, {open, fine}, {open, fine}, {settled, fine}, {open, fine}}},
		{open, true, [8]want{{open, fine}, {open, conflict}, {open, conflict}, {released, fine}, {open, fine}, {expired, refused}, {settled, fine}, {expired, fine}}},
		{settled, false, [8]want{{settled, fine}, {settled, conflict}, {settled, conflict}, {settled, closed}, {settled, closed}, {settled, closed}, {settled, closed}, {settled, fine}}},
		{released, false, [8]want{{released, fine}, {released, conflict}, {released, conflict}, {released, fine}, {released, closed}, {released, closed}, {released, closed}, {released, fine}}},
		{expired, true, [8]want{{expired, fine}, {expired, conflict}, {expired, conflict}, {expired, fine}, {expired, fine}, {expired, refused}, {expired, fine}, {expired, fine}}},
	} {
		for i, verb := range holdVerbs {
			t.Run(fmt.Sprintf("%v late=%v %s", c.state, c.late, verb.name), func(t *testing.T) {
				until := second(61)
				if c.late {
					until = second(60) // the very instant
				}
				s := holdIn(c.state, until)
				b := s.book(second(60))
				answer, err := verb.do(b)
				var no *billing.RefusedError
				switch got := c.wants[i].err; {
				case got == fine && err != nil,
					got == conflict && !errors.Is(err, billing.ErrConflict),
					got == closed && !errors.Is(err, billing.ErrClosed),
					got == missing && !errors.Is(err, billing.ErrNotFound),
					got == refused && (!errors.As(err, &no) || no.Decision.Reason != billing.RefusedHoldEnded):
					t.Errorf("the answer is %v, want %s", err, got)
				}
				changes := b.Changes()
				if err != nil && no == nil && !nothing(changes) {
					t.Errorf("an error, and changes: %+v", changes)
				}
				charged := c.state != none && c.wants[i].err != closed && i >= 4 && i <= 6
				if charged != (len(changes.Entries) == 1) {
					t.Errorf("%d entries: what was used is posted whatever has become of the hold, unless it was closed", len(changes.Entries))
				}
				s.must(t, b)
				if got := s.holds["hold-1"].State; got != c.wants[i].state {
					t.Errorf("it is %v, want %v", got, c.wants[i].state)
				}
				if err == nil && verb.name != "expire" {
					if diff := cmp.Diff(s.holds["hold-1"], answer); diff != "" {
						t.Errorf("what is answered is not what is written: %s", diff)
					}
				}
				again := s.book(second(60)) // whatever it was, repeated it changes no state
				_, _ = verb.do(again)
				if err := s.put(again.Changes()); err != nil || s.holds["hold-1"].State != c.wants[i].state {
					t.Errorf("repeated: %v, now %v", err, s.holds["hold-1"].State)
				}
			})
		}
	}
}

func TestHold(t *testing.T) {
	s := holdIn(0, time.Time{})
	b := s.book(noon)
	h, err := b.Hold(holdRequest("hold-1", "work-1", 10))
	want := billing.Hold{
		ID: "hold-1", Use: runtimeOf("work-1"), Estimate: 10, State: billing.HoldOpen, OpenedAt: noon, Until: noon.Add(15 * time.Minute),
	}
	if diff := cmp.Diff(want, h); err != nil || diff != "" {
		t.Fatalf("%v: %s", err, diff)
	}
	if st := b.Balance("ann").Standing; st.Held != 10 || st.Holds != 1 || st.Spendable() != 1<<40-10 {
		t.Errorf("it is not reserved at once: %+v", st)
	}
	if _, err := b.Hold(holdRequest("hold-2", "work-2", 10)); err != nil {
		t.Error(err)
	}
	_, err = b.Hold(holdRequest("hold-3", "work-3", 10)) // case 61: two may be in flight
	var no *billing.RefusedError
	if !errors.As(err, &no) || no.Decision.Reason != billing.RefusedInFlight || no.Payer != "ann" {
		t.Errorf("the third: %v", err)
	}
	if c := b.Changes(); len(c.Holds) != 2 || len(c.Entries) != 0 || len(c.Accounts) != 1 {
		t.Errorf("%+v", c)
	}
	s.must(t, b)
	if _, err := s.book(noon.Add(15 * time.Minute)).Hold(holdRequest("hold-3", "work-3", 10)); err != nil {
		t.Errorf("holds that have expired reserve nothing: %v", err)
	}
}

// Who has no account has nothing.
func TestHoldOfNobody(t *testing.T) {
	b := billing.NewBook(noon)
	var no *billing.RefusedError
	if _, err := b.Hold(holdRequest("hold-1", "work-1", 10)); !errors.As(err, &no) || no.Decision.Reason != billing.RefusedCredit {
		t.Error(err)
	}
	if !nothing(b.Changes()) {
		t.Errorf("a refusal changes %+v", b.Changes())
	}
}

func TestHoldRefusesFields(t *testing.T) {
	for field, change := range map[string]func(*billing.HoldRequest){
		"ID":       func(r *billing.HoldRequest) { r.ID = "" },
		"Meter":    func(r *billing.HoldRequest) { r.Meter = "" },
		"Resource": func(r *billing.HoldRequest) { r.Resource = "a\x00b" },
		"Payer":    func(r *billing.HoldRequest) { r.Payer = "" },
		"Class":    func(r *billing.HoldRequest) { r.Class = "\xff" },
		"Session":  func(r *billing.HoldRequest) { r.Session = "\xff" },
		"Project":  func(r *billing.HoldRequest) { r.Project = "\xff" },
		"TTL":      func(r *billing.HoldRequest) { r.TTL = 0 },
		"Terms":    func(r *billing.HoldRequest) { r.Terms.Estimate = -1 },
	} {
		r := holdRequest("hold-1", "work-1", 10)
		change(&r)
		b := holdIn(0, time.Time{}).book(noon)
		_, err := b.Hold(r)
		var invalid *access.FieldError
		if !errors.As(err, &invalid) || invalid.Field != field || !nothing(b.Changes()) {
			t.Errorf("%s: %v, %+v", field, err, b.Changes())
		}
	}
}

// Renewing asks again whether the account may go on, without the hold that is
// renewed; where it may not, the span is charged all the same.
func TestRenewAsksAgain(t *testing.T) {
	for _, c := range []struct {
		rule   string
		terms  billing.Terms
		refuse billing.AdmitReason // 0: it may
	}{
		{"its own estimate is not in its way", billing.Terms{Estimate: 10, Floor: 1<<40 - 71, InFlight: 1}, 0},
		{"what it has used is", billing.Terms{Estimate: 10, Floor: 1<<40 - 70, InFlight: 1}, billing.RefusedCredit},
		{"so is a floor that has come up, or a debt", billing.Terms{Estimate: 10, Floor: 1 << 41}, billing.RefusedCredit},
		{"how much may be in flight is not: it was let in already", billing.Terms{Estimate: 10, InFlight: 0}, 0},
		{"and the day's cap, at once", billing.Terms{Estimate: 10, InFlight: 1, DailyCap: 69}, billing.RefusedDailyCap},
	} {
		s := holdIn(billing.HoldOpen, second(100))
		b := s.book(second(60))
		p := span("work-1", 0, 60)
		p.Hold, p.Renew, p.Terms = "hold-1", 5*time.Minute, c.terms
		out := b.Post(p)
		if out.Err != nil || out.Charged != 60 {
			t.Fatalf("%s: %+v", c.rule, out)
		}
		until := second(360)
		if c.refuse != 0 {
			until = second(100)
		}
		if (out.Refused != nil) != (c.refuse != 0) || out.Refused != nil && out.Refused.Decision.Reason != c.refuse ||
			!out.Hold.Until.Equal(until) || out.Hold.State != billing.HoldOpen {
			t.Errorf("%s: %v, %+v", c.rule, out.Refused, out.Hold)
		}
	}
}

// A hold that was prolonged for longer is not shortened.
func TestRenewNeverShortens(t *testing.T) {
	b := holdIn(billing.HoldOpen, second(1000)).book(second(60))
	p := span("work-1", 0, 60)
	p.Hold, p.Renew = "hold-1", time.Second
	if out := b.Post(p); out.Err != nil || out.Refused != nil || !out.Hold.Until.Equal(second(1000)) {
		t.Errorf("%+v", out)
	}
}
