package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// visit is what the next process found in a session once everything was cleaned up.
type visit struct {
	Session session.ID `json:"session"`
	// Gone: there is no such session any more, or no sandbox for it.
	Gone bool `json:"gone,omitempty"`
	// Lived: its machine was there before anybody worked in it.
	Lived bool `json:"lived,omitempty"`
	// Kept is what the file had in it.
	Kept string `json:"kept,omitempty"`
}

// recover is what the next process does: it cleans up and says so; and once
// it is told to, it works in every session there is.
func (w *world) recover(ctx context.Context) error {
	if w.story.heir {
		w.inherit()
	}
	if err := w.story.repeat(ctx, w); err != nil {
		return err
	}
	said := json.NewDecoder(os.Stdin)
	var sc scene
	if err := said.Decode(&sc); err != nil {
		return err
	}
	if w.story.turn {
		if err := w.takeOver(ctx, &sc, said); err != nil {
			return err
		}
	}
	if err := w.rest(ctx, &sc); err != nil {
		return err
	}
	say(message{Recovered: true})
	var goOn bool
	if err := said.Decode(&goOn); err != nil {
		return err
	}
	if err := w.buy(ctx, "top-up"); err != nil {
		return err
	}
	if w.story.again {
		if err := w.story.act(ctx, w, &sc); err != nil {
			return fmt.Errorf("asked again: %w", err)
		}
	}
	used := []visit{}
	for _, id := range sc.Sessions {
		v, err := w.visit(ctx, id)
		if err != nil {
			return fmt.Errorf("working on in session %s: %w", id, err)
		}
		used = append(used, v)
	}
	if err := w.rest(ctx, &sc); err != nil {
		return err
	}
	say(message{Used: used})
	return nil
}

// rest lets the Keeper work until nothing is left to do.
func (w *world) rest(ctx context.Context, sc *scene) error {
	for range 20 {
		if err := w.later(ctx, sc); err != nil {
			return err
		}
		if err := errors.Join(w.chores(ctx, w.moneyChores()...), w.charge(ctx)); err != nil {
			return err
		}
		expired, err := w.db.Leases().Expired(ctx, 1)
		if err != nil {
			return err
		}
		swept, err := w.sweep(ctx)
		if err != nil {
			return err
		}
		quiet, err := w.pass(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(w.expire(ctx), w.deliver(ctx)); err != nil {
			return err
		}
		settled, err := w.settled(ctx)
		if err != nil {
			return err
		}
		if quiet && swept && settled && len(expired) == 0 {
			return nil
		}
	}
	return errors.New("the Keeper has not come to rest in 20 passes")
}

// sweep makes a pass over all machines there are, and reports whether it has found none without a name.
func (w *world) sweep(ctx context.Context) (quiet bool, err error) {
	rep, err := w.Sweep(ctx, session.SweepOptions{Grace: time.Nanosecond})
	if err != nil || len(rep.Items) == 0 {
		return err == nil, err
	}
	return false, w.aged(ctx)
}

// visit works in a session, which is reopened if need be.
func (w *world) visit(ctx context.Context, id session.ID) (v visit, err error) {
	v = visit{Session: id}
	s, err := w.db.Sessions().Load(ctx, session.Address{Session: id})
	if errors.Is(err, session.ErrNotFound) {
		v.Gone = true
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.Lived = s.Sandbox.State == sandbox.Live
	wk, err := w.open(ctx, session.WorkRequest{Session: id, Ensure: true, Reopen: true})
	if errors.Is(err, session.ErrEnvironmentGone) {
		v.Gone = true
		return v, nil
	}
	if err != nil {
		return v, err
	}
	defer func() {
		_, closed := wk.Close(ctx)
		err = errors.Join(err, closed)
	}()
	v.Kept, err = cat(ctx, wk.Sandbox())
	return v, err
}

// open opens work. Where an attempt of the dead process has come to nothing, it
// first waits for as long as it is told to.
func (w *world) open(ctx context.Context, q session.WorkRequest) (*session.Work, error) {
	for {
		wk, err := w.Open(ctx, ann, q)
		failed, ok := errors.AsType[*sandbox.AttemptsError](err)
		if !ok {
			return wk, err
		}
		select {
		case <-time.After(failed.RetryAfter):
		case <-ctx.Done():
			return nil, err
		}
	}
}
