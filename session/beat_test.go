package session_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// wantCharged fails the test unless what was posted of a work is without
// overlap or gap (the gate itself fails it otherwise), adds up to what the
// report says, and that is want.
func (w *world) wantCharged(rep session.Report, want time.Duration) {
	w.Helper()
	h := w.gate.all()[rep.Work]
	if rep.Used != want || h.used() != want {
		w.Errorf("charged %v in %d spans, reported %v, want %v", h.used(), len(h.spans), rep.Used, want)
	}
	for i, s := range h.spans {
		if s.Last != (i == len(h.spans)-1) {
			w.Errorf("span %d of %d: Last %v", i+1, len(h.spans), s.Last)
		}
		if i > 0 && !s.From.Equal(h.spans[i-1].To) {
			w.Errorf("span %d begins at %v, the one before ends at %v", i+1, s.From, h.spans[i-1].To)
		}
	}
	w.gate.wantEndedOnce(w)
}

func TestTimeIsAccountedFor(t *testing.T) {
	inWorld(t, "T-62: an hour's work on a lease of a minute: half-open spans, contiguous, that add up to Report.Used", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		s, v := r.spawn(ann)
		began := time.Now()
		wk := r.mustWork(ann, inConversation(v.ID))
		time.Sleep(time.Hour)
		if n := r.count("renew"); n < 170 || n > 181 {
			t.Errorf("the lease was renewed %d times, want three times a minute", n)
		}
		if n := r.count("touch"); n < 55 || n > 61 {
			t.Errorf("activity was noted %d times, want once a minute at most", n)
		}
		if h := w.gate.all()[wk.ID()]; time.Now().After(h.until) || h.used() < time.Hour-20*time.Second {
			t.Errorf("hold until %v, charged so far %v", h.until, h.used())
		}
		if active := w.snap(s.ID).Session.LastActiveAt; time.Since(active) > time.Minute+20*time.Second {
			t.Errorf("last active %v ago", time.Since(active))
		}
		rep := closeWork(t, wk)
		w.wantCharged(rep, time.Hour)
		if !rep.Began.Equal(began) || rep.Ended.Sub(rep.Began) != time.Hour || rep.Free || rep.Session != s.ID || rep.Conversation != v.ID {
			t.Errorf("Report %+v", rep)
		}
		if n := len(w.gate.all()[rep.Work].spans); n < 170 {
			t.Errorf("charged in %d spans", n)
		}
	})

	inWorld(t, "time that begins is charged from when work begins, not for having the machine", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		slow := latch(t)
		w.boxes.Inject(on(memory.OpCreate, 1, memory.Fault{HoldReply: slow}))
		time.AfterFunc(50*time.Second, slow.Open)
		wk := r.mustWork(ann, inConversation(v.ID))
		time.Sleep(7 * time.Second)
		w.wantCharged(closeWork(t, wk), 7*time.Second)
	})

	inWorld(t, "work that is over at once charges nothing, and still ends its hold", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		w.wantCharged(closeWork(t, r.mustWork(ann, inConversation(v.ID))), 0)
	})

	for what, script := range map[string]func(call string, n, nth int) trouble{
		"is not done": func(c string, _, nth int) trouble {
			if c == "settle" && nth >= 2 && nth <= 4 {
				return trouble{before: errOutage}
			}
			return trouble{}
		},
		"is done and unanswered": func(c string, _, nth int) trouble {
			if c == "settle" && (nth == 2 || nth == 4 || nth == 5) {
				return trouble{after: errOutage}
			}
			return trouble{}
		},
		"is done, unanswered and then not done": func(c string, _, nth int) trouble {
			switch {
			case c == "settle" && nth == 2:
				return trouble{after: errOutage}
			case c == "settle" && nth == 3:
				return trouble{before: errOutage}
			}
			return trouble{}
		},
	} {
		inWorld(t, "T-63/T-71: a span that "+what+" is posted again with the next beat: nothing lost, nothing twice", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			_, v := r.spawn(ann)
			wk := r.mustWork(ann, inConversation(v.ID))
			r.meddle(script)
			time.Sleep(10*time.Minute + 7*time.Second)
			if cause := context.Cause(wk.Context()); cause != nil {
				t.Errorf("stopped for %v", cause)
			}
			w.wantCharged(closeWork(t, wk), 10*time.Minute+7*time.Second)
		})
	}

	for what, tr := range map[string]trouble{"not done": {before: errOutage}, "unanswered": {after: errOutage}} {
		inWorld(t, "T-63: the last beat's span that was "+what+" is posted again when the work closes", immediate, func(t *testing.T, w *world) {
			r := w.replica()
			_, v := r.spawn(ann)
			wk := r.mustWork(ann, inConversation(v.ID))
			r.meddle(func(c string, _, nth int) trouble {
				if c == "settle" && nth == 2 {
					return tr
				}
				return trouble{}
			})
			time.Sleep(45 * time.Second) // beats at 20 s and 40 s
			w.wantCharged(closeWork(t, wk), 45*time.Second)
		})
	}

	for _, nth := range []int{1, 2} {
		for what, tr := range map[string]trouble{
			"comes late":   {late: func(context.Context) { time.Sleep(14 * time.Second) }},
			"is done late": {hold: func(context.Context) { time.Sleep(14 * time.Second) }},
		} {
			inWorld(t, fmt.Sprintf("T-62: where renewal %d of a lease %s no span runs backwards, and no time is charged that has not passed", nth, what), immediate, func(t *testing.T, w *world) {
				r := w.replica()
				_, v := r.spawn(ann)
				wk := r.mustWork(ann, inConversation(v.ID))
				r.meddle(func(c string, _, n int) trouble {
					if c == "renew" && n == nth {
						return tr
					}
					return trouble{}
				})
				worked := time.Duration(nth*20+15) * time.Second // a second after the answer
				for range worked / time.Second {
					time.Sleep(time.Second)
					if h := w.gate.all()[wk.ID()]; h.used() > time.Since(h.began()) {
						t.Errorf("charged %v of %v", h.used(), time.Since(h.began()))
					}
				}
				w.wantCharged(closeWork(t, wk), worked)
			})
		}
	}

	inWorld(t, "out of credit is told once the span is accounted for, and no time is charged from then on", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		w.gate.mu.Lock()
		w.gate.broke = true
		w.gate.mu.Unlock()
		<-wk.Context().Done()
		time.Sleep(time.Hour)
		rep := closeWork(t, wk)
		w.wantCharged(rep, 20*time.Second)
		wantErr(t, "Report.Cause", rep.Cause, session.ErrOutOfCredit)
		if e := wantType[*billing.RefusedError](t, "Report.Cause", rep.Cause); e.Payer != "ann" {
			t.Errorf("%+v", e)
		}
	})

	inWorld(t, "where having the machine took longer than the hold lasts, who pays is asked again before work begins", immediate, func(t *testing.T, w *world) {
		r := w.replica()
		_, v := r.spawn(ann)
		starting := func() {
			w.boxes.Inject(always(memory.OpCreate, memory.Fault{Status: sandbox.StatusStarting}))
			time.AfterFunc(4*time.Minute, w.letRun)
		}
		starting()
		wk := r.mustWork(ann, inConversation(v.ID))
		if live := w.gate.live(); len(live) != 1 {
			t.Errorf("live holds %v, want the one of the work", live)
		}
		time.Sleep(10 * time.Second)
		closeWork(t, wk)
		w.gate.wantEndedOnce(t)
		if n := len(w.gate.all()); n != 2 {
			t.Errorf("%d holds, want 2", n)
		}

		// The same, and by then she is out of credit.
		other, _ := r.spawn(ann)
		starting()
		time.AfterFunc(2*time.Minute, func() {
			w.gate.mu.Lock()
			defer w.gate.mu.Unlock()
			w.gate.refuse = refused("ann")
		})
		_, err := r.work(t.Context(), ann, inSession(other.ID))
		if err == nil || !errors.As(err, new(*billing.RefusedError)) {
			t.Errorf("Open: %v", err)
		}
		w.gate.wantEndedOnce(t)
		w.wantSlotsFree()
	})

	inWorld(t, "without a gate everything is free, and reports say so", immediate, func(t *testing.T, w *world) {
		r := w.replica(func(c *session.Config) { c.Gate = nil })
		_, v := r.spawn(ann)
		wk := r.mustWork(ann, inConversation(v.ID))
		time.Sleep(10 * time.Minute)
		if rep := closeWork(t, wk); !rep.Free || rep.Used != 10*time.Minute {
			t.Errorf("Report %+v", rep)
		}
		w.gate.free = true
		r = w.replica()
		if rep := closeWork(t, r.mustWork(ann, inConversation(v.ID))); !rep.Free {
			t.Errorf("a gate that says so: %+v", rep)
		}
	})
}
