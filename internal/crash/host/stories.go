package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bunkroom/bunkroom/internal/id"
	"github.com/bunkroom/bunkroom/sandbox"
	"github.com/bunkroom/bunkroom/session"
)

// scene is what a story is about. The process that cleans up gets it, too.
type scene struct {
	Sessions      []session.ID             `json:"sessions,omitempty"`
	Conversations []session.ConversationID `json:"conversations,omitempty"`
	Environments  []session.EnvironmentID  `json:"environments,omitempty"`
}

// story is something that a process does, and what there was before.
type story struct {
	arrange func(context.Context, *world, *scene) error
	act     func(context.Context, *world, *scene) error
	// again: nobody but who asked for it knows that it was not finished.
	again  bool
	lease  time.Duration // of works; 0 = the default
	heir   bool          // whoever pays has little
	full   bool          // no machine can be had, until the next process
	stores bool          // what disks hold is charged for
	buys   bool          // the story begins with a purchase, which the next process repeats
	turn   bool          // it is a turn, which the next process takes over first; what it starts outlives its process
}

// A work that beats renews its lease so often.
const (
	beat       = time.Second
	shortLease = 3 * beat
)

// repeat asks again for what was asked for, whatever came of it.
func (s story) repeat(ctx context.Context, w *world) error {
	if !s.buys {
		return nil
	}
	return w.buy(ctx, "bought")
}

// The file that work leaves behind, and what is in it.
const (
	keptFile = "notes/kept"
	keptText = "kept\n"
)

func stories() map[string]story {
	return map[string]story{
		"provision": {arrange: spawned, act: func(ctx context.Context, w *world, sc *scene) error { return w.work(ctx, sc.Sessions[0]) }},
		"work":      {arrange: warm, act: func(ctx context.Context, w *world, sc *scene) error { return w.work(ctx, sc.Sessions[0]) }},
		"end": {arrange: warm, act: func(ctx context.Context, w *world, sc *scene) error {
			_, err := w.End(ctx, ann, sc.Sessions[0])
			return err
		}},
		"reclaim": {arrange: debris, act: func(ctx context.Context, w *world, sc *scene) error {
			return w.reclaim(ctx)
		}},
		"delete environment": {arrange: environment, act: func(ctx context.Context, w *world, sc *scene) error {
			_, err := w.DeleteEnvironment(ctx, ann, sc.Environments[0])
			return err
		}},
		"purge of a session": {again: true, arrange: warm, act: func(ctx context.Context, w *world, sc *scene) error {
			_, err := w.Purge(ctx, session.PurgeTarget{Session: sc.Sessions[0]}, session.PurgeOptions{})
			return errors.Join(err, w.reclaim(ctx))
		}},
		"purge of a project with its history": {again: true, arrange: func(ctx context.Context, w *world, sc *scene) error {
			return errors.Join(warm(ctx, w, sc), environment(ctx, w, sc))
		}, act: func(ctx context.Context, w *world, _ *scene) error {
			_, err := w.Purge(ctx, session.PurgeTarget{Project: project, History: true}, session.PurgeOptions{})
			return errors.Join(err, w.reclaim(ctx))
		}},
		"sweep": {arrange: orphan, act: func(ctx context.Context, w *world, _ *scene) error {
			for range 2 { // the first finds it, the second buries it
				if _, err := w.Sweep(ctx, session.SweepOptions{Grace: time.Nanosecond}); err != nil {
					return err
				}
			}
			return w.reclaim(ctx)
		}},

		"turn": {turn: true, arrange: talked, act: func(ctx context.Context, w *world, sc *scene) error { return w.takeTurn(ctx, sc) }},

		"storage": {stores: true, arrange: full, act: func(ctx context.Context, w *world, sc *scene) error {
			if err := w.charge(ctx); err != nil {
				return err
			}
			_, err := w.End(ctx, ann, sc.Sessions[0])
			return errors.Join(err, w.charge(ctx), w.charge(ctx))
		}},

		"beats": {lease: shortLease, buys: true, arrange: warm, act: func(ctx context.Context, w *world, sc *scene) error {
			return errors.Join(w.buy(ctx, "bought"), w.beats(ctx, sc.Sessions[0], 2))
		}},
		"out of credit": {lease: shortLease, heir: true, arrange: func(ctx context.Context, w *world, sc *scene) error {
			defer w.inherit()
			return warm(ctx, w, sc)
		}, act: func(ctx context.Context, w *world, sc *scene) error { return w.runsOut(ctx, sc.Sessions[0]) }},
		"no machine": {full: true, arrange: spawned, act: func(ctx context.Context, w *world, sc *scene) error {
			_, err := w.Open(ctx, ann, session.WorkRequest{Session: sc.Sessions[0], Ensure: true})
			if !errors.Is(err, session.ErrUnavailable) {
				return fmt.Errorf("opened where no machine could be had: %w", err)
			}
			return nil
		}},
		"abandoned": {lease: shortLease, arrange: abandoned, act: func(ctx context.Context, w *world, _ *scene) error {
			return errors.Join(w.chores(ctx), w.expire(ctx), w.deliver(ctx))
		}},
		"expired, then abandoned": {lease: shortLease, arrange: abandoned, act: func(ctx context.Context, w *world, _ *scene) error {
			return errors.Join(w.expire(ctx), w.chores(ctx), w.deliver(ctx))
		}},
	}
}

func spawned(ctx context.Context, w *world, sc *scene) error { return w.spawn(ctx, sc, "") }

// spawn opens a session with its conversation.
func (w *world) spawn(ctx context.Context, sc *scene, e session.EnvironmentID) error {
	s, v, err := w.Spawn(ctx, ann, session.Spawn{Project: project, Agent: agent, Environment: e})
	if err == nil {
		sc.Sessions, sc.Conversations = append(sc.Sessions, s.ID), append(sc.Conversations, v.ID)
	}
	return err
}

// work is the main job: a process in the background, a file, a command, all in a machine that is made if need be.
func (w *world) work(ctx context.Context, id session.ID) error {
	return w.working(ctx, session.WorkRequest{Session: id, Ensure: true}, func(wk *session.Work) error {
		sb := wk.Sandbox()
		if _, err := sb.Start(ctx, sleeper("")); err != nil {
			return err
		}
		if err := w.places.do("write", func() error { return keep(ctx, sb) }); err != nil {
			return err
		}
		got, err := cat(ctx, sb)
		if err == nil && got != keptText {
			err = fmt.Errorf("the file has %q", got)
		}
		return err
	})
}

// working does something in a work, which it opens and closes.
func (w *world) working(ctx context.Context, q session.WorkRequest, do func(*session.Work) error) (err error) {
	wk, err := w.Open(ctx, ann, q)
	if err != nil {
		return err
	}
	opened(wk)
	defer func() {
		_, closed := wk.Close(context.WithoutCancel(ctx))
		err = errors.Join(err, closed)
	}()
	return do(wk)
}

// sleeper runs on and on, and what it has started does.
func sleeper(tag string) sandbox.Cmd {
	return sandbox.Cmd{Argv: []string{"sh", "-c", "while :; do sleep 1; done & setsid sleep 1000"}, Tag: tag}
}

func keep(ctx context.Context, sb sandbox.Sandbox) error {
	f, err := sb.FS().Create(ctx, keptFile, nil)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, keptText); err != nil {
		return errors.Join(err, f.Abort())
	}
	return f.Close()
}

// cat has a process read the file.
func cat(ctx context.Context, sb sandbox.Sandbox) (string, error) {
	var out, errs bytes.Buffer
	exit, err := sandbox.Run(ctx, sb, sandbox.Cmd{Argv: []string{"sh", "-c", "test ! -e " + keptFile + " || cat " + keptFile}}, &out, &errs)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("cat: %+v: %s", exit, errs.String())
	}
	return out.String(), err
}

// warm is a session whose machine is there, with a file in it.
func warm(ctx context.Context, w *world, sc *scene) error {
	if err := w.spawn(ctx, sc, ""); err != nil {
		return err
	}
	return w.work(ctx, sc.Sessions[len(sc.Sessions)-1])
}

// environment is a machine that a session borrows.
func environment(ctx context.Context, w *world, sc *scene) error {
	e, err := w.CreateEnvironment(ctx, ann, session.NewEnvironment{Project: project})
	if err != nil {
		return err
	}
	sc.Environments = append(sc.Environments, e.ID)
	if err := w.spawn(ctx, sc, e.ID); err != nil {
		return err
	}
	return w.work(ctx, sc.Sessions[len(sc.Sessions)-1])
}

var errOutage = errors.New("the provider is out")

// debris is one of each thing that a reclaim finds: a machine that could not
// be killed, one whose session was deleted, a create whose answer was lost, and one that came to nothing.
func debris(ctx context.Context, w *world, sc *scene) error {
	for range 2 {
		if err := warm(ctx, w, sc); err != nil {
			return err
		}
	}
	w.places.fails("destroy", errOutage)
	if _, err := w.End(ctx, ann, sc.Sessions[0]); err != nil {
		return err
	}
	w.places.fails("destroy", nil)
	if _, err := w.db.Sessions().Commit(ctx, session.Change{Delete: []session.Address{{Session: sc.Sessions[1]}}}); err != nil {
		return err
	}
	for range 2 {
		if err := w.spawn(ctx, sc, ""); err != nil {
			return err
		}
		if err := w.unanswered(ctx, sc.Sessions[len(sc.Sessions)-1]); err != nil {
			return err
		}
	}
	w.places.fails("create", nil)
	s, err := w.db.Sessions().Load(ctx, session.Address{Session: sc.Sessions[3]})
	if err != nil {
		return err
	}
	found, err := w.machine.Inspect(ctx, s.Sandbox.Ref())
	if err != nil || len(found) != 1 {
		return fmt.Errorf("the machine whose create was not answered: %v, %w", found, err)
	}
	ref := s.Sandbox.Ref()
	ref.Incarnation = found[0].Incarnation
	if err := w.machine.Destroy(ctx, ref); err != nil {
		return err
	}
	return w.later(ctx, sc)
}

// unanswered asks for a machine and gives up waiting as soon as the answer is lost.
func (w *world) unanswered(ctx context.Context, id session.ID) error {
	lost := w.places.fails("create", errOutage)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	wk, err := w.Open(ctx, ann, session.WorkRequest{Session: id, Ensure: true})
	if err == nil {
		_, err = wk.Close(context.WithoutCancel(ctx))
		return errors.Join(errors.New("the create was answered"), err)
	}
	return nil
}

// orphan is a machine that nobody knows of, and old enough not to be about to be known.
func orphan(ctx context.Context, w *world, _ *scene) error {
	sandboxID := id.New()
	_, err := w.machine.Create(ctx, sandbox.CreateRequest{Name: "bkr-" + sandboxID + "-g1", Labels: map[string]string{
		sandbox.LabelDeployment: deployment, sandbox.LabelSandbox: sandboxID, sandbox.LabelGeneration: "1",
	}})
	if err != nil {
		return err
	}
	return w.aged(ctx)
}

// reclaim makes passes until one finds nothing to do.
func (w *world) reclaim(ctx context.Context) error {
	for range 20 {
		quiet, err := w.pass(ctx)
		if err != nil || quiet {
			return err
		}
	}
	return errors.New("the Keeper has not come to rest in 20 passes")
}

// pass makes one, and reports whether it found nothing but machines that are well.
func (w *world) pass(ctx context.Context) (quiet bool, err error) {
	rep, err := w.Reclaim(ctx, session.ReclaimOptions{})
	quiet = true
	for _, i := range rep.Items {
		quiet = quiet && i.Action == session.ReclaimSeen
	}
	return quiet, err
}
