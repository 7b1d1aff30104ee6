package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// mortal is an input that waits that long and no longer.
func mortal(id transcript.EntryID, life time.Duration) transcript.NewInput {
	in := saying(id, follow)
	in.Life = life
	return in
}

// expiries are the inputs that were put away, in the order of the facts.
func (h *host) expiries() (ids []transcript.EntryID) {
	h.t.Helper()
	page, err := h.db.Transcripts().Since(context.Background(), talk, 0, transcript.MaxListed)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range page.Facts {
		if f.Kind == transcript.FactInput && f.Input == transcript.InputExpired {
			ids = append(ids, f.Entry)
		}
	}
	return ids
}

// A turn that looks at what waits puts away what is too late, so that who follows is told; what it has claimed it keeps.
func TestDeliverPutsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		for n := range transcript.ExpireBatch + 5 {
			h.admit(mortal(transcript.EntryID(fmt.Sprint("m", n)), time.Second))
		}
		h.admit(mortal("claimed", time.Second))
		h.admit(saying("ever", steer))
		h.changes("claimed", transcript.InputCommand{Claim: turn.Fence()})
		if _, err := turn.Deliver(t.Context(), false); err != nil || len(h.expiries()) > 0 {
			t.Errorf("in time: %v, %v", h.expiries(), err)
		}
		time.Sleep(time.Second)
		got, err := turn.Deliver(t.Context(), false)
		if err != nil || said(got) != "ever" {
			t.Errorf("delivered %q, %v", said(got), err)
		}
		if gone := h.expiries(); len(gone) != transcript.ExpireBatch+5 || gone[0] != "m0" {
			t.Errorf("put away: %v", gone)
		}
		if s := h.states(); s["claimed"] != transcript.InputClaimed || s["ever"] != transcript.InputPending {
			t.Errorf("left %v", s)
		}
		if _, err := turn.Promote(t.Context(), got...); err != nil {
			t.Fatal(err)
		}
		h.admit(mortal("last", time.Second))
		time.Sleep(time.Second)
		if waiting, err := turn.Finish(t.Context()); err != nil || len(waiting) > 0 || h.states()["last"] != transcript.InputExpired {
			t.Errorf("Finish: %v, %v; left %v", waiting, err, h.states())
		}
		if h.states()["claimed"] != transcript.InputPending {
			t.Errorf("given back it is %s", h.states()["claimed"])
		}
	})
}

// That something could not be put away keeps nobody from saying what waits.
func TestDeliverWhereNothingIsPutAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		turn := h.begins(r)
		h.admit(mortal("late", time.Second))
		h.admit(saying("ever", steer))
		time.Sleep(time.Second)
		r.meddle(func(call string, _ int, after bool) error {
			if call == "expire" && !after {
				return errNoConnection
			}
			return nil
		})
		if got := next(t, turn, false); got != "ever" {
			t.Errorf("said %q", got)
		}
		r.meddle(nil)
		closeTurn(t, turn)
		if got := h.states()["late"]; got != transcript.InputPending {
			t.Errorf("it is %s", got)
		}
	})
}

// What is too late expires by the chore, without a turn, whether somebody acts or not; what a turn has claimed is left to it.
func TestRecoverPutsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.create()
		r := h.runner()
		const many = 2*transcript.ExpireBatch + 1
		for n := range many {
			h.admit(mortal(transcript.EntryID(fmt.Sprint("m", n)), time.Second))
		}
		h.admit(saying("ever", follow))
		var handed []access.ConversationID
		hand := func(_ context.Context, c access.ConversationID) error {
			handed = append(handed, c)
			return nil
		}
		if done, err := r.Recover(t.Context(), 10, nil); err != nil || len(done.Expired) > 0 {
			t.Errorf("in time: %+v, %v", done, err)
		}
		time.Sleep(time.Second)
		r.meddle(nil)
		done, err := r.Recover(t.Context(), 10, hand)
		if err != nil || !slices.Equal(done.Expired, []access.ConversationID{talk}) || len(done.Settled) > 0 || !slices.Equal(handed, []access.ConversationID{talk}) {
			t.Errorf("recovered %+v, %v", done, err)
		}
		if slices.Contains(r.called(), "begin") || h.row().Fence != 0 {
			t.Errorf("a turn was begun: %v", r.called())
		}
		if got := h.expiries(); len(got) != many || got[many-1] != transcript.EntryID(fmt.Sprint("m", many-1)) {
			t.Errorf("%d were put away: %v", len(got), got)
		}

		turn := h.begins(h.runner())
		h.admit(mortal("claimed", time.Second))
		h.admit(mortal("late", time.Second))
		h.changes("claimed", transcript.InputCommand{Claim: turn.Fence()})
		time.Sleep(time.Second)
		if err := r.Chore(time.Second, nil).Run(t.Context()); err != nil {
			t.Error(err)
		}
		if s := h.states(); s["late"] != transcript.InputExpired || s["claimed"] != transcript.InputClaimed {
			t.Errorf("in a turn: %v", s)
		}
		closeTurn(t, turn)
		if _, err := r.Recover(t.Context(), 10, nil); err != nil || h.states()["claimed"] != transcript.InputExpired {
			t.Errorf("after it: %v, %v", h.states(), err)
		}
		h.admit(mortal("again", time.Second))
		time.Sleep(time.Second)
		r.meddle(func(call string, _ int, after bool) error {
			if call == "expire" && !after {
				return errNoConnection
			}
			return nil
		})
		if done, err := r.Recover(t.Context(), 10, hand); !errors.Is(err, errNoConnection) || len(done.Expired) > 0 || len(done.Handed) != 1 {
			t.Errorf("where it fails: %+v, %v", done, err)
		}
	})
}

// Who follows is rung for what expires.
func TestExpireRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		if _, err := p.inbox.Admit(t.Context(), talk, mortal("late", time.Second), 10); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan time.Time, 1)
		go func() {
			for e, err := range transcript.Follow(ctx, p.store, p.hub, talk, 0) {
				if err == nil && e.Fact != nil && e.Fact.Kind == transcript.FactInput && e.Fact.Input == transcript.InputExpired {
					told <- time.Now()
				}
			}
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		at := time.Now()
		if n, err := p.inbox.Expire(ctx, talk, 10); n != 1 || err != nil {
			t.Fatalf("Expire: %d, %v", n, err)
		}
		if got := <-told; got != at {
			t.Errorf("it was told of %v later", got.Sub(at))
		}
	})
}
