package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
	"github.com/bunkroom/bunkroom/session/transcript"
)

// turnLease is how long a turn lasts that nobody renews: much shorter than the works that are opened for it.
const turnLease = time.Second

// turns hands out the turns of the story. Their leases are renewed at moments
// that no story can tell, and are no places to die at.
func (w *world) turns() (*transcript.Turns, error) {
	return transcript.NewTurns(transcript.TurnsConfig{
		Store: w.db.Transcripts(), Inbox: w.db.Inbox(), Leases: w.db.Leases(), Lease: turnLease, EndProcesses: w.EndTurns,
	})
}

// talked is a session whose machine is there, and whose conversation has a transcript.
func talked(ctx context.Context, w *world, sc *scene) error {
	if err := warm(ctx, w, sc); err != nil {
		return err
	}
	_, err := w.db.Transcripts().Create(ctx, sc.Conversations[0])
	return err
}

// takeTurn is a turn in which something is started that would outlive the process.
func (w *world) takeTurn(ctx context.Context, sc *scene) (err error) {
	turns, err := w.turns()
	if err != nil {
		return err
	}
	turn, err := turns.Begin(ctx, sc.Conversations[0])
	if err != nil {
		return err
	}
	defer func() {
		_, closed := turn.Close(context.WithoutCancel(ctx), nil)
		err = errors.Join(err, closed)
	}()
	q := session.WorkRequest{Conversation: turn.Conversation(), Turn: turn.Fence(), Ensure: true}
	return w.working(turn.Context(), q, func(wk *session.Work) error {
		sleeps := sleeper("")
		sleeps.Detached = true
		p, err := turn.Sandbox(wk.Sandbox()).Start(ctx, sleeps)
		if err != nil {
			return err
		}
		if err := w.places.do("write", func() error { return keep(ctx, wk.Sandbox()) }); err != nil {
			return err
		}
		return w.places.do("stop", func() error {
			if err := p.Signal(ctx, sandbox.SignalKill); err != nil {
				return err
			}
			_, err := p.Wait(ctx)
			return err
		})
	})
}

// takeOver is the next turn. It says when it has begun, and ends once it is told to.
func (w *world) takeOver(ctx context.Context, sc *scene, said *json.Decoder) error {
	turns, err := w.turns()
	if err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var turn *transcript.Turn
	for turn == nil {
		turn, err = turns.Begin(ctx, sc.Conversations[0])
		if errors.As(err, new(*session.HeldError)) { // until its lease has run out
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return fmt.Errorf("taking over: %w", err)
		}
	}
	say(message{TakenOver: true})
	var goOn bool
	err = said.Decode(&goOn)
	_, closed := turn.Close(ctx, nil)
	return errors.Join(err, closed)
}
