package session

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
)

// In the product below a second is all that passes at once, the hold lasts for 12, and an eighth of the lease is one.
const (
	billTTL   = 12 * time.Second
	billGrace = time.Second
)

// book is an honest gate: it accounts by compare-and-set on how far it is billed, and the same span again is one span.
type book struct {
	begun, through time.Time
	last           time.Time // where the latest span that has a length began
	until          time.Time // of the hold; zero = closed
	closed, other  bool      // by the work itself, and by somebody else
	released       bool      // by somebody else, who took it for one that never began
	wrong          string
}

// account accounts for u at a time of its own, which is as much ahead as that of the store.
func (g *book) account(u billing.Usage, now time.Time) error {
	refused := func(why billing.AdmitReason) error {
		return &billing.RefusedError{Decision: billing.AdmitDecision{Reason: why}}
	}
	again := u.To.After(u.From) && u.From.Equal(g.last) && u.To.Equal(g.through)
	switch {
	case u.To.Before(u.From) || u.To.After(now):
		g.wrong = fmt.Sprintf("%v to %v, at %v", u.From, u.To, now)
	case again && g.closed, u.Last && g.closed && u.To.Equal(g.through):
		return nil
	case again && g.other: // it had been accounted for before
		return refused(billing.RefusedHoldEnded)
	case g.other, g.released && !u.Last:
		return refused(billing.RefusedClosed)
	case g.closed:
		g.wrong = "something is said after the last"
	case again:
	case !g.begun.IsZero() && !u.From.Equal(g.through):
		g.wrong = fmt.Sprintf("from %v, and it is billed through %v", u.From, g.through)
	default:
		if g.begun.IsZero() {
			g.begun = u.From
		}
		if u.To.After(u.From) {
			g.last = u.From
		}
		g.through = u.To
	}
	if g.closed = u.Last; g.closed {
		g.until = time.Time{}
		return nil
	}
	if !now.Before(g.until) {
		return refused(billing.RefusedHoldEnded)
	}
	g.until = now.Add(u.TTL)
	return nil
}

// play is a work in the middle of its life.
type play struct {
	bill
	book
	now, vouched time.Time
	began        time.Time
	graces       int
	did          []string
}

const billAhead = 17 * time.Minute // the store's clock of the local one

var errBill = errors.New("no connection")

// say says what there is to say, and hears what becomes of it: how is what befalls the first of it.
func (p *play) say(how string) (err error) {
	for first := true; ; first = false {
		u, ok := p.next(p.now, p.vouched)
		if !ok {
			return nil
		}
		t := p.ticket
		switch {
		case first && how == "undone":
			err = errBill
		case first && how == "grace":
			t.Grace, err = true, errBill
			p.graces++
		default:
			if err = p.account(u, p.now.Add(billAhead)); first && how == "unanswered" {
				t, err = billing.Ticket{}, errBill
			} else if err == nil && first && how == "broke" {
				err = &billing.RefusedError{Decision: billing.AdmitDecision{Reason: billing.RefusedCredit}}
			}
		}
		if !p.answered(u, p.now, t, err) {
			if errors.As(err, new(*billing.RefusedError)) {
				p.stops(p.now)
			}
			return err
		}
	}
}

// billEvents are what may happen to the money of a work.
var billEvents = []struct {
	name string
	do   func(*play)
}{
	{"beat", func(p *play) { _ = p.say("") }},
	{"beat, undone", func(p *play) { _ = p.say("undone") }},
	{"beat, unanswered", func(p *play) { _ = p.say("unanswered") }},
	{"beat, broke", func(p *play) { _ = p.say("broke") }},
	{"beat, grace", func(p *play) { _ = p.say("grace") }},
	{"told to stop", func(p *play) { p.stops(p.now) }},
	{"asleep for longer than its lease", func(p *play) { p.now = p.now.Add(time.Minute) }},
	{"closed by somebody else", func(p *play) {
		p.released = p.released || p.book.begun.IsZero()
		p.other = p.other || !p.closed && !p.released
	}},
}

// The money of a work over everything that may befall it, five times in any order. Nothing is said twice or left out,
// nothing runs without a hold, and whatever has happened it comes to an end, with the time charged that it took.
func TestBillOverItsProduct(t *testing.T) {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	p := play{bill: bill{ttl: billTTL}, now: start, vouched: start.Add(50 * time.Second), began: start}
	p.book.until = start.Add(billAhead + billTTL)
	p.admitted(billing.Ticket{Intent: billing.Intent{ID: "h"}, Until: p.book.until}, start, billTTL)
	p.begins(start, start.Add(billAhead))
	plays := 0
	var on func(p play, left int)
	on = func(p play, left int) {
		if plays++; p.check(t) || left == 0 {
			return
		}
		for _, e := range billEvents {
			next := p
			next.did = append(slices.Clone(p.did), e.name)
			next.now = next.now.Add(time.Second)
			if at, ends := next.deadline(billGrace); ends && !next.now.Before(at) {
				next.stops(at)
			}
			e.do(&next)
			on(next, left-1)
		}
	}
	on(p, 5)
	if plays < 30_000 {
		t.Errorf("only %d plays", plays)
	}
}

// check closes a copy of the play and looks what has come of it. It reports whether something is wrong.
func (p play) check(t *testing.T) bool {
	t.Helper()
	failed := false
	wrong := func(format string, args ...any) {
		t.Errorf("%q: %s", p.did, fmt.Sprintf(format, args...))
		failed = true
	}
	if at, ends := p.deadline(billGrace); p.stopped.IsZero() && !p.closed && !p.other && !p.released && p.graces == 0 &&
		(!ends || p.book.until.Before(at.Add(billAhead+2*billGrace))) {
		wrong("it may go on until %v, and its hold lasts until %v", at, p.book.until.Add(-billAhead))
	}
	p.now = p.now.Add(time.Second)
	p.stops(p.now)
	stopped := p.stopped
	for range 2 { // once for what was said before, and once for the rest
		if err := p.say(""); err != nil && !p.over {
			wrong("closed: %v", err)
		}
	}
	if p.wrong != "" {
		wrong("%s", p.wrong)
	}
	if !p.over {
		wrong("it is never over")
	}
	if u, more := p.next(p.now, p.vouched); more {
		wrong("when all is over it says %+v", u)
	}
	ran := earlier(stopped, p.vouched).Sub(p.began)
	switch charged := p.through.Sub(p.book.begun); {
	case p.other && (p.took() > charged || charged > ran):
		wrong("of %v charged %v, and %v by its own account", ran, charged, p.took())
	case !p.other && (charged != ran || p.took() != ran):
		wrong("charged %v of %v, by its own account %v", charged, ran, p.took())
	}
	return failed
}

// When there is something to say.
func TestBillIsDue(t *testing.T) {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	begun := bill{ttl: 30 * time.Second}
	begun.begins(start, start)
	noted, failing, stopped, over := begun, begun, begun, begun
	noted.noted, failing.noted, stopped.noted, over.noted = true, true, true, true
	failing.failing, over.over = true, true
	stopped.stops(start)
	for _, c := range []struct {
		rule  string
		b     bill
		after time.Duration
		due   bool
	}{
		{"before work begins nothing is", bill{ttl: time.Second}, time.Hour, false},
		{"that it begins is at once", begun, 0, true},
		{"then nothing is for a third of what the hold lasts", noted, 4 * time.Second, false},
		{"less what passes until the next chance", noted, 5 * time.Second, true},
		{"what could not be said is with the next chance", failing, time.Second, true},
		{"that it has stopped is at once", stopped, 0, true},
		{"what is over is over", over, time.Hour, false},
	} {
		if got := c.b.due(start.Add(c.after), start.Add(2*time.Hour), 5*time.Second); got != c.due {
			t.Errorf("%s: %v", c.rule, got)
		}
	}
}

// Until when a work may go on by its hold.
func TestBillDeadline(t *testing.T) {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	until := start.Add(time.Hour) // on a clock that does not matter
	fault := errors.New("no connection")
	for _, c := range []struct {
		rule   string
		first  billing.Ticket
		answer billing.Ticket
		err    error
		want   time.Duration // after the start; 0 = none
	}{
		{"a hold that was renewed lasts from when that was asked", billing.Ticket{Until: until}, billing.Ticket{Until: until}, nil, 3*time.Second + billTTL},
		{"one that could not be renewed lasts as before", billing.Ticket{Until: until}, billing.Ticket{Until: until}, fault, 5 * time.Second},
		{"unless the gate lets it go on", billing.Ticket{Until: until}, billing.Ticket{Until: until, Unheld: true, Grace: true}, fault, 3*time.Second + billTTL},
		{"what was let in without a hold goes on for as long", billing.Ticket{Unheld: true}, billing.Ticket{Unheld: true}, fault, 5 * time.Second},
		{"a hold without an end has none", billing.Ticket{}, billing.Ticket{}, fault, 0},
		{"nor has what is free", billing.Ticket{Free: true, Until: until}, billing.Ticket{Free: true, Until: until}, nil, 0},
	} {
		b := bill{ttl: billTTL}
		c.first.Intent.ID, c.answer.Intent.ID = "h", "h"
		b.admitted(c.first, start, 5*time.Second)
		b.begins(start.Add(time.Second), start)
		now := start.Add(3 * time.Second)
		u, _ := b.next(now, now.Add(time.Hour))
		b.answered(u, now, c.answer, c.err)
		at, ends := b.deadline(0)
		if ends != (c.want != 0) || ends && !at.Equal(start.Add(c.want)) {
			t.Errorf("%s: until %v after the start, %v; want %v", c.rule, at.Sub(start), ends, c.want)
		}
	}
}
