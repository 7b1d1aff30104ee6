package session_test

import (
	"testing"
	"time"

	"github.com/bunkroom/bunkroom/billing"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

func TestStorageOfLongWork(t *testing.T) {
	inWorld(t, "a disk that is worked on for days is measured every hour, and charged for", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		wk := r.mustWork(ann, inSession(s.ID))
		if err := sandbox.WriteFile(t.Context(), wk.Sandbox().FS(), "kept", make([]byte, 100*1024), nil); err != nil {
			t.Fatal(err)
		}
		const hours = 72
		for range hours {
			time.Sleep(time.Hour)
			r.storage()
		}
		if n := w.asked(memory.OpMeasure); n < hours-2 || n > hours {
			t.Errorf("measured %d times in %d hours", n, hours)
		}
		if got := w.stored("ann"); got < 100*3600*(hours-2) || got > 100*3600*hours {
			t.Errorf("charged for %d KiB-seconds", got)
		}
		if cause := w.snap(s.ID).Sandbox.MeasuredBytes; cause != 100*1024 {
			t.Errorf("measured %d bytes", cause)
		}
	})
	inWorld(t, "one that can't be measured is asked for no more often", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.mustWork(ann, inSession(s.ID))
		w.boxes.Inject(always(memory.OpMeasure, memory.Fault{Fail: errOutage}))
		time.Sleep(10*time.Hour + time.Minute)
		if n := w.asked(memory.OpMeasure); n < 9 || n > 10 {
			t.Errorf("asked for %d times in ten hours", n)
		}
	})
}

func TestStorageWithoutPriceOrPayer(t *testing.T) {
	inWorld(t, "a price list without storage: it costs nothing, and keeps no purge waiting", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.tilled(w.db.Ledger(), closed, perMicrosecond("", 1)))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		time.Sleep(time.Hour)
		if rep := r.storage(); rep.Unpriced != 1 || rep.Failed != 0 || rep.Charged != 0 {
			t.Errorf("%+v", rep)
		}
		rep, err := r.Purge(t.Context(), session.PurgeTarget{Session: s.ID}, session.PurgeOptions{})
		if err != nil || !rep.Done || rep.UnchargedStorage != 0 {
			t.Errorf("Purge: %+v, %v", rep, err)
		}
	})

	for what, c := range map[string]struct {
		row     func(r *sandbox.Row)
		charged billing.Micros
		lost    int
	}{
		"is charged to who paid for the machine":              {func(*sandbox.Row) {}, 10 * 50 * 3600, 0},
		"of which nothing is known is lost, and that is told": {func(r *sandbox.Row) { r.Payer = "" }, 0, 1},
	} {
		inWorld(t, "what the environment of a project that is gone has held "+what, immediate, func(t *testing.T, w *world) {
			r := w.replica(w.metered(nil))
			id := r.newEnvironment(ann)
			s, _ := r.borrow(ann, id)
			r.keeps(s.ID, 10)
			w.alter(s.ID, c.row)
			time.Sleep(50 * time.Hour)
			w.dir.RemoveProject("p")
			rep, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p"}, session.PurgeOptions{})
			if err != nil || !rep.Done || rep.UnchargedStorage != c.lost {
				t.Errorf("Purge: %+v, %v", rep, err)
			}
			w.wantStored("fifty hours", "ann", c.charged)
		})
	}

	inWorld(t, "and of a session, with nobody known to have paid, to its owner", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, _ := r.spawn(ann)
		r.keeps(s.ID, 10)
		w.alter(s.ID, func(r *sandbox.Row) { r.Payer = "" })
		time.Sleep(time.Hour)
		w.dir.RemoveProject("p")
		if rep, err := r.Purge(t.Context(), session.PurgeTarget{Project: "p"}, session.PurgeOptions{}); err != nil || !rep.Done || rep.UnchargedStorage != 0 {
			t.Errorf("Purge: %+v, %v", rep, err)
		}
		w.wantStored("an hour", "ann", 10*3600)
	})
}

// alter changes the row of a session's sandbox, past every replica.
func (w *world) alter(id session.ID, change func(*sandbox.Row)) {
	w.Helper()
	row := w.snap(id).Sandbox
	change(&row)
	if _, err := w.db.Sessions().Commit(w.Context(), session.Change{Sandbox: &row}); err != nil {
		w.Fatal(err)
	}
}

// S-16: a work says which session it is of, however it was opened, and what
// comes after it goes by that: the disk that is measured, and the activity that is noted.
func TestWorkKnowsItsSession(t *testing.T) {
	inWorld(t, "the session of the conversation that was asked for, and no other", immediate, func(t *testing.T, w *world) {
		r := w.replica(w.metered(nil))
		s, v := r.spawn(ann)
		other, _ := r.spawn(ann)
		r.keeps(other.ID, 10)
		time.Sleep(2 * time.Hour)
		before, quiet := w.snap(s.ID), w.snap(other.ID)
		wk := r.mustWork(ann, inConversation(v.ID))
		if err := sandbox.WriteFile(t.Context(), wk.Sandbox().FS(), "kept", make([]byte, 20*1024), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		rep := closeWork(t, wk)
		if err := r.Drain(t.Context()); err != nil { // which waits for the disk to be measured
			t.Fatal(err)
		}
		if wk.Session() != s.ID || wk.Conversation() != v.ID || rep.Session != s.ID || rep.Conversation != v.ID {
			t.Errorf("the work is of session %q and conversation %q, its report of %q and %q", wk.Session(), wk.Conversation(), rep.Session, rep.Conversation)
		}
		after := w.snap(s.ID)
		if after.Sandbox.MeasuredBytes != 20*1024 || !after.Session.LastActiveAt.After(before.Session.LastActiveAt) {
			t.Errorf("measured %d bytes, active at %v and before at %v", after.Sandbox.MeasuredBytes, after.Session.LastActiveAt, before.Session.LastActiveAt)
		}
		if now := w.snap(other.ID); now.Sandbox.MeasuredAt != quiet.Sandbox.MeasuredAt || now.Session.LastActiveAt != quiet.Session.LastActiveAt {
			t.Errorf("the other session was seen to: %+v, %+v before", now.Session, quiet.Session)
		}
	})
}
