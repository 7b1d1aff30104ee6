package transcript_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bunkroom/bunkroom/access"
	"github.com/bunkroom/bunkroom/drivers/memory"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// Case 5: what a runner that died has left is unfinished no longer than its lease lasts, and until somebody looks.
func TestRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.leaves(3)
		in := saying("waits", steer)
		h.admit(in)
		r := h.runner()
		var handed []access.ConversationID
		hand := func(_ context.Context, c access.ConversationID) error {
			if open := h.open(); open.InTurn || len(open.Calls) > 0 || open.Draft != nil {
				t.Errorf("handed on with %+v left", open)
			}
			handed = append(handed, c)
			return nil
		}
		if done, err := r.Recover(t.Context(), 10, hand); err != nil || len(done.Settled)+len(done.Handed) > 0 {
			t.Errorf("while the lease lasts: %+v, %v", done, err)
		}
		chore := r.Chore(10*time.Second, hand)
		began := time.Now()
		for h.row().InTurn && time.Since(began) < time.Hour {
			time.Sleep(chore.Every)
			if err := chore.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > turnLease+chore.Every {
			t.Errorf("it took %v", took)
		}
		if !slices.Equal(handed, []access.ConversationID{talk}) {
			t.Errorf("handed on: %v", handed)
		}
		if h.listed(r.store.Unfinished) {
			t.Error("it is unfinished")
		}
		if err := r.Chore(time.Second, nil).Run(t.Context()); err != nil || len(handed) != 1 {
			t.Errorf("with nobody to hand on to: %v", err)
		}
		if done, err := r.Recover(t.Context(), 0, hand); fieldOf(err) != "limit" {
			t.Errorf("none of them: %+v, %v", done, err)
		}
	})
}

// Of two that look at once one recovers it, and the other has failed at nothing.
func TestRecoverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.leaves(1)
		time.Sleep(turnLease)
		r, faster := h.runner(), h.runner()
		var turn *transcript.Turn
		r.meet = func(call string, _ int, after bool) error {
			if call == "acquire" && !after {
				turn = h.begins(faster)
			}
			return nil
		}
		if done, err := r.Recover(t.Context(), 10, nil); err != nil || len(done.Settled) > 0 || turn == nil {
			t.Errorf("got %+v, %v", done, err)
		}
		h.tidy(turn)
		closeTurn(t, turn)
	})
}

// The chore is one that a Keeper serves, beside its own.
func TestRecoverAsAChore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		h.leaves(1)
		h.admit(saying("waits", follow))
		r := h.runner()
		service, err := session.New(session.Config{Store: h.db.Sessions(), Leases: h.db.Leases(), Directory: memory.NewDirectory()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		chore := r.Chore(time.Second, func(ctx context.Context, c access.ConversationID) error {
			defer cancel()
			turn, err := r.Begin(ctx, c)
			if err != nil {
				return err
			}
			if got := next(t, turn, true); got != "waits" {
				t.Errorf("said %q", got)
			}
			waiting, err := turn.Finish(ctx)
			if err != nil || len(waiting) > 0 {
				t.Errorf("Finish: %v, %v", waiting, err)
			}
			return nil
		})
		if err := service.Serve(ctx, chore); err != nil {
			t.Error(err)
		}
		if h.row().InTurn || h.states()["waits"] != transcript.InputPromoted {
			t.Errorf("left %+v, %v", h.row(), h.states())
		}
	})
}

// One that can't be recovered keeps nobody from another, nor do those that are acted on; a limit is one of what is done.
func TestRecoverMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, nil)
		ctx, store := t.Context(), h.db.Transcripts()
		r := h.runner(func(c *transcript.TurnsConfig) {
			c.EndProcesses = func(_ context.Context, c access.ConversationID, _ int64) error {
				if c == "c1" {
					return errNoConnection
				}
				return nil
			}
		})
		for i := range 6 {
			c := access.ConversationID(fmt.Sprint("c", i))
			if _, err := store.Create(ctx, c); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Commit(ctx, transcript.Change{Conversation: c, Fence: 1, Begin: true}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := h.db.Leases().Acquire(ctx, session.Lease{Kind: session.LeaseTurn, Name: "c0", Holder: "somebody", Replica: "other", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]access.ConversationID{{"c2", "c3"}, {"c4", "c5"}, nil} {
			done, err := r.Recover(ctx, 2, nil)
			if !slices.Equal(done.Settled, want) || want == nil != errors.Is(err, errNoConnection) && len(want) != 2 {
				t.Errorf("got %v, %v, want %v", done.Settled, err, want)
			}
			if !errors.Is(err, errNoConnection) {
				t.Errorf("what it failed with: %v", err)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := r.Recover(ended, 2, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}

// life is a host with two runners, to which anything happens.
type life struct {
	*rapid.T
	*host
	pair    []*runner
	turns   []*transcript.Turn // of each runner; nil: none
	ids     int
	drained map[transcript.EntryID]bool
}

func (l *life) admits() {
	l.ids++
	in := saying(transcript.EntryID(fmt.Sprint("i", l.ids)), rapid.SampledFrom([]transcript.Lane{steer, follow, synth, transcript.LaneBarrier}).Draw(l.T, "lane"))
	in.Wait = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Second, 2 * turnLease}).Draw(l.T, "wait")
	in.Life = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute}).Draw(l.T, "life")
	l.admit(in)
}

// tolerable are the answers that a runner gets in this life.
func tolerable(err error) bool {
	_, held := errors.AsType[*session.HeldError](err)
	_, late := errors.AsType[*transcript.TooLateError](err)
	return err == nil || held || late || errors.Is(err, transcript.ErrFenced) || errors.Is(err, transcript.ErrHeld) || errors.Is(err, errDied) || errors.Is(err, errNoConnection)
}

// acts lets a runner do one thing; whatever it is in the middle of, things happen.
func (l *life) acts(i int) {
	ctx := context.Background()
	trouble := rapid.IntRange(1, 40).Draw(l.T, "trouble at")
	what := rapid.SampledFrom([]string{"admit", "die", "fail", "fail after", "nothing"}).Draw(l.T, "trouble")
	r := l.pair[i]
	r.meddle(func(call string, nth int, done bool) error {
		if nth != trouble || call == "renew" {
			return nil
		}
		switch {
		case what == "admit" && !done:
			l.admits()
		case what == "die" && done:
			return r.dies()
		case what == "fail" && !done, what == "fail after" && done && call != "acquire": // a lease that nobody knows of lasts on
			return errNoConnection
		}
		return nil
	})
	defer r.meddle(nil)
	turn, err := l.turns[i], error(nil)
	switch do := rapid.SampledFrom([]string{"say", "say", "finish", "finish", "close", "drain", "recover"}).Draw(l.T, "do"); {
	case do == "recover":
		_, err = r.Recover(ctx, 10, nil)
	case turn == nil:
		if turn, err = r.Begin(ctx, talk); err == nil {
			l.tidy(turn)
			l.starts(turn)
			l.turns[i] = turn
		}
	case do == "say":
		var inputs []transcript.Input
		if inputs, err = turn.Deliver(ctx, rapid.Bool().Draw(l.T, "stop")); err == nil {
			_, err = turn.Promote(ctx, inputs...)
		}
	case do == "finish":
		var waiting []transcript.Input
		waiting, err = turn.Finish(ctx)
		if err == nil && len(waiting) == 0 {
			l.turns[i] = nil
		}
	default:
		var drained []transcript.Input
		drained, err = turn.Close(ctx, &transcript.CloseOptions{Drain: do == "drain"})
		for _, in := range drained {
			l.drained[in.Entry.ID] = true
		}
		l.turns[i] = nil
	}
	if !tolerable(err) {
		l.Fatalf("%v", err)
	}
	if r.died {
		l.pair[i], l.turns[i] = l.host.runner(), nil
	}
}

// Cases 3, 5, 14 and 32 over whatever happens: of all that was admitted each is said once, or was taken
// back, or has expired; at most one acts; and in the end nothing is left unfinished.
func TestTurnsWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(*testing.T) {
			h := newHost(rt, nil)
			defer func() {
				failed = recover() // as rapid does where a draw fails the test
				for _, r := range h.runners {
					_ = r.dies()
				}
				time.Sleep(3 * turnLease) // until no turn renews itself any more
			}()
			live(rt, h)
		})
		if failed != nil {
			panic(failed)
		}
	})
}

// live is one life, and its end.
func live(rt *rapid.T, h *host) {
	h.create()
	l := &life{T: rt, host: h, pair: []*runner{h.runner(), h.runner()}, turns: make([]*transcript.Turn, 2), drained: map[transcript.EntryID]bool{}}
	for range rapid.IntRange(1, 30).Draw(rt, "steps") {
		switch rapid.IntRange(0, 5).Draw(rt, "step") {
		case 0, 1:
			l.admits()
		case 2:
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Second, turnLease / 2, 2 * turnLease}).Draw(rt, "time"))
		default:
			l.acts(rapid.IntRange(0, 1).Draw(rt, "runner"))
		}
		acting := 0
		for _, turn := range l.turns {
			if turn != nil {
				if _, err := turn.Commit(context.Background(), transcript.Change{}); err == nil {
					acting++
				}
			}
		}
		if acting > 1 {
			rt.Fatalf("%d act", acting)
		}
	}
	for i, turn := range l.turns { // the last of them die
		if turn != nil {
			_ = l.pair[i].dies()
		}
	}
	time.Sleep(3 * turnLease) // until all leases have run out, and all waits
	last := h.runner()
	for range 100 {
		done, err := last.Recover(context.Background(), 10, func(ctx context.Context, c access.ConversationID) error {
			turn, err := last.Begin(ctx, c)
			if err != nil {
				return err
			}
			h.tidy(turn)
			for {
				waiting, err := turn.Finish(ctx)
				if err != nil || len(waiting) == 0 {
					return err
				}
				if _, err := turn.Promote(ctx, waiting...); err != nil {
					return err
				}
			}
		})
		if err != nil {
			rt.Fatal(err)
		}
		if len(done.Settled)+len(done.Handed) == 0 {
			break
		}
	}
	if h.listed(last.store.Unfinished) || h.listed(last.inbox.Waiting) {
		rt.Errorf("something is left")
	}
	on := map[transcript.EntryID]int{}
	for _, id := range h.path() {
		on[id]++
	}
	states := h.states()
	if len(states) != l.ids {
		rt.Errorf("of %d inputs there are %d", l.ids, len(states))
	}
	for id, state := range states {
		in := state == transcript.InputPromoted
		expired := state == transcript.InputExpired || state == transcript.InputPending && h.expired(id)
		if in != (on[id] == 1) || on[id] > 1 || !in && state != transcript.InputCancelled && !expired {
			rt.Errorf("%s is %s, and said %d times", id, state, on[id])
		}
		if l.drained[id] && state != transcript.InputCancelled {
			rt.Errorf("%s was given back, and is %s", id, state)
		}
	}
}

// expired reports whether it is too late for an input that waits.
func (h *host) expired(id transcript.EntryID) bool {
	all, err := h.db.Inbox().Inputs(context.Background(), talk, "", 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	at := slices.IndexFunc(all, func(in transcript.Input) bool { return in.Entry.ID == id })
	return at >= 0 && !all[at].Expires.IsZero() && !all[at].Expires.After(time.Now())
}
